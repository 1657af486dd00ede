import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ringtrain_operator.local.commands import app

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
    assert any("the codec, which runs on the CPU, is the limit" in line for line in slow)


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
        (["--link", "0Gbit"], "error: --link '0Gbit': must be above zero"),
        (["--latency", "50"], "error: --latency '50': the unit is missing"),
        (["--inside", "2GHz"], "error: --inside '2GHz': unknown unit"),
        (["--host", "fast"], "error: --host 'fast' is not a speed"),
        (["--machines", "0"], "Invalid value for '--machines': "),
        (["--processes", "-1"], "Invalid value for '--processes': "),
        (["--cores", "0"], "Invalid value for '--cores': "),
        (["--parameters", "many"], "error: --parameters 'many' is not a number such as 7e9"),
        (["--compute-seconds", "0"], "error: --compute-seconds 0: must be above zero"),
        (["--compute-seconds", "nan"], "error: --compute-seconds nan: must be above zero and finite"),
        (["--codec-speed", "-2"], "error: --codec-speed -2: must be above zero"),
        (["--bucket-mib", "0"], "error: --bucket-mib 0: must be above zero"),
        (["--max-noise", "0"], "error: --max-noise 0: must be above zero"),
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
        ([*WITHOUT_JOB[:6], "--tokens", "9", "--mfu", "1.5"], "error: --mfu 1.5: is a share of the peak"),
        ([*WITHOUT_JOB[:6], "--tokens", "9", "--tflops", "0"], "error: --tflops 0: must be above zero"),
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
