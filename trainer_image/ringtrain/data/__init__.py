"""Training text: files -> tokens -> batches."""

from ringtrain.data.batch import IGNORED, Batch
from ringtrain.data.corpus import Corpus, load_corpus
from ringtrain.data.errors import DataError
from ringtrain.data.loader import Batches

__all__ = ["IGNORED", "Batch", "Batches", "Corpus", "DataError", "load_corpus"]
