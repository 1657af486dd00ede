import sysconfig
from pathlib import Path

import pytest

from ringtrain.contract.trainer_config import DataConfig
from ringtrain.data.corpus import expand, keep_corpus, load_corpus
from ringtrain.data.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"b.txt": "two", "a.txt": "one", "sub/c.txt": "three", "sub/d.md": "four"}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def _names(folder: Path, *patterns: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in expand([f"{folder}/{pattern}" for pattern in patterns])]


def test_expansion_is_sorted_and_names_each_file_once(folder: Path) -> None:
    assert _names(folder, "*.txt") == ["a.txt", "b.txt"]
    assert _names(folder, "**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    assert _names(folder, "sub/*", "b.txt", "*/*.md") == ["sub/c.txt", "sub/d.md", "b.txt"]


def test_relative_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert expand(["*.txt", "sub/d.md"]) == (Path("a.txt"), Path("b.txt"), Path("sub/d.md"))


@pytest.mark.parametrize("pattern", ["*.rst", "none.txt", "sub", "a**b"])
def test_a_pattern_without_files_is_named(folder: Path, pattern: str) -> None:
    with pytest.raises(DataError, match="data path") as caught:
        expand([f"{folder}/a.txt", f"{folder}/{pattern}"])
    assert pattern in str(caught.value)


def test_the_standard_library() -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    files = expand(["{stdlib}/json/*.py"])
    assert library / "json" / "decoder.py" in files


def test_the_standard_library_is_not_what_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("os.py", "site-packages/torch.py", "json/tool.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    assert expand(["{stdlib}/**/*.py"]) == (tmp_path / "json/tool.py", tmp_path / "os.py")


def test_documents_are_joined_by_separators(folder: Path) -> None:
    corpus = load_corpus(DataConfig(paths=(f"{folder}/*.txt",)))
    assert bytes(corpus.tokens.tolist()) == b"one\0two\0"
    assert (corpus.vocabulary, corpus.mask_token) == (257, 256)


def test_the_digest_is_of_the_text(folder: Path) -> None:
    config = DataConfig(paths=(f"{folder}/*.txt",))
    first = load_corpus(config).digest
    assert load_corpus(config).digest == first
    (folder / "a.txt").write_text("One")
    assert load_corpus(config).digest != first


def test_text_that_is_kept_is_not_read_again(folder: Path) -> None:
    config = DataConfig(paths=(f"{folder}/*.txt",))
    keep_corpus(config)
    (folder / "a.txt").unlink()
    assert bytes(load_corpus(config).tokens.tolist()) == b"one\0two\0"
    assert bytes(load_corpus(DataConfig(paths=(f"{folder}/b.*",))).tokens.tolist()) == b"two\0"


def test_text_that_is_no_unicode_is_read_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\xffb")
    corpus = load_corpus(DataConfig(paths=(f"{tmp_path}/x",)))
    assert bytes(corpus.tokens.tolist()).decode() == "a\N{REPLACEMENT CHARACTER}b\0"


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied")  # Tests may run as root, whom no mode bits stop.

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(DataError, match=r"a\.txt cannot be read: Permission denied"):
        load_corpus(DataConfig(paths=(f"{folder}/a.txt",)))
