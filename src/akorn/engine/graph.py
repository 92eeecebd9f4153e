"""The loss and its gradients as CUDA graphs: one launch instead of thousands, so that small batches keep a GPU busy."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from akorn.engine.task import Batch, Task
from akorn.runtime import randomness

_WARM_UP = 3  # compiles, chooses algorithms and sizes buffers, none of which may happen while a graph is recorded


@dataclass
class _Graph:
    """A recorded step: what it reads, what it leaves, and where."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor
    extra: dict[str, Tensor]
    gradients: list[Tensor | None]


class GraphedLoss:
    """Forward and backward pass of a task's loss, recorded once for each choice and shape of batch, then replayed.

    Random numbers go on as without graphs: the generators count on through every replay.
    """

    def __init__(
        self, task: Task, model: nn.Module, parameters: list[nn.Parameter], generator: torch.Generator, accelerator: Any
    ) -> None:
        self.task, self.model, self.parameters = task, model, parameters
        self.generator, self.accelerator = generator, accelerator
        self.graphs: dict[Hashable, _Graph] = {}
        self.pool: Any = None

    def __call__(self, batch: Batch, choice: Hashable) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and its companions; the gradients are in the parameters, as after `backward`."""
        key = (choice, tuple((part.shape, part.dtype) for part in batch))
        if key not in self.graphs:
            self.graphs[key] = self._record(batch, choice)
        recorded = self.graphs[key]
        for ours, theirs in zip(recorded.batch, batch, strict=True):
            ours.copy_(theirs)
        recorded.graph.replay()
        for parameter, gradient in zip(self.parameters, recorded.gradients, strict=True):
            parameter.grad = gradient
        return recorded.loss, recorded.extra

    def _record(self, batch: Batch, choice: Hashable) -> _Graph:
        device = batch[0].device
        static = tuple(part.clone() for part in batch)
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        state = self.generator.get_state()
        with randomness.undisturbed(device):
            here, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
            aside.wait_stream(here)
            with torch.cuda.stream(aside):
                for _ in range(_WARM_UP):
                    self._pass(static, choice)
            here.wait_stream(aside)
        self.generator.set_state(state)
        for buffer, before in buffers:
            buffer.copy_(before)
        for parameter in self.parameters:
            parameter.grad = None  # so that the recorded pass writes gradients instead of adding to some
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, pool=self.pool):
            loss, extra = self._pass(static, choice)
        self.pool = self.pool or graph.pool()
        return _Graph(graph, static, loss.detach(), extra, [parameter.grad for parameter in self.parameters])

    def _pass(self, batch: Batch, choice: Hashable) -> tuple[Tensor, dict[str, Tensor]]:
        with self.accelerator.autocast():
            loss, extra = self.task.loss(self.model, batch, self.generator, choice)
        self.accelerator.backward(loss)
        return loss, extra
