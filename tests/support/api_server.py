"""A Kubernetes API server of one's own on loopback: no nodes and no controllers, so that tests can put a cluster into
any state without disturbing another. Its binary is the test bed's.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from ssl import CERT_NONE, create_default_context

from support.kube import Kube
from support.operator_process import free_ports
from support.tools import command

BINARIES = Path(os.environ.get("KUBE_BIN_DIR") or Path(os.environ.get("TESTBED_DIR", "/var/tmp/testbed")) / "bin")
START_SECONDS = 120.0
END_SECONDS = 20.0
ADMINISTRATOR = "administrator"
NOBODY = "nobody"


class ApiServer:
    """Whoever presents the token NAME is the user NAME; `administrator` may do everything, others nothing at first."""

    def __init__(self, folder: Path, port: int, *arguments: str | Path) -> None:
        """`arguments` are of its process, which `start` starts and `stop` ends."""
        self._folder = folder
        self._port = port
        self._arguments = arguments
        self._running = ExitStack()

    def start(self) -> None:
        """Raises AssertionError when it does not start."""
        process = self._running.enter_context(
            _process(self._folder / "api-server.log", BINARIES / "kube-apiserver", *self._arguments)
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            log = (self._folder / "api-server.log").read_text()
            assert process.poll() is None, f"the API server ended:\n{log[-4000:]}"
            assert time.monotonic() < deadline, f"the API server is not ready:\n{log[-4000:]}"
            time.sleep(0.3)

    def stop(self) -> None:
        """What it stores stays, and it can be started again."""
        self._running.close()

    def kubeconfig(self, user: str, namespace: str = "default") -> Path:
        """A file, for a user that the server was started with."""
        path = self._folder / f"{user}-{namespace}.kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        context = {"cluster": "private", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "private", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "private", "context": context}],
            "current-context": "private",
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def kube(self, namespace: str = "default") -> Kube:
        """As the administrator."""
        return Kube(self.kubeconfig(ADMINISTRATOR, namespace), namespace)

    def is_ready(self) -> bool:
        trusting = create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, CERT_NONE
        request = urllib.request.Request(
            f"https://127.0.0.1:{self._port}/readyz", headers={"Authorization": f"Bearer {ADMINISTRATOR}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5, context=trusting) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def api_server(folder: Path, *users: str) -> Iterator[ApiServer]:
    """Until the block ends; its data and logs are in `folder`. Raises AssertionError when it does not start."""
    etcd_port, peer_port, port = free_ports(3)
    etcd = f"http://127.0.0.1:{etcd_port}"
    key = folder / "service-accounts.key"
    command("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    tokens = folder / "tokens.csv"
    tokens.write_text(
        f'{ADMINISTRATOR},{ADMINISTRATOR},0,"system:masters"\n' + "".join(f"{u},{u},{u}\n" for u in users)
    )
    server = ApiServer(
        folder,
        port,
        *(f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}"),
        *(f"--cert-dir={folder}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
        *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
        *("--service-account-issuer=https://private", "--service-cluster-ip-range=10.97.0.0/24"),
        # Nobody makes the service accounts that it would ask for.
        "--disable-admission-plugins=ServiceAccount",
    )
    with ExitStack() as stack:
        stack.enter_context(
            _process(
                folder / "etcd.log",
                "etcd",
                *("--data-dir", folder / "etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer_port}"),
            )
        )
        stack.callback(server.stop)
        server.start()
        yield server


@contextmanager
def _process(log: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen([str(argument) for argument in arguments], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
