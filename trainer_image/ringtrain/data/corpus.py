"""The training text as one array of tokens."""

import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path, PurePath

import numpy as np

from ringtrain.contract.trainer_config import DataConfig
from ringtrain.data.errors import DataError
from ringtrain.data.tokenizer import Tokenizer, Tokens, load_tokenizer

_STANDARD_LIBRARY = "{stdlib}"
_INSTALLED_PACKAGES = {"site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Corpus:
    tokens: Tokens
    """[tokens], all documents joined by the tokenizer's separator."""
    vocabulary: int
    mask_token: int
    digest: str
    """Of the tokens: equal on all ranks, and over restarts, or a data position means nothing."""


_kept: dict[DataConfig, Corpus] = {}


def keep_corpus(config: DataConfig) -> None:
    """Reads it now, for `load_corpus` in this process and its forks: all share it. Raises DataError like that."""
    _kept[config] = _read(config)


def load_corpus(config: DataConfig) -> Corpus:
    """All of `config.paths`. Raises DataError when one matches nothing, or a file cannot be read."""
    return _kept.get(config) or _read(config)


def _read(config: DataConfig) -> Corpus:
    tokenizer = load_tokenizer(config.tokenizer)
    tokens = _join(_documents(expand(config.paths), tokenizer), tokenizer)
    digest = hashlib.blake2b(tokens.tobytes(), digest_size=16).hexdigest()
    return Corpus(tokens, tokenizer.vocabulary, tokenizer.mask_token, digest)


def expand(patterns: Iterable[str]) -> tuple[Path, ...]:
    """The files that `patterns` name, each once, in an order that is the same on every machine.

    Raises DataError naming a pattern that matches no file.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        try:
            matches = sorted(_matches(pattern), key=lambda path: path.parts)
        except ValueError as error:
            raise DataError(f"data path {pattern!r} is not a glob: {error}") from error
        if not matches:
            raise DataError(f"data path {pattern!r} matches no file on this machine")
        files.update(dict.fromkeys(matches))
    return tuple(files)


def _matches(pattern: str) -> Iterator[Path]:
    root, rest = _split(pattern)
    for path in root.glob(rest) if rest else [root]:
        # {stdlib} holds the folder of installed packages on some machines, which are not the standard library.
        installed = pattern.startswith(_STANDARD_LIBRARY) and _INSTALLED_PACKAGES & set(path.relative_to(root).parts)
        if path.is_file() and not installed:
            yield path


def _split(pattern: str) -> tuple[Path, str]:
    """(folder without wildcards, the rest of the pattern)"""
    if pattern.startswith(_STANDARD_LIBRARY):
        return Path(sysconfig.get_paths()["stdlib"]), pattern.removeprefix(_STANDARD_LIBRARY).lstrip("/")
    parts = PurePath(pattern).parts
    plain = next((index for index, part in enumerate(parts) if has_magic(part)), len(parts))
    return Path(*parts[:plain]), str(PurePath(*parts[plain:])) if plain < len(parts) else ""


def _documents(paths: Iterable[Path], tokenizer: Tokenizer) -> Iterator[Tokens]:
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise DataError(f"data file {path} cannot be read: {error.strerror}") from error
        yield tokenizer.encode(text)


def _join(documents: Iterable[Tokens], tokenizer: Tokenizer) -> Tokens:
    pieces: list[Tokens] = []
    for document in documents:
        pieces += [document, np.asarray(tokenizer.separator, dtype=document.dtype)]
    return np.concatenate(pieces)
