import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ringtrain_operator.commands.app import app

JOB = """\
apiVersion: ringtrain.io/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec:
  image: x
  replicas: 3
  device: cpu
  communication: {codec: zfp, rate: 8}
  trainer:
    rounds: 10
    model: {size: nano}
    data: {paths: ["*.txt"]}
"""
COMMAND = JOB[: JOB.index("  trainer:")] + "  command: [python, train.py]\n"
WITHOUT_JOB = ["--link", "25Gbit", "--machines", "64", "--parameters", "7e9", "--compute-seconds", "0.8"]


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["advise", *map(str, arguments)])


def write(folder: Path, text: str = JOB) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert not result.stdout
    return " ".join(re.sub("[\u2500-\u257f]", " ", result.stderr).split())


def test_a_job_on_its_own_machines(tmp_path: Path) -> None:
    found = lines(invoke("-f", write(tmp_path), "--link", "1Gbit", "--compute-seconds", "0.3"))
    assert found[0] == "model: 124,736 parameters, the job's gpt nano"
    assert found[1] == "compute: 0.3 s a round, as given"
    assert "1 Gbit/s each way" in found[2]
    assert "processes a machine: 1" in found[2]
    assert "3 machines:" in found
    own = [line for line in found if line.endswith("the job's")]
    assert [line.split()[:2] for line in own] == [["zfp-8", "direct"]]
    assert [line.split()[0] for line in found[found.index("Extrapolated:") + 2 :][:4]] == ["8", "64", "512", "4096"]
    assert found[-1].startswith("No lossy codec pays off")


def test_without_a_job() -> None:
    found = lines(invoke(*WITHOUT_JOB))
    assert found[0].startswith("model: 7,000,000,000 parameters, in matrices of the usual proportions")
    assert "64 machines:" in found
    assert sum(" best" in line for line in found if not line.startswith("GPUs")) == 1
    assert not any("the job's" in line for line in found)


def test_options_stand_above_the_job(tmp_path: Path) -> None:
    path = write(tmp_path)
    options = [
        "--machines",
        "64",
        "--processes",
        "8",
        "--parameters",
        "7B",
        "--codec-speed",
        "3",
        "--cores",
        "1",
        "--bucket-mib",
        "64",
    ]
    found = lines(invoke("-f", path, "--link", "25Gbit", "--compute-seconds", "0.8", *options))
    assert "64 machines:" in found
    assert found[0].startswith("model: 7,000,000,000 parameters")
    assert "3 GB/s of float32 a thread" in found[3]
    assert "cores for it a process: 1" in found[3]
    assert found[3].endswith("buckets: 64 MiB")
    assert [line.split()[:2] for line in found if line.endswith("the job's")] == [["zfp-8", "direct"]]


def test_a_faster_codec_is_seen() -> None:
    slow, fast = (lines(invoke(*WITHOUT_JOB, "--codec-speed", speed)) for speed in ("0.01", "100"))
    assert slow[-1].startswith("No lossy codec pays off: with codec bf16")
    assert fast[-1].startswith("Use codec ")
    assert any("the codec, taken as the CPU's, is the limit" in line for line in slow)


def test_compute_is_estimated(tmp_path: Path) -> None:
    options = ["--link", "1Gbit", "--tflops", "0.1", "--mfu", "0.5"]
    found = lines(invoke("-f", write(tmp_path, JOB + "    batch: {perRank: 4, accumulation: 2}\n"), *options))
    # 6 x 124,736 x 4 x 2 x 128 / 50 GFLOP/s
    assert found[1].startswith("compute: 0.01533 s a round = 6 x parameters x 1,024 tokens of a GPU / (0.1 TFLOP/s")
    gpus = lines(invoke(*WITHOUT_JOB[:6], "--tokens", "16384"))
    assert gpus[1].startswith("compute: 5.514 s a round")
    assert "312 TFLOP/s x 0.4" in gpus[1]


def test_speeds_inside_a_machine(tmp_path: Path) -> None:
    assert "200 GB/s, 20 GB/s between GPU and memory" in lines(invoke(*WITHOUT_JOB))[2]
    pcie = lines(invoke(*WITHOUT_JOB, "--inside", "20GB", "--host", "10GB"))[2]
    assert "20 GB/s, 10 GB/s between GPU and memory" in pcie
    cpu = lines(invoke("-f", write(tmp_path), "--link", "1Gbit", "--compute-seconds", "1"))[2]
    assert cpu.endswith("2 GB/s")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--link", "25Gb"], "error: --link '25Gb': unknown unit 'Gb': write a speed such as 25Gbit"),
        (["--link", "0Gbit"], "error: --link '0Gbit': must be from 1 to 1e+18 bits a second"),
        (["--latency", "1e308s"], "error: --latency '1e308s': must be from 0 to 3600 seconds"),
        (["--parameters", "1e300"], "error: --parameters '1e300': must be from 1 to 1e+15"),
        (["--latency", "50"], "error: --latency '50': the unit is missing"),
        (["--inside", "2GHz"], "error: --inside '2GHz': unknown unit"),
        (["--host", "fast"], "error: --host 'fast' is not a speed"),
        (["--machines", "0"], "Invalid value for '--machines': "),
        (["--processes", "-1"], "Invalid value for '--processes': "),
        (["--cores", "0"], "Invalid value for '--cores': "),
        (["--parameters", "many"], "error: --parameters 'many' is not a number such as 7e9"),
        (["--compute-seconds", "0"], "error: --compute-seconds 0: must be from 1e-09 to 1e+09"),
        (["--compute-seconds", "nan"], "error: --compute-seconds nan: must be from 1e-09 to 1e+09"),
        (["--codec-speed", "-2"], "error: --codec-speed -2: must be from 1e-09"),
        (["--bucket-mib", "0"], "error: --bucket-mib 0: must be from 0.001 to 4096"),
        (["--bucket-mib", "1e308"], "error: --bucket-mib 1e+308: must be from 0.001 to 4096"),
        (["--max-noise", "0"], "error: --max-noise 0: must be from 1e-09"),
        (["--machines", "1000001"], "Invalid value for '--machines': "),
        (["--tokens", "100000000000000000000"], "Invalid value for '--tokens': "),
    ],
)
def test_bad_options_are_refused(options: list[str], complaint: str) -> None:
    assert complaint in refused(invoke(*WITHOUT_JOB, *options))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "Missing option '--link'"),
        (["--link", "1Gbit"], "error: --machines is missing: give it, or a job with --file"),
        (["--link", "1Gbit", "--machines", "2"], "error: --parameters is missing, and there is no job"),
        (WITHOUT_JOB[:6], "error: --tokens is missing"),
        ([*WITHOUT_JOB[:6], "--tokens", "9", "--mfu", "1.5"], "error: --mfu 1.5: must be from 0.001 to 1"),
        ([*WITHOUT_JOB[:6], "--tokens", "9", "--tflops", "0"], "error: --tflops 0: must be from 1e-09 to 1e+09"),
        ([*WITHOUT_JOB[:6], "--tokens", "9", "--tflops", "1e-300"], "error: --tflops 1e-300: must be from 1e-09"),
    ],
)
def test_what_is_missing_is_named(options: list[str], complaint: str) -> None:
    assert complaint in refused(invoke(*options))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (COMMAND, "error: --parameters is missing, and the job's model is its command's"),
        (JOB, "error: --compute-seconds is missing: measure a round, or give --tflops"),
        (JOB.replace('["*.txt"]', '["*.txt"], tokenizer: t.json'), "error: --vocabulary is missing: say how many"),
        (JOB.replace("replicas: 3", "replicas: 0"), "job.yaml: spec.replicas: "),
    ],
)
def test_jobs_that_do_not_say_enough(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaint in refused(invoke("-f", write(tmp_path, text), "--link", "1Gbit"))


def test_a_tokenizer_file_of_known_size(tmp_path: Path) -> None:
    path = write(tmp_path, JOB.replace('["*.txt"]', '["*.txt"], tokenizer: t.json'))
    found = lines(invoke("-f", path, "--link", "1Gbit", "--compute-seconds", "1", "--vocabulary", "1000"))
    assert found[0] == f"model: {124_736 + (1000 - 257) * 64:,} parameters, the job's gpt nano"


def test_the_same_in_json(tmp_path: Path) -> None:
    options = ("-f", write(tmp_path), "--link", "1Gbit", "--compute-seconds", "0.3")
    found = json.loads("".join(lines(invoke(*options, "-o", "json"))))
    shown = lines(invoke(*options))
    assert (shown[0], shown[-1]) == (found["assumed"][0], found["advice"])
    assert found["machines"] == 3
    (own,) = [row for row in found["choices"] if row["ofTheJob"]]
    assert (own["codec"], own["algorithm"]) == ("zfp-8", "direct")
    assert own["roundSeconds"] == own["computeSeconds"] + own["exposedSeconds"] > 0.3
    assert sum(row["best"] for row in found["choices"]) == 1
    assert not found["pays"]
    assert [row["gpus"] for row in found["extrapolated"]] == [8, 64, 512, 4096]
    assert 0 < found["extrapolated"][1]["best"]["exposedShare"] < 1


SMALLEST = [
    "--link", "1bit", "--machines", "1000000", "--processes", "1000", "--parameters", "1e12",
    "--tokens", "1000000000000", "--tflops", "1e-9", "--mfu", "0.001", "--latency", "3600s", "--inside", "1bit",
    "--host", "1bit", "--codec-speed", "1e-9", "--bucket-mib", "0.001", "--max-noise", "1e9",
]  # fmt: skip
LARGEST = [
    "--link", "1e18bit", "--machines", "1", "--processes", "1", "--parameters", "1", "--compute-seconds", "1e-9",
    "--latency", "0s", "--inside", "1e18bit", "--host", "1e18bit", "--codec-speed", "1e9", "--cores", "1000",
    "--bucket-mib", "4096", "--max-noise", "1e-9",
]  # fmt: skip


@pytest.mark.parametrize("options", [SMALLEST, LARGEST])
def test_whatever_is_accepted_can_be_computed_with(options: list[str]) -> None:
    words = " ".join(lines(invoke(*options))).split()
    assert not {"inf", "nan", "-inf"} & set(words)
