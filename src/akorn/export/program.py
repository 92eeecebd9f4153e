"""A model as a program: parts that run one after the other on named arrays, each once or several times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from akorn import execution
from akorn import nn as akn
from akorn import oscillators as osc

BATCH = "batch"
"""The axis whose size is free."""
ENERGY, ENERGIES = "energy", "energies"
"""The output of a step, [B, 1]; and those of all steps together, [B, steps]."""


@dataclass(frozen=True)
class Port:
    """An input or an output."""

    name: str
    dtype: Literal["float32", "int64"]
    shape: tuple[str | int, ...]
    """`BATCH` stands for a free size."""
    about: str
    """What it is, for people."""


class Part(NamedTuple):
    """A module that takes arrays by name and gives others, or new values of the same ones."""

    module: nn.Module
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    times: int = 1
    """How often it runs in a row."""


class Program(nn.Module):
    """Parts one after the other. As a module it takes the inputs in their order and returns the outputs.

    Args:
        inputs: the arrays that are given.
        outputs: the arrays that come back. `energies` are those of all parts that give an `energy`, side by side.
        parts: the parts that run.
        steps: Kuramoto steps in one call, over all parts.

    """

    def __init__(self, inputs: list[Port], outputs: list[Port], parts: list[Part], steps: int) -> None:
        super().__init__()
        self.inputs, self.outputs, self.steps = inputs, outputs, steps
        self.modules_run = nn.ModuleList(part.module for part in parts)
        self._wiring = [part._replace(module=nn.Identity()) for part in parts]

    @property
    def parts(self) -> list[Part]:
        """The parts that run, first to last."""
        return [wires._replace(module=module) for wires, module in zip(self._wiring, self.modules_run, strict=True)]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs, in their order."""
        arrays = {port.name: array for port, array in zip(self.inputs, inputs, strict=True)}
        energies: list[Tensor] = []
        for part, given in self._each(arrays):
            arrays.update(zip(part.gives, part.module(*given), strict=True))
            if ENERGY in part.gives:
                energies.append(arrays.pop(ENERGY))
        if energies:
            arrays[ENERGIES] = torch.cat(energies, 1)
        return tuple(arrays[port.name] for port in self.outputs)

    def _each(self, arrays: dict[str, Tensor]) -> Iterator[tuple[Part, tuple[Tensor, ...]]]:
        """Every run of every part, with the current values of the arrays that it takes."""
        for part in self.parts:
            for _ in range(part.times):
                yield part, tuple(arrays[name] for name in part.takes)

    def examples(self, batch: int = 2, seed: int = 0) -> tuple[Tensor, ...]:
        """Inputs of the right shapes, to trace with: whole numbers from 0 to 9, and normal floating-point numbers."""
        generator = torch.Generator().manual_seed(seed)
        found = []
        for port in self.inputs:
            shape = [batch if size == BATCH else cast(int, size) for size in port.shape]
            if port.dtype == "int64":
                found.append(torch.randint(0, 10, shape, generator=generator))
            else:
                found.append(torch.randn(shape, generator=generator))
        return tuple(found)

    @torch.no_grad()
    def traced_with(self) -> list[tuple[Tensor, ...]]:
        """What each part takes when it first runs on `examples`."""
        arrays = {port.name: array for port, array in zip(self.inputs, self.examples(), strict=True)}
        taken = []
        for part in self.parts:
            taken.append(tuple(arrays[name] for name in part.takes))
            arrays.update(zip(part.gives, part.module(*taken[-1]), strict=True))
        return taken


class OneStep(nn.Module):
    """One Kuramoto step of a layer: (x, drive) → (x′, the energy of x by Eq. 3).

    x is on the sphere, [B, tokens, C] or [B, C, H, W], and the drive is C as the layer's stimulus and bias make it.
    """

    def __init__(self, layer: akn.KuramotoLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """The next state, and the energy [B, 1] before the step."""
        after, energy, _ = execution.advance(self.layer.one_step(compiled=False), x, drive, osc.energy)
        assert energy is not None
        return after, energy[:, None]


def driven(layer: akn.KuramotoLayer, c: Tensor) -> Tensor:
    """C as it acts on the layer's oscillators in every step."""
    return layer.drive(c, c.ndim)(0, c.shape)


def on_sphere(x: Tensor, n: int) -> Tensor:
    """Every oscillator at length 1."""
    dim = osc.channel_axis(x)
    return osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)
