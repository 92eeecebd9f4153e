"""The interface between a task and the training loop."""

from collections.abc import Hashable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, ...]


class Data(Protocol):
    """A whole data set on the training device."""

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """Return the samples at `indices` [B] (on the device), augmented with random numbers from `generator`."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """Data that does not fit on the device and is read ahead, once the next indices are announced.

    Its indices, also those of `batch`, are on the CPU.
    """

    def expect(self, indices: Tensor) -> None:
        """Start reading the samples at `indices` [B], which `batch` will soon request."""
        ...


class Task(Protocol):
    """A model, its data and its loss. Subclass it to inherit the methods with defaults.

    All randomness in training comes from the `generator` argument (on the model's device) or from torch's
    global generators (dropout): both are seeded per process and saved in checkpoints.
    """

    name: str
    """The recipe's name, as in `akorn train NAME`."""

    def settings(self) -> Mapping[str, Any]:
        """Return the recipe's own settings (model, data) as JSON values: a resumed run must have the same."""
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

    def taught_by(self, average: nn.Module) -> None:
        """Take the moving average of the weights, which the loss may use as a teacher; called once, if there is one.

        It is in eval mode, gets no gradients, is saved in checkpoints and changes in place after every step, also where
        the loss is recorded as a CUDA graph. It has no copy of the weights before step `ema.after`.
        """
        return

    def choose(self) -> Hashable:
        """Draw what the host decides for the next loss, such as a number of steps, from torch's CPU generator."""
        return None

    def loss(
        self, model: nn.Module, batch: Batch, generator: torch.Generator, choice: Hashable
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss over the batch (a scalar), and other scalars to log.

        choice: what `choose` drew. With the same choice and shapes the same operations must run for all values,
        since they may be recorded as a CUDA graph.
        """
        ...

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Return scores of the model, which is in eval mode and has the averaged weights.

        Called by every process, without gradients, so that the work can be shared; the main process's answer counts.
        Random numbers drawn here do not affect training.
        """
        return {}

    @property
    def exchanges(self) -> bool:
        """Whether the loss communicates with other processes, so that several processes cannot record it as a graph."""
        return False

    @property
    def compiles_on_cpu(self) -> bool:
        """Whether long runs on a CPU compile the model by default."""
        return False

    @property
    def quick_recipe(self) -> str | None:
        """A recipe of this kind that learns within minutes, suggested if a run would take hours on a CPU."""
        return None

    def compile(self, model: nn.Module) -> None:
        """Compile, in place, what is worth compiling in the model."""
        model.compile()
