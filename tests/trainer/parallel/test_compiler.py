"""torch.compile of sub-layers: beside all else that parallelism can do, and without its compiler."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.parallel.compiler import require_compiler
from ringtrain.runtime.errors import BadConfiguration
from trainer.comm.ranks import Ranks
from trainer.parallel import bodies
from trainer.parallel.bodies import Setting

COMPILED = ParallelismConfig(compile=True)
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def compiled(**parallelism: Any) -> dict[str, Any]:
    return {"compile": True, **parallelism}


SETTINGS = {
    "pipeline": Setting(pipeline=2, parallelism=compiled()),
    "interleaved, checkpointing": Setting(
        pipeline=2, parallelism=compiled(schedule="Interleaved1F1B", activation_checkpointing=True)
    ),
    "sharding": Setting(processes=2, parallelism=compiled(sharding="machine")),
    "sharding, checkpointing": Setting(
        processes=2, parallelism=compiled(sharding="machine", activation_checkpointing=True)
    ),
    "bf16": Setting(pipeline=2, parallelism=compiled(precision="bf16", activation_checkpointing=True)),
}


@pytest.mark.distributed
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_compiled_model_trains_the_same(name: str, eager: dict[str, Any]) -> None:
    with Ranks(patience=600) as ranks:
        results = ranks.run(2, bodies.train_compiled, SETTINGS[name])
    tolerance = 2e-3 if name == "bf16" else 5e-6
    for graphs, result in results:
        # Attention and feed-forward, each with a backward pass and, to evaluate, without.
        assert graphs >= 4
        np.testing.assert_allclose(result["losses"], eager["losses"], rtol=tolerance)
        np.testing.assert_allclose(result["evaluated"], eager["evaluated"], rtol=tolerance)
        assert result["whole"] == results[0][1]["whole"]


@pytest.fixture(scope="module")
def eager() -> dict[str, Any]:
    with Ranks() as ranks:
        (result,) = ranks.run(1, bodies.train_all, [Setting()])
    only: dict[str, Any] = result[0]
    return only


def test_a_machine_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    require_compiler(ParallelismConfig(), CPU)
    with pytest.raises(
        BadConfiguration, match=r"spec.parallelism.compile needs a compiler, and there is no g\+\+ here"
    ):
        require_compiler(COMPILED, CPU)
    with pytest.raises(BadConfiguration, match=r"no gcc or clang here: .* by the environment variable CC"):
        require_compiler(COMPILED, GPU)
    monkeypatch.setenv("CXX", "mine++")
    with pytest.raises(BadConfiguration, match=r"no mine\+\+ here: .* by the environment variable CXX"):
        require_compiler(COMPILED, CPU)
    (tmp_path / "mine++").touch(mode=0o755)
    require_compiler(COMPILED, CPU)
