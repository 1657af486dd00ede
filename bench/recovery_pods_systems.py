"""The systems of the cluster's recovery benchmark: a TrainingJob, and what their users deploy for the peers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import recovery_manifests as manifests
from recovery_log import RingtrainLog
from recovery_pods import Kubectl, PodJob
from recovery_results import RANKS
from recovery_rounds import Finished
from recovery_torchft import LIGHTHOUSE, LIGHTHOUSE_OPTIONS, bundle

_PORTS = {"RINGTRAIN_HEALTH_PORT": "18591", "RINGTRAIN_METRICS_PORT": "18590", "RINGTRAIN_PAGE_PORT": "18592"}
_LIGHTHOUSE_PORT = 29510
_TORCHFT = "/state/torchft"
_TORCHRUN = "python -m torch.distributed.run --nproc-per-node=1 --max-restarts=100 --monitor-interval=0.1"


class RingtrainPods(PodJob):
    """Its operator is a process beside the benchmark, as a pod on a machine that is not lost would be."""

    selector = f"ringtrain.io/job={manifests.JOB}"

    def __init__(self, directory: Path, kubectl: Kubectl, image: str) -> None:
        super().__init__(directory, kubectl, image)
        self._told = RingtrainLog(self.finished)
        self._operator: subprocess.Popen[bytes] | None = None

    def submit(self) -> None:
        env = os.environ | _PORTS | {"RINGTRAIN_WATCH_NAMESPACES": self.kubectl.namespace}
        command = [sys.executable, "-m", "ringtrain_operator"]
        with (self.directory / "operator.log").open("wb") as log:
            self._operator = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.kubectl.apply(manifests.spread_job(self.image))

    def take(self, pod: str, at: float, text: str) -> None:  # noqa: ARG002
        self._told.take(at, text)

    def steps(self, fault_at: float, until: float) -> dict[str, float]:
        return self._told.steps(fault_at, until)

    def close(self) -> None:
        self.kubectl("delete", "trainingjob", manifests.JOB, "--ignore-not-found", "--wait=false")
        super().close()
        if self._operator is not None:
            self._operator.kill()
            self._operator.wait()


class PeerPods(PodJob):
    """Workers tell by lines of JSON, as on one machine."""

    def take(self, pod: str, at: float, text: str) -> None:  # noqa: ARG002
        if text.startswith('{"at"'):
            self.finished.append(Finished(**json.loads(text)))

    def submit(self) -> None:
        programs = {file.name: file.read_text() for file in Path(__file__).parent.glob("recovery_*.py")}
        self.kubectl.apply(manifests.code(programs), manifests.claim())
        self.prepare()
        self.kubectl.apply(*self.workers())

    def prepare(self) -> None:
        """What must be there before the workers, on the claim's volume."""

    def workers(self) -> list[manifests.Object]:
        raise NotImplementedError


class TorchrunPods(PeerPods):
    selector = "app=torchrun"

    def workers(self) -> list[manifests.Object]:
        command = (
            f"exec {_TORCHRUN} --nnodes={RANKS} --rdzv-backend=c10d --rdzv-id=bench"
            f" --rdzv-endpoint=torchrun-0.torchrun:{manifests.RENDEZVOUS_PORT}"
            " --rdzv-conf=is_host=$([ $POD = torchrun-0 ] && echo 1 || echo 0)"
            " --local-addr=$POD.torchrun /bench/recovery_torchrun_rank.py /state"
        )
        # As on one machine: workers that are started again find what those before them left in a shared store.
        env = {"PYTHONPATH": "/bench", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return manifests.stateful_set("torchrun", self.image, ("sh", "-c", command), replicas=RANKS, env=env)


class TorchFTPods(PeerPods):
    """The Lighthouse is in the first pod. Its HTTP transport and its Manager announce the host's own name."""

    selector = "app=torchft"

    def prepare(self) -> None:
        bundle(self.kubectl.volume(manifests.STATE) / "torchft")

    def workers(self) -> list[manifests.Object]:
        lighthouse = f"python {_TORCHFT}/{LIGHTHOUSE} --bind=[::]:{_LIGHTHOUSE_PORT} {' '.join(LIGHTHOUSE_OPTIONS)}"
        command = (
            f"[ $POD != torchft-0 ] || {lighthouse} & "
            f"exec {_TORCHRUN} --nnodes=1 --master-addr=$(hostname) --master-port={manifests.RENDEZVOUS_PORT}"
            " /bench/recovery_torchft_rank.py ${POD##*-} $(hostname)"
        )
        env = {
            "PYTHONPATH": f"/bench:{_TORCHFT}",
            "TORCHFT_LIGHTHOUSE": f"http://torchft-0.torchft:{_LIGHTHOUSE_PORT}",
        }
        return manifests.stateful_set(
            "torchft", self.image, ("sh", "-c", command), replicas=RANKS, env=env, whole_host=True
        )
