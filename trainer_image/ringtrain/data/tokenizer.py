"""Text -> token ids."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ringtrain.data.errors import DataError

Tokens = NDArray[np.unsignedinteger[Any]]

_MASKS = ("[MASK]", "<mask>")
_SEPARATORS = ("<|endoftext|>", "</s>", "<eos>", "[SEP]")


class Tokenizer(Protocol):
    vocabulary: int
    """Number of token ids, the mask token's included."""
    mask_token: int
    """Stands in place of a token that the encoder must restore."""
    separator: tuple[int, ...]
    """Between two documents."""

    def encode(self, text: str) -> Tokens:
        """[tokens], uint16 where the vocabulary allows, else uint32."""


class BytesTokenizer:
    """One token a byte of UTF-8, and a mask token. Documents end with the byte 0, which text does not hold."""

    vocabulary: int = 257
    mask_token: int = 256
    separator: tuple[int, ...] = (0,)

    def encode(self, text: str) -> Tokens:
        return np.frombuffer(text.encode("utf-8", errors="replace"), dtype=np.uint8).astype(np.uint16)


class FileTokenizer:
    """A Hugging Face `tokenizers` JSON file. A mask token is added to the vocabulary if the file has none."""

    def __init__(self, path: Path) -> None:
        """Raises DataError when `path` cannot be read as such a file."""
        from tokenizers import Tokenizer as Encoder  # The byte tokenizer shall not pay for this import.

        if not path.is_file():
            raise DataError(f"tokenizer {path}: no such file; give 'bytes' or a Hugging Face tokenizers JSON file")
        try:
            self._encoder = Encoder.from_file(str(path))
        except Exception as error:  # The library raises bare Exception.
            raise DataError(f"tokenizer {path}: not a Hugging Face tokenizers JSON file: {error}") from error
        # A corpus longer or shorter than the text would be the file's truncation or padding at work.
        self._encoder.no_truncation()
        self._encoder.no_padding()
        ids = self._encoder.get_vocab(with_added_tokens=True)
        if not ids:
            raise DataError(f"tokenizer {path}: its vocabulary is empty")
        size = max(ids.values()) + 1
        self.mask_token: int = next((ids[mask] for mask in _MASKS if mask in ids), size)
        self.vocabulary: int = max(size, self.mask_token + 1)
        known = next((ids[name] for name in _SEPARATORS if name in ids), None)
        self.separator: tuple[int, ...] = tuple(map(int, self.encode("\n\n"))) if known is None else (known,)

    def encode(self, text: str) -> Tokens:
        ids = self._encoder.encode(text, add_special_tokens=False).ids
        return np.asarray(ids, dtype=np.uint16) if self.vocabulary <= 1 << 16 else np.asarray(ids, dtype=np.uint32)


def load_tokenizer(name: str) -> Tokenizer:
    """`bytes`, or the path of a tokenizers JSON file. Raises DataError when the file cannot be used."""
    return BytesTokenizer() if name == "bytes" else FileTokenizer(Path(name))
