from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Encoder
from tokenizers import models, pre_tokenizers, processors

from ringtrain.data.errors import DataError
from ringtrain.data.tokenizer import BytesTokenizer, load_tokenizer


def _save(path: Path, words: list[str]) -> str:
    encoder = Encoder(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="?"))
    encoder.pre_tokenizer = pre_tokenizers.Whitespace()
    encoder.post_processor = processors.TemplateProcessing(single="? $A ?", special_tokens=[("?", 0)])
    encoder.enable_truncation(2)
    encoder.save(str(path))
    return str(path)


def test_bytes() -> None:
    tokenizer = load_tokenizer("bytes")
    tokens = tokenizer.encode("aé\n")
    assert tokens.tolist() == [97, 195, 169, 10]
    assert tokens.dtype == np.uint16
    assert tokenizer.vocabulary == tokenizer.mask_token + 1 == 257


def test_text_that_is_no_unicode_is_encoded_all_the_same() -> None:
    assert BytesTokenizer().encode("a\ud800b").tolist() == [97, 63, 98]


def test_a_tokenizers_file(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(_save(tmp_path / "t.json", ["?", "one", "two", "</s>"]))
    # Neither the special tokens nor the truncation of the file apply to a corpus.
    assert tokenizer.encode("one two one three").tolist() == [1, 2, 1, 0]
    assert (tokenizer.mask_token, tokenizer.vocabulary, tokenizer.separator) == (4, 5, (3,))


def test_a_mask_token_of_the_file_is_used(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(_save(tmp_path / "t.json", ["?", "[MASK]", "one"]))
    assert (tokenizer.mask_token, tokenizer.vocabulary, tokenizer.separator) == (1, 3, ())


def test_a_large_vocabulary_needs_wider_tokens(tmp_path: Path) -> None:
    path = _save(tmp_path / "t.json", ["?", *map(str, range(1 << 16))])
    tokens = load_tokenizer(path).encode("65535")
    assert tokens.dtype == np.uint32
    assert tokens.tolist() == [65536]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json: no such file"):
        load_tokenizer(str(tmp_path / "none.json"))


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(DataError, match=r"t\.json: not a Hugging Face tokenizers JSON file"):
        load_tokenizer(str(tmp_path / "t.json"))
