"""What training code gives to a checkpoint: anything with `state_dict` and `load_state_dict`."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ringtrain.api.optimizer_state import by_name, by_place
from ringtrain.checkpoint.outline import Outline, first_difference, outline
from ringtrain.checkpoint.tree import Tree
from ringtrain.data.errors import DataError


class Misfit(Exception):
    """A checkpoint is not of these objects; the message says what differs first."""


@runtime_checkable
class Stateful(Protocol):
    """Such as a module, an optimizer, a learning-rate scheduler, a GradScaler, or the context's loader."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Any) -> Any: ...


class Part(nn.Module):
    """A module that holds a part of the model, such as a pipeline's stages."""

    whole: Outline
    """Of the tensors of all parts together."""


class Saved:
    """The objects of one rank, by name. The state of each is the same on all ranks, or a part of the same."""

    def __init__(self, objects: Mapping[str, Stateful]) -> None:
        """Raises Misfit for what cannot be saved."""
        for name, value in objects.items():
            if not isinstance(value, Stateful):
                raise Misfit(f"{name} is a {type(value).__name__}, which has no state_dict and load_state_dict")
        self._objects = dict(objects)
        self._modules = {name: value for name, value in objects.items() if isinstance(value, nn.Module)}
        self._names = {
            parameter: f"{name}.{path}"
            for name, module in self._modules.items()
            for path, parameter in module.named_parameters()
        }
        self._tensors = {name: frozenset(module.state_dict()) for name, module in self._modules.items()}
        self._groups = {
            name: self._group_names(name, value)
            for name, value in objects.items()
            if isinstance(value, torch.optim.Optimizer)
        }
        self._optimized = {
            name: {parameter for group in groups for parameter in group} for name, groups in self._groups.items()
        }

    def tree(self) -> Tree:
        """By the objects' names; its tensors are the living ones. Raises Misfit when an optimizer has got others."""
        return {name: self._state(name, value) for name, value in self._objects.items()}

    def wanted(self, path: str) -> bool:
        """Whether the tensor of that path in the tree of the whole model is of this rank's part of it."""
        name, _, rest = path.partition("/")
        if name in self._tensors:
            return rest in self._tensors[name]
        if name in self._optimized and rest.startswith("state/"):
            steps = rest.split("/")
            return any("/".join(steps[1:end]) in self._optimized[name] for end in range(2, len(steps) + 1))
        return True

    def load(self, tree: Tree) -> None:
        """Goes on with the tree of the whole model. Raises Misfit when it is of other objects."""
        self._load_all(self._objects, tree)

    def _load_all(self, objects: Mapping[str, Stateful], tree: Tree) -> None:
        for name, value in objects.items():
            if name not in tree:
                raise Misfit(f"it has no {name}, but {', '.join(tree)}")
            try:
                self._load(name, value, tree[name])
            except (DataError, ValueError, KeyError, RuntimeError) as error:
                raise Misfit(f"its {name} does not fit: {error}") from error

    def begin_with(self, tree: Tree, *, optimizer: bool) -> None:
        """Takes the modules of the tree of the whole model, and the optimizers or not; everything else stays as it is.

        Raises Misfit when it has others.
        """
        taken = {
            name: value
            for name, value in self._objects.items()
            if name in self._modules or (optimizer and name in self._groups)
        }
        self._load_all(taken, tree)

    def buffers(self) -> dict[str, Tensor]:
        """What modules keep beside parameters, such as running means: each rank's own; the living tensors."""
        return {
            f"{name}.{path}": tensor
            for name, module in self._modules.items()
            for path, tensor in _state_of(module).items()
            if not isinstance(tensor, nn.Parameter)
        }

    def model(self) -> dict[str, Tensor]:
        """All tensors of this rank's modules."""
        return {
            f"{name}.{path}": tensor
            for name, module in self._modules.items()
            for path, tensor in _state_of(module).items()
        }

    def _state(self, name: str, value: Stateful) -> Tree:
        if name in self._groups:
            state, names = value.state_dict(), self._groups[name]
            if [len(group["params"]) for group in state["param_groups"]] != list(map(len, names)):
                raise Misfit(
                    f"{name} has other parameter groups than when it was given: give it all of them before, those that "
                    "train later at learning rate 0"
                )
            return by_name(state, names)
        return value.state_dict()

    def _load(self, name: str, value: Stateful, saved: Any) -> None:
        if isinstance(value, nn.Module):
            whole = value.whole if isinstance(value, Part) else outline(value.state_dict())
            difference = first_difference(outline(saved), whole)
            if difference is not None:
                tensor, theirs, ours = difference
                raise Misfit(f"its tensor {name}.{tensor} is {theirs}, but the model's is {ours}")
            value.load_state_dict({path: saved[path] for path in value.state_dict()})
        elif name in self._groups:
            value.load_state_dict(by_place(saved, value.state_dict(), self._groups[name]))
        else:
            value.load_state_dict(saved)

    def _group_names(self, name: str, optimizer: torch.optim.Optimizer) -> list[list[str]]:
        try:
            return [[self._names[parameter] for parameter in group["params"]] for group in optimizer.param_groups]
        except KeyError:
            raise Misfit(
                f"{name} holds a parameter of no module that is saved: give the modules to the same call, or build "
                "the optimizer from the parameters of what wrap() and pipeline() return"
            ) from None


def _state_of(module: nn.Module) -> dict[str, Tensor]:
    """The parameters themselves, and the buffers that are saved."""
    state = module.state_dict(keep_vars=True)
    return {path: tensor for path, tensor in state.items() if isinstance(tensor, Tensor)}
