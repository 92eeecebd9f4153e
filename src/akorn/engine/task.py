"""What a task gives to the training loop. The loop knows nothing else about it."""

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, ...]


class Data(Protocol):
    """A whole data set that already lies on the training device."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """Return the samples at `indices` [B] (on the device), augmented with random numbers of `generator`."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """Data that does not fit on the device and is read ahead, where it is told what comes next.

    Its indices, those of `batch` too, lie on the CPU.
    """

    def expect(self, indices: Tensor) -> None:
        """Begin to read the samples at `indices` [B], which a `batch` soon asks for."""
        ...


class Task(Protocol):
    """A model, its data and its loss. Subclass it to take over the methods that have a default.

    All randomness while training comes from the `generator` handed over (on the model's device) or from torch's
    global generators (dropout): both are seeded per process and saved in checkpoints.
    """

    name: str
    """The recipe's name, as `akorn train NAME` takes it."""

    def settings(self) -> Mapping[str, Any]:
        """Return the recipe's own settings (model, data) as JSON values: two runs that differ here are foreign."""
        ...

    def fingerprint(self) -> str:
        """Return a digest of the training data: equal digests mean equal data."""
        ...

    def build_model(self) -> nn.Module:
        """Return the model, freshly initialised from torch's global generator, on the CPU."""
        ...

    def build_data(self, device: torch.device) -> Data:
        """Return the training data on `device`."""
        ...

    def choose(self) -> Hashable:
        """Draw what of the next loss is decided on the host, such as a number of steps, from torch's CPU generator."""
        return None

    def loss(
        self, model: nn.Module, batch: Batch, generator: torch.Generator, choice: Hashable
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss over the batch (a scalar), and other scalars worth a curve.

        choice: what `choose` drew. With the same choice and shapes the same operations must run, whatever the values:
        they may be recorded as a CUDA graph.
        """
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return scores of the model, which is in eval mode and has the averaged weights.

        Called by every process, without gradients, so that it can share the work; the main process's answer counts.
        Whatever random numbers it draws, training goes on as if it had drawn none.
        """
        return {}

    @property
    def exchanges(self) -> bool:
        """Whether the loss itself talks to the other processes: of several none then records it as a CUDA graph."""
        return False

    @property
    def compiles_on_cpu(self) -> bool:
        """Whether long runs on a CPU compile the model without being asked."""
        return False

    @property
    def quick_recipe(self) -> str | None:
        """A recipe of this kind that learns within minutes, which runs of hours on a CPU are told of."""
        return None

    def compile(self, model: nn.Module) -> None:
        """Compile, in place, what is worth compiling in the model."""
        model.compile()
