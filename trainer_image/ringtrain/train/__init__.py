"""The built-in trainer of language models."""

from ringtrain.train.loop import train

__all__ = ["train"]
