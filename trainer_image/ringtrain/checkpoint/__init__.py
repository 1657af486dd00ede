"""Checkpoints on the job's volume. The coordinator uses this package too: only `shard`, `state` and what reads or
writes tensors import torch."""
