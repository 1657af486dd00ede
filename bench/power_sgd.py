"""PowerSGD (Vogels 2019, arXiv 1905.13727) on the gradients of all machines in one process, as torch's hook does it.

Matrices become rank-`rank` products P Q^T by one step of power iteration that starts from the last Q; what is lost is
added to the next gradient; vectors, and matrices that would not be half as small, go as they are. The first rounds are
not compressed (`start_powerSGD_iter`), a tenth of all, as torch's documentation advises.
"""

import torch
from torch import Tensor, nn

_WORTH_IT = 2
"""torch's min_compression_rate."""
_BYTES = 4


class PowerSGD:
    def __init__(self, model: nn.Module, rank: int, machines: int, warmup_rounds: int) -> None:
        self._rank = rank
        self._machines = machines
        self._warmup_rounds = warmup_rounds
        self._parameters = dict(model.named_parameters())
        self._gradients: list[dict[str, Tensor]] = [{} for _ in range(machines)]
        self._errors: list[dict[str, Tensor]] = [{} for _ in range(machines)]
        self._queries: dict[str, Tensor] = {}
        self._generator = torch.Generator().manual_seed(0)
        self.sent = 0

    def take(self, machine: int) -> None:
        """The gradients in the model are that machine's."""
        for name, parameter in self._parameters.items():
            assert parameter.grad is not None
            self._gradients[machine][name] = parameter.grad.clone()

    def reduce(self, round: int) -> None:
        """Puts the sums into the model's gradients."""
        for name, parameter in self._parameters.items():
            assert parameter.grad is not None
            if round <= self._warmup_rounds or not self._is_worth_it(parameter):
                parameter.grad.copy_(torch.stack([gradients[name] for gradients in self._gradients]).sum(0))
                self._send(parameter.numel())
            else:
                parameter.grad.copy_(self._approximate(name).view_as(parameter))

    def _is_worth_it(self, parameter: Tensor) -> bool:
        if parameter.dim() < 2:
            return False
        rows, columns = parameter.shape[0], parameter[0].numel()
        return (rows + columns) * self._rank * _WORTH_IT < rows * columns

    def _approximate(self, name: str) -> Tensor:
        inputs = [gradients[name].flatten(1) for gradients in self._gradients]
        for machine, errors in enumerate(self._errors):
            if name in errors:
                inputs[machine] = inputs[machine] + errors[name]
        query = self._queries.get(name)
        if query is None:
            query = torch.randn(inputs[0].shape[1], self._rank, generator=self._generator)
        left, _ = torch.linalg.qr(torch.stack([each @ torch.linalg.qr(query)[0] for each in inputs]).mean(0))
        self._queries[name] = right = torch.stack([each.T @ left for each in inputs]).mean(0)
        self._send(left.numel() + right.numel())
        mean = left @ right.T
        for machine, errors in enumerate(self._errors):
            errors[name] = inputs[machine] - mean
        return mean * self._machines

    def _send(self, values: int) -> None:
        self.sent += 2 * (self._machines - 1) * values * _BYTES // self._machines
