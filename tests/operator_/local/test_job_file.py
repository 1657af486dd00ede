from pathlib import Path

import pytest

from ringtrain_operator.local.job_file import BadJobFile, read_job_file

GOOD = """\
apiVersion: ringtrain.io/v1alpha1
kind: TrainingJob
metadata: {name: small}
spec: {image: x}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def test_reads_name_namespace_and_raw_spec(tmp_path: Path) -> None:
    job = read_job_file(write(tmp_path, GOOD))
    assert (job.name, job.namespace, job.spec, job.ignored) == ("small", "default", {"image": "x"}, ())


def test_numbers_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    job = read_job_file(write(tmp_path, GOOD.replace("image: x", "a: 3e-3, b: -1E5, c: 1e, d: e3")))
    assert job.spec == {"a": 3e-3, "b": -1e5, "c": "1e", "d": "e3"}


def test_other_objects_of_the_file_are_named(tmp_path: Path) -> None:
    job = read_job_file(write(tmp_path, f"kind: Namespace\n---\n{GOOD}---\n"))
    assert job.name == "small"
    assert job.ignored == ("Namespace",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("spec: {a: 1\nkind: [", r"job\.yaml:2:\d+: not valid YAML"),
        ("a: b\n  c: d\n", r"job\.yaml:2:4: not valid YAML: mapping values are not allowed here"),
        ("", "no object of kind TrainingJob: the file is empty"),
        ("a: 1\na: 2\n", r"job\.yaml:2:1: not valid YAML: the key 'a' stands twice"),
        ("a: 2020-99-99\n", "not valid YAML: month must be in 1"),
        ("[" * 5000, "nested too deeply"),
        ("- 1\n", "expected a TrainingJob object, found list"),
        ("kind: Job\n", "no object of kind TrainingJob: found kind Job"),
        (f"{GOOD}---\n{GOOD}", "holds 2 objects"),
        (GOOD.replace("v1alpha1", "v2"), r"apiVersion is 'ringtrain.io/v2': expected ringtrain.io/v1alpha1"),
        (GOOD.replace("metadata: {name: small}", ""), "metadata.name is missing"),
        (GOOD.replace("name: small", "name: 5"), "metadata.name is 5: expected text"),
        (GOOD.replace("spec: {image: x}", "spec: 3"), "spec is missing"),
        (GOOD.replace("kind: TrainingJob", "kind: TrainingJob\ncolor: \x07"), "not valid YAML"),
    ],
)
def test_bad_files_are_refused_with_the_reason(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadJobFile, match=complaint):
        read_job_file(write(tmp_path, text))


def test_missing_folder_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(BadJobFile, match="No such file"):
        read_job_file(tmp_path / "absent.yaml")
    with pytest.raises(BadJobFile, match="Is a directory"):
        read_job_file(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x80")
    with pytest.raises(BadJobFile, match="not UTF-8"):
        read_job_file(binary)
