"""Model and data of the peers' workers."""

from dataclasses import dataclass

from torch import Tensor, nn

from recovery_results import RANKS
from recovery_work import CONFIG
from ringtrain.data.batch import Batch
from ringtrain.data.corpus import load_corpus
from ringtrain.data.loader import Batches
from ringtrain.models import LanguageModel, build_model


@dataclass(frozen=True, slots=True)
class Data:
    batches: Batches
    vocabulary: int


class Loss(nn.Module):
    """What DDP wraps: the mean loss of a batch."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        total, count = self.model.loss(Batch(tokens, targets))
        return total / count


def batches_of(rank: int) -> Data:
    corpus = load_corpus(CONFIG.data)
    return Data(Batches(corpus, CONFIG, rank, RANKS), corpus.vocabulary)


def model_of(data: Data) -> LanguageModel:
    return build_model(CONFIG.model, data.vocabulary, CONFIG.seed)
