"""Training that carries states on: a sample stays in its slot of the batch for several training steps.

A training step runs one *segment*, some steps of the model, from where each sample's state is, takes the loss at its
end (so every segment is supervised), and passes the state on without its gradients. A sample leaves its slot
after a number of segments drawn for it, or as soon as the task says that it is done; the next fresh sample takes its
place. The model thus learns to continue from states that it reached itself, long after the reach of its gradients.

Both this and `akorn.execution.LastSteps` cut the gradients of a long sequence of steps: `LastSteps` cuts them within
one loss, so that the model learns only from the last steps; this module cuts them between losses. They combine: a
segment of a model with `LastSteps(k)` has gradients through its last k steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from akorn.engine.config import CarryConfig
from akorn.engine.task import Batch

States = tuple[Tensor, ...]
_NAMES = ("left", "batch", "state")


class Segment(NamedTuple):
    """The result of one segment."""

    loss: Tensor
    """The mean loss over the batch, a scalar."""
    state: States
    """[B, …] each: where the samples are now."""
    done: Tensor
    """[B], bool: which samples need no further segment."""
    scalars: dict[str, Tensor]
    """Other scalars to log."""


@runtime_checkable
class Carrying(Protocol):
    """A task whose samples have states that can be carried on."""

    def begin(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> States:
        """Return the first states of samples, [B, …] each."""
        ...

    def segment(
        self, model: nn.Module, batch: Batch, state: States, generator: torch.Generator, choice: Hashable
    ) -> Segment:
        """Run one segment from these states. What `Task.loss` says about the choice holds here too."""
        ...


class Carried(NamedTuple):
    """The slots of a batch between two training steps."""

    left: Tensor
    """[B], int64: how many segments each sample still has; 0 for a slot that the next fresh sample takes."""
    batch: Batch
    """The samples."""
    state: States
    """Their states."""

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in one tuple, for `from_tensors`."""
        return (self.left, *self.batch, *self.state)

    @classmethod
    def from_tensors(cls, tensors: tuple[Tensor, ...], samples: int) -> Carried:
        """Put together what `tensors` returned; samples: how many of them belong to the batch."""
        left, *rest = tensors
        return cls(left, tuple(rest[:samples]), tuple(rest[samples:]))

    def named(self) -> dict[str, Tensor]:
        """The tensors by name, on the CPU, for a checkpoint."""
        rows = {"left": (self.left,), "batch": self.batch, "state": self.state}
        return {f"{name}/{number}": t.cpu() for name, row in rows.items() for number, t in enumerate(row)}

    @classmethod
    def from_named(cls, named: Mapping[str, Tensor], device: torch.device) -> Carried | None:
        """Restore what `named` returned; None if a checkpoint from before the first step has nothing."""
        rows = {
            name: tuple(named[key].to(device) for key in sorted(named, key=_number) if key.startswith(f"{name}/"))
            for name in _NAMES
        }
        return cls(rows["left"][0], rows["batch"], rows["state"]) if rows["left"] else None


def _number(key: str) -> int:
    return int(key.rpartition("/")[2])


@torch.no_grad()
def empty(task: Carrying, model: nn.Module, batch: Batch, generator: torch.Generator) -> Carried:
    """Slots that all wait for a fresh sample. Draws nothing from the generator."""
    before = generator.get_state()
    state = task.begin(model, batch, generator)
    generator.set_state(before)
    left = torch.zeros(len(batch[0]), dtype=torch.int64, device=batch[0].device)
    return Carried(left, tuple(t.clone() for t in batch), tuple(torch.zeros_like(t) for t in state))


def carry_on(
    task: Carrying,
    model: nn.Module,
    fresh: Batch,
    carried: Carried,
    config: CarryConfig,
    generator: torch.Generator,
    choice: Hashable,
) -> tuple[Tensor, dict[str, Tensor], Carried]:
    """One training step's loss and scalars, and the slots after it. It waits for nothing, so a graph can record it."""
    assert config.segments is not None
    low, high = config.segments
    new = carried.left == 0  # [B]
    batch = tuple(_choose(new, ours, theirs) for ours, theirs in zip(fresh, carried.batch, strict=True))
    drawn = torch.randint(low, high + 1, new.shape, device=new.device, generator=generator)
    left = torch.where(new, drawn, carried.left)
    first = task.begin(model, batch, generator)
    state = tuple(_choose(new, ours, theirs) for ours, theirs in zip(first, carried.state, strict=True))
    found = task.segment(model, batch, state, generator, choice)
    left = left - 1
    if config.halt:
        left = torch.where(found.done, 0, left)
    scalars = {**found.scalars, "done": found.done.float().mean(), "fresh": new.float().mean()}
    return found.loss, scalars, Carried(left, batch, tuple(t.detach() for t in found.state))


def _choose(new: Tensor, ours: Tensor, theirs: Tensor) -> Tensor:
    """[B, …]: the first where `new` [B] is true, else the second."""
    return torch.where(new.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs.to(ours.dtype))
