"""Does compression cost model quality? Validation loss of the text model, all machines simulated in one process.

Gradients of every machine's own batch go through the very lanes, codecs and algorithms of training, over transports
that are queues; tests/trainer/comm/test_lane.py proves that the bits are those of real connections.

    python bench/loss.py --quick
    python bench/loss.py --rows fp32,zfp-4-direct --seeds 0,1,2,3,4 --json results.json

A file that is there already is added to: rows and seeds in it are not run again.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import nn

from power_sgd import PowerSGD
from ringtrain.checkpoint.randomness import seed as seed_all
from ringtrain.comm.bucket_sum import BucketSum
from ringtrain.comm.buckets import layout, parameter_infos
from ringtrain.comm.codec.build import Codecs, build_codecs
from ringtrain.comm.codec.zfp import Zfp
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.intra import Alone
from ringtrain.comm.lane import Lane
from ringtrain.comm.topology import Topology
from ringtrain.comm.transport.memory import memory_transports
from ringtrain.contract.communication import DEFAULT_RATE, CommunicationConfig
from ringtrain.contract.trainer_config import (
    BatchConfig,
    DataConfig,
    ModelConfig,
    OptimizerConfig,
    TrainerConfig,
)
from ringtrain.data.corpus import Corpus, load_corpus
from ringtrain.data.loader import Batches
from ringtrain.models import build_model
from ringtrain.train.optimizer import AdamW
from ringtrain.train.schedule import learning_rate

HELD_OUT = 1 / 20
EVALUATION_BATCHES = 32
CURVE_EVERY = 25


POWER_SGD = {"powersgd-1": 1, "powersgd-4": 4}
"""Rows of torch's peer, and their ranks."""
TRUNCATED = "-truncated"
"""Marks rows whose zfp decodes as zfpy does, not to the middle of what was cut off."""


def rows() -> dict[str, CommunicationConfig]:
    """By name; `wNN` is a warm-up of so many rounds, `ef` plain and `damped` damped error feedback.

    `fp32-direct` adds in another order and loses nothing: how far it ends from `fp32` is what a pair of runs resolves.
    """
    found = {
        "fp32": CommunicationConfig(codec="none"),
        "fp32-direct": CommunicationConfig(codec="none", algorithm="direct"),
        "bf16": CommunicationConfig(codec="bf16"),
    }
    for algorithm in ("ring", "direct"):
        for rate in (4, 5, 6, 8):
            for warm_up in (0, 50):
                for feedback, mark in (("none", ""), ("plain", "-ef"), ("damped", "-damped")):
                    name = f"zfp-{rate}-{algorithm}{mark}" + f"-w{warm_up}" * (warm_up > 0)
                    found[name] = CommunicationConfig(
                        codec="zfp", rate=rate, algorithm=algorithm, error_feedback=feedback, warmup_rounds=warm_up
                    )
        for rotate in (False, True):
            for feedback, mark in (("none", ""), ("plain", "-ef"), ("damped", "-damped")):
                found[f"int4-{algorithm}{'-rotated' * rotate}{mark}"] = CommunicationConfig(
                    codec="int4", rotate=rotate, algorithm=algorithm, error_feedback=feedback, warmup_rounds=0
                )
    for name in [name for name in found if name.startswith("zfp")]:
        found[name + TRUNCATED] = found[name]
    return found


def codecs_of(name: str) -> Codecs:
    codecs = build_codecs(rows()[name])
    if not name.startswith("zfp"):
        return codecs
    rate = rows()[name].rate or DEFAULT_RATE
    return dataclasses.replace(codecs, main=Zfp(rate, midpoint=not name.endswith(TRUNCATED)))


def configuration(rounds: int, seed: int) -> TrainerConfig:
    return TrainerConfig(
        rounds=rounds,
        seed=seed,
        model=ModelConfig(size="tiny", context_length=64),
        data=DataConfig(paths=("{stdlib}/*.py",)),
        batch=BatchConfig(per_rank=4),
        optimizer=OptimizerConfig(learning_rate=2e-3, warmup_rounds=25),
    )


class Machines:
    """The gradients of all machines, and the threads that sum them."""

    def __init__(self, model: nn.Module, name: str, machines: int) -> None:
        self._config = config = rows()[name]
        codecs = codecs_of(name)
        self._layout = layout(parameter_infos(model), int(config.bucket_mebibytes * 2**20))
        self._parameters = dict(model.named_parameters())
        self._lanes = [Lane(Alone(), transport, config.chosen_algorithm) for transport in memory_transports(machines)]
        topology = Topology.of(range(machines), 1)
        self._sums = [
            [BucketSum(bucket, topology, codecs, torch.device("cpu")) for bucket in self._layout]
            for _ in range(machines)
        ]
        self._threads = ThreadPoolExecutor(machines)
        self.sent = 0

    def take(self, machine: int) -> None:
        """The gradients in the model are that machine's."""
        for bucket, each in zip(self._layout, self._sums[machine], strict=True):
            for part in bucket.slices:
                gradient = self._parameters[part.name].grad
                assert gradient is not None
                each.part(part).copy_(gradient.flatten())

    def reduce(self, round: int) -> None:
        """Puts the sums into the model's gradients. Raises AssertionError when machines have different ones."""
        list(self._threads.map(lambda machine: self._reduce(machine, round), range(len(self._lanes))))
        for index, bucket in enumerate(self._layout):
            first, *others = (sums[index] for sums in self._sums)
            for other in others:
                assert torch.equal(first.buffer, other.buffer)
            for part in bucket.slices:
                gradient = self._parameters[part.name].grad
                assert gradient is not None
                gradient.copy_(first.part(part).view_as(gradient))

    def _reduce(self, machine: int, round: int) -> None:
        for each in self._sums[machine]:
            for task in each.tasks(compressing=round > self._config.warmup_rounds):
                messages = Messages(task.codec, task.residual, task.keep)
                traffic = self._lanes[machine].all_reduce(task.segment, task.scale, messages)
                if machine == 0:
                    self.sent += traffic.inter.sent_bytes


def train(name: str, seed: int, rounds: int, machines: int, corpus: Corpus) -> dict[str, object]:
    config = configuration(rounds, seed)
    began = time.monotonic()
    seed_all(seed)
    model = build_model(config.model, corpus.vocabulary, seed)
    optimizer = AdamW(model, config.optimizer)
    cut = int(len(corpus.tokens) * (1 - HELD_OUT))
    training = dataclasses.replace(corpus, tokens=corpus.tokens[:cut])
    held_out = dataclasses.replace(corpus, tokens=corpus.tokens[cut:])
    batches = [Batches(training, config, machine, machines) for machine in range(machines)]
    sums = (
        PowerSGD(model, POWER_SGD[name], machines, rounds // 10)
        if name in POWER_SGD
        else Machines(model, name, machines)
    )
    curve: dict[int, float] = {}
    for round in range(1, rounds + 1):
        tokens = 0
        for machine in range(machines):
            loss, count = model.loss(batches[machine].next())
            torch.autograd.backward(loss)
            tokens += int(count)
            sums.take(machine)
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.zero_()
        sums.reduce(round)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.div_(tokens)
        nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.gradient_clip)
        optimizer.step(learning_rate(config.optimizer, round, rounds))
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.zero_()
        if round % CURVE_EVERY == 0 or round == rounds:
            curve[round] = evaluate(model, held_out, config)
    return {
        "row": name, "seed": seed, "rounds": rounds, "machines": machines, "loss": curve[rounds], "curve": curve,
        "parameters": sum(p.numel() for p in model.parameters()), "bytes_per_round": sums.sent // rounds,
        "seconds": round_to(time.monotonic() - began),
    }  # fmt: skip


def round_to(seconds: float) -> float:
    return float(f"{seconds:.1f}")


@torch.no_grad()
def evaluate(model: nn.Module, held_out: Corpus, config: TrainerConfig) -> float:
    """Mean loss in nats per token on text that is never trained on, the same for all seeds."""
    same = config.model_copy(update={"seed": 0, "batch": BatchConfig(per_rank=16)})
    batches = Batches(held_out, same, 0, 1)
    loss, tokens = 0.0, 0
    for _ in range(EVALUATION_BATCHES):
        total, count = model.loss(batches.next())
        loss += float(total)
        tokens += int(count)
    return loss / tokens


def table(results: list[dict[str, object]]) -> Iterator[str]:
    losses: dict[str, dict[int, float]] = {}
    for result in results:
        losses.setdefault(str(result["row"]), {})[int(str(result["seed"]))] = float(str(result["loss"]))
    plain = losses.get("fp32", {})
    yield "| row | seeds | loss, mean | loss, by seed | worse than fp32, paired mean | worst |"
    yield "|---|---|---|---|---|---|"
    for name, by_seed in losses.items():
        paired = [100 * (loss / plain[seed] - 1) for seed, loss in by_seed.items() if seed in plain]
        worse = f"{statistics.mean(paired):+.2f} % | {max(paired):+.2f} %" if paired else " | "
        each = " ".join(f"{by_seed[seed]:.4f}" for seed in sorted(by_seed))
        yield f"| {name} | {len(by_seed)} | {statistics.mean(by_seed.values()):.4f} | {each} | {worse} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="fp32,zfp-4-direct", help="by name, with commas; `list` shows all")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument("--json", type=Path, help="kept after every row, and added to")
    args = parser.parse_args()
    if args.rows == "list":
        print("\n".join([*rows(), *POWER_SGD]))
        return
    torch.set_num_threads(1)
    results = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    done = {(result["row"], result["seed"], result["rounds"], result["machines"]) for result in results}
    rounds = 20 if args.quick else args.rounds
    corpus = load_corpus(configuration(rounds, 0).data)
    for seed in map(int, args.seeds.split(",")):
        for name in args.rows.split(","):
            if (name, seed, rounds, args.machines) in done:
                continue
            results.append(train(name, seed, rounds, args.machines, corpus))
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n")
            print(f"{name} seed {seed}: {results[-1]['loss']:.4f} in {results[-1]['seconds']} s", flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
