"""What a Prometheus answers the panels of the dashboards: of a job in a cluster, by `testbed/panels`."""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import promql
from support.kube import Kube
from support.prometheus import Prometheus, annotated_pods, shipped_relabeling

PATIENCE = 120.0


@dataclass(frozen=True)
class Answer:
    """Of one query."""

    board: str
    panel: str
    expression: str
    numbers: tuple[float, ...]
    """One a series, finite; none: it had no data in time."""


def numbers(prometheus: Prometheus, expression: str, patience: float = PATIENCE) -> tuple[float, ...]:
    """The first that are finite: quotients and quantiles are none in an interval in which nothing was counted."""
    deadline = time.monotonic() + patience
    while True:
        found = tuple(filter(math.isfinite, prometheus.query(expression).values()))
        if found or time.monotonic() > deadline:
            return found
        time.sleep(1)


def answers(prometheus: Prometheus, namespace: str, job: str) -> Iterator[Answer]:
    """Of every query of every panel, about one job. Prometheus has to be up."""
    for name, board in promql.dashboards().items():
        for title, expression in promql.queries(board):
            asked = promql.filled(expression, namespace=namespace, training_job=job)
            yield Answer(name, title, asked, numbers(prometheus, asked))


def main() -> None:
    parser = argparse.ArgumentParser(prog="testbed/panels", description=__doc__)
    parser.add_argument("namespace", help="of the job")
    parser.add_argument("job", help="one that trains")
    asked = parser.parse_args()
    if "KUBECONFIG" not in os.environ:
        parser.error("KUBECONFIG names no cluster: export KUBECONFIG=$(testbed/cluster kubeconfig)")
    kube = Kube(Path(os.environ["KUBECONFIG"]), asked.namespace)
    empty = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Prometheus(
            lambda: annotated_pods(kube), Path(folder), promql.RULES, relabeling=shipped_relabeling()
        ) as prometheus,
    ):
        selector = f'{{namespace="{asked.namespace}",training_job="{asked.job}"}}'
        prometheus.until(f"ringtrain_job_phase{selector}", PATIENCE)
        prometheus.until(f"ringtrain_rounds_total{selector}", PATIENCE)
        for answer in answers(prometheus, asked.namespace, asked.job):
            shown = " ".join(f"{number:.4g}" for number in answer.numbers[:6]) or "EMPTY"
            sys.stdout.write(f"{answer.board:9} {answer.panel:34} {shown}\n")
            sys.stdout.flush()
            empty += not answer.numbers
    sys.exit(f"{empty} queries had no data within {PATIENCE:.0f} s" if empty else 0)


if __name__ == "__main__":
    main()
