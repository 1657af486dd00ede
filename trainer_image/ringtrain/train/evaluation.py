"""The loss on text that is never trained on."""

import torch

from ringtrain.comm.group import Group
from ringtrain.contract.trainer_config import BatchConfig, EvaluationConfig, TrainerConfig
from ringtrain.data.corpus import Corpus, load_corpus
from ringtrain.data.loader import Batches
from ringtrain.models import LanguageModel
from ringtrain.parallel.passes import Passes


def load_held_out(config: TrainerConfig) -> Corpus | None:
    """The text of `config.evaluation`. Raises DataError when it cannot be read."""
    if config.evaluation is None:
        return None
    return load_corpus(config.data.model_copy(update={"paths": config.evaluation.paths}))


class Evaluation:
    """The same batches every time, dealt out to the data-parallel ranks."""

    def __init__(self, config: TrainerConfig, evaluation: EvaluationConfig, corpus: Corpus, group: Group) -> None:
        self.every = evaluation.every
        self._config = config.model_copy(update={"seed": 0, "batch": BatchConfig(per_rank=config.batch.per_rank)})
        self._count = evaluation.batches
        self._corpus = corpus
        self._group = group

    def loss(self, model: LanguageModel, passes: Passes) -> float:
        """Mean per token over all ranks, in nats.

        Raises DataError when the text is too short for one batch of every rank, PeerLost, or what polling raises.
        """
        data, _ = self._group.mesh.place(self._group.rank)
        batches = Batches(self._corpus, self._config, data, self._group.mesh.data)
        model.eval()
        totals = torch.zeros(2, dtype=torch.float64)
        for _ in range(self._count):
            sums = passes.evaluate(batches.next().to(self._group.device))
            self._group.poll()
            totals += torch.tensor([sums.loss, sums.tokens], dtype=torch.float64)
        model.train()
        self._group.all_reduce(totals)
        loss, tokens = totals.tolist()
        return float(loss / (tokens or 1.0))
