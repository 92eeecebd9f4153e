"""The Kuramoto layer: T steps of the update of Eq. 4–5."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from akorn import kernels
from akorn import oscillators as osc
from akorn.nn.attention import AttentionCoupling
from akorn.nn.checks import check_finite, check_module, check_part, described, one_number, whole_number, whole_steps
from akorn.nn.compiled import compiled_alone
from akorn.nn.norm import GroupNorm, per_channel
from akorn.nn.recompute import Chain, Reversal, recomputed
from akorn.nn.rules import Kuramoto, UpdateRule
from akorn.nn.sphere import to_sphere

EnergyFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x, Jx, c) → [B]; `akorn.oscillators.energy` or `published_energy`."""

Stimulus = Tensor | Callable[[int], Tensor]
"""C: constant in time (the shape of x), one for each step ([steps, *x.shape]), or a function of the step."""


_Step = Callable[[nn.Module, Tensor, Tensor, EnergyFunction | None], tuple[Tensor, Tensor | None]]


class _Drive(NamedTuple):
    """The prepared C: as a function of the step and, where it is an array, as that."""

    at: Callable[[int], Tensor]
    values: Tensor | None
    constant: bool

    def __call__(self, t: int, shape: torch.Size | None = None) -> Tensor:
        c = self.at(t)
        if shape is not None and c.shape != shape:
            raise ValueError(f"c at step {t} has the shape {list(c.shape)}, x has {list(shape)}")
        return c

    def after(self, steps: int) -> _Drive:
        """What acts on the steps that follow so many."""
        if self.constant or not steps:
            return self
        return _Drive(lambda t: self.at(steps + t), None if self.values is None else self.values[steps:], False)


class Evolution(NamedTuple):
    """What a layer went through in T steps."""

    x: Tensor
    """The last state, in the shape of the first."""
    energies: Tensor | None
    """[T, B]: the energy at the state before each step."""
    trajectory: Tensor | None
    """[T + 1, *x.shape]: the normalised start and the state after each step."""


class KuramotoLayer(nn.Module):
    """Oscillators that are coupled, driven by C, and rotate on their own:

        Δxᵢ = Ωᵢxᵢ + Proj_xᵢ(cᵢ + Σⱼ Jᵢⱼxⱼ),    xᵢ ← Π[xᵢ + γ Δxᵢ]        (Eq. 4–5)

    States are [B, C], tokens [B, tokens, C] or pictures [B, C, H, W]; N consecutive channels are one oscillator. On a
    CUDA device with Triton the update of Eq. 4–5 is one fused kernel, forward and backward (`akorn.kernels`).

    Args:
        channels: number of channels C, a multiple of n.
        n: rotating dimensions N ≥ 2.
        coupling: J, any module that maps a state to an array of the same shape.
        omega: Ω, a `NaturalFrequency` or `PairwiseFrequency`; None for no rotation.
        gamma: the step size γ, or its start where it is learned; a tensor keeps its precision.
        learn_gamma: whether γ is trained.
        rule: the update rule; by default `Kuramoto`, Eq. 4–5.
        stimulus: applied to c once before the steps, a `GroupNorm` for example.
        bias: add a learned constant to c, one value a channel. (The linear couplings here have none of their own, so
            that the energy's pair term holds J alone; `AttentionCoupling` has, unless bias=False, in its queries,
            keys and values.)
        recompute: in training, recompute states in the backward pass instead of storing them, so that memory no
            longer grows with the number of steps. Steps must then depend on x, c and the layer's parameters alone,
            draw no random numbers and change no buffers: anything else is refused, as are second derivatives.
        gradient_steps: in training mode, gradients go back through so many steps, the last ones, and take the state
            before them as given: less noise where large steps make states chaotic, less time and memory. The first x
            gets none then, c and the weights do. None: through all steps.

    """

    gamma: Tensor

    def __init__(
        self,
        channels: int,
        n: int,
        coupling: nn.Module,
        *,
        omega: nn.Module | None = None,
        gamma: float | Tensor = 1.0,
        learn_gamma: bool = False,
        rule: UpdateRule | None = None,
        stimulus: nn.Module | None = None,
        bias: bool = False,
        recompute: bool = False,
        gradient_steps: int | None = None,
    ) -> None:
        super().__init__()
        channels, n = whole_number("channels", channels), whole_number("n", n)
        osc.check_grouping(channels, n)
        check_module("coupling", coupling, "a module that maps a state to an array of the same shape")
        check_module("omega", omega, "a module such as NaturalFrequency", optional=True)
        check_module("stimulus", stimulus, "a module such as GroupNorm", optional=True)
        if rule is not None and not isinstance(rule, UpdateRule):
            raise ValueError(f"rule must be an UpdateRule such as Kuramoto() or None, got {described(rule)}")
        if gradient_steps is not None:
            gradient_steps = whole_number("gradient_steps", gradient_steps)
        check_part("coupling", coupling, channels, n)
        check_part("omega", omega, channels, n)
        self.channels = channels
        self.n = n
        self.coupling = coupling
        self.omega = omega
        self.rule = rule if rule is not None else Kuramoto()
        self.stimulus = stimulus
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.recompute = recompute
        self.gradient_steps = gradient_steps
        start = one_number("gamma", gamma)
        if learn_gamma:
            self.gamma = nn.Parameter(start)
        else:
            self.register_buffer("gamma", start)
        self._compiled: _Step | None = None
        self._use_compiled = False

    def forward(self, x: Tensor, c: Stimulus, steps: int, *, on_sphere: bool = False) -> Tensor:
        """The state after `steps` updates; x need not be normalised. on_sphere: see `evolve`."""
        return self.evolve(x, c, steps, on_sphere=on_sphere).x

    def evolve(
        self,
        x: Tensor,
        c: Stimulus,
        steps: int,
        *,
        energy: EnergyFunction | None = None,
        trajectory: bool = False,
        on_sphere: bool = False,
    ) -> Evolution:
        """`forward`, with what happened on the way: energies if `energy` says which, and the trajectory if asked.

        Nothing else is kept: without gradients, memory does not depend on `steps`. on_sphere: promises that x is
        normalised already, which saves doing it again.
        """
        steps = self._check(x, c, steps)
        brought = False
        if x.ndim == 4 and kernels.usable(x):
            x, c, brought = _in_one_order(x, c, steps > 1 and isinstance(self.coupling, AttentionCoupling))
        given = self._given_steps(steps)
        if given:
            x = x.detach()
        if not on_sphere:
            x = self._start(x)
        drive = self._drive(c, x.ndim)
        energies: list[Tensor] = []
        states = [x]
        recompute = self.recompute and torch.is_grad_enabled() and not trajectory
        copy: Tensor | None = None
        for t in range(given if recompute else steps):
            with torch.no_grad() if t < given else nullcontext():
                x, value, copy = self._run_step(x, drive(t, x.shape), energy, copy, t + 1 < steps)
            if value is not None:
                energies.append(value)
            if trajectory:
                states.append(x)
        if recompute:
            x, values = self._recomputed(x, drive.after(given), steps - given, energy)
            energies += values
        return Evolution(
            x.contiguous() if brought else x,
            torch.stack(energies) if energy is not None else None,
            torch.stack(states) if trajectory else None,
        )

    def step(self, x: Tensor, c: Tensor) -> Tensor:
        """One update of a normalised state, with c as the layer's stimulus and bias have already made it."""
        return self._run_step(x, c, None)[0]

    def energy(self, x: Tensor, c: Tensor, function: EnergyFunction = osc.energy) -> Tensor:
        """The energy of a normalised state: [B]."""
        return function(x, self.coupling(x), self._drive(c, x.ndim)(0, x.shape))

    def compile_step(self, **options: object) -> None:
        """Compile a single step: as fast as compiling the whole loop, in a fraction of the compile time."""
        self._compiled = compiled_alone(type(self)._step, **options)
        self._use_compiled = True

    def use_compiled_step(self, use: bool) -> None:
        """Switch between the step that `compile_step` made, if it was called, and the plain one."""
        self._use_compiled = use

    def _given_steps(self, steps: int) -> int:
        """How many steps come before those that gradients go back through."""
        if self.gradient_steps is None or not self.training or not torch.is_grad_enabled():
            return 0
        return max(0, steps - self.gradient_steps)

    def _start(self, x: Tensor) -> Tensor:
        if type(self.rule).start is UpdateRule.start:
            return to_sphere(x, self.n)
        dim = osc.channel_axis(x)
        return osc.ungroup(self.rule.start(osc.group(x, self.n, dim), dim), dim)

    def _run_step(
        self,
        x: Tensor,
        c: Tensor,
        energy: EnergyFunction | None,
        copy: Tensor | None = None,
        hand_on: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if self._runs_compiled():
            assert self._compiled is not None
            return *self._compiled(self, x, c, energy), None
        return self._advance(x, c, energy, copy, hand_on)

    def _runs_compiled(self) -> bool:
        return self._use_compiled and self._compiled is not None

    def _step(self, x: Tensor, c: Tensor, energy: EnergyFunction | None) -> tuple[Tensor, Tensor | None]:
        """The state after one update, and the energy of the state before it."""
        return self._advance(x, c, energy)[:2]

    def _advance(
        self,
        x: Tensor,
        c: Tensor,
        energy: EnergyFunction | None,
        copy: Tensor | None = None,
        hand_on: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """`_step` that takes over from the one before x as autocast would cast it, and hands x′ on likewise."""
        dim = osc.channel_axis(x)
        jx = self.coupling(x if copy is None else copy)
        if jx.shape != x.shape:
            raise ValueError(f"the coupling maps a state of shape {list(x.shape)} to {list(jx.shape)}")
        if kernels.usable(x):
            from akorn.kernels import step

            if step.why_not(self, x, jx, c) is None:
                return step.fused_step(self, x, jx, c, energy, hand_on)
        value = energy(x, jx, c) if energy is not None else None
        grouped = osc.group(x, self.n, dim)
        rotation = self.omega(grouped, dim) if self.omega is not None else None
        after = self.rule.step(grouped, osc.group(jx + c, self.n, dim), rotation, self.gamma, dim)
        return osc.ungroup(after, dim).to(x.dtype), value, None  # whatever autocast made of the parts

    def _recomputed(
        self, x: Tensor, drive: _Drive, steps: int, energy: EnergyFunction | None
    ) -> tuple[Tensor, list[Tensor]]:
        """The steps with a backward pass that stores next to nothing."""
        if drive.values is None:
            raise ValueError("recompute=True needs c as an array: gradients cannot reach what a function c(t) uses")

        def step(
            x: Tensor, c: Tensor, t: int, copy: Tensor | None = None
        ) -> tuple[Tensor, Tensor | None, Tensor | None]:
            return self._run_step(x, c if drive.constant else c[t], energy, copy, t + 1 < steps)

        def reverse(reversal: Reversal, x: Tensor, t: int) -> bool:
            if not drive.constant or self._runs_compiled() or not kernels.usable(x):
                return False
            from akorn.kernels.step import reverse_step

            return reverse_step(self, reversal, x, t, energy)

        chain = Chain(
            step,
            reverse,
            lambda: [p for p in self.parameters() if p.requires_grad],
            lambda: dict(self.named_buffers()),
        )
        return recomputed(chain, x, drive.values, steps)

    def _drive(self, c: Stimulus, ndim: int) -> _Drive:
        """C as it acts on the oscillators: through the stimulus module, and with the bias."""
        if not isinstance(c, Tensor):
            return _Drive(lambda t: self._prepare(c(t)), None, False)
        if c.ndim == ndim:
            constant = self._prepare(c)
            return _Drive(lambda t: constant, constant, True)
        each = self._prepare(c.flatten(0, 1)).unflatten(0, c.shape[:2])  # [steps, B, ...]: samples do not mix
        return _Drive(lambda t: each[t], each, False)

    def _prepare(self, c: Tensor) -> Tensor:
        if self.bias is not None and type(self.stimulus) is GroupNorm and not kernels.hooked(self.stimulus):
            return self.stimulus(c, self.bias)  # one pass for both; a hook expects the stimulus alone
        if self.stimulus is not None:
            c = self.stimulus(c)
        return c if self.bias is None else c + per_channel(self.bias, c)

    def _check(self, x: Tensor, c: Stimulus, steps: int) -> int:
        """Refuse what cannot be run; returns the number of steps as a plain int."""
        steps = whole_steps(steps)
        dim = osc.channel_axis(x)
        if not x.is_floating_point():
            raise ValueError(f"x must be of a floating-point type, got {x.dtype}")
        if not isinstance(c, Tensor) and not callable(c):
            raise ValueError(f"c must be an array, or a function of the step, got {type(c).__name__}")
        if x.shape[dim] != self.channels:
            raise ValueError(f"the layer has {self.channels} channels, x of shape {list(x.shape)} has {x.shape[dim]}")
        if isinstance(c, Tensor) and c.shape != x.shape and c.shape != (steps, *x.shape):
            raise ValueError(
                f"c must have the shape of x, {list(x.shape)}, or one for each of the {steps} steps,"
                f" {[steps, *x.shape]}; got {list(c.shape)}"
            )
        check_finite(x=x, c=c)
        return steps

    def extra_repr(self) -> str:
        """What print() shows of the layer itself."""
        learned = "learned" if isinstance(self.gamma, nn.Parameter) else "fixed"
        gamma = "?" if self.gamma.is_meta else f"{float(self.gamma):.3g}"
        rule = type(self.rule).__name__
        return f"channels={self.channels}, n={self.n}, gamma={gamma} ({learned}), rule={rule}"

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and saved: not the compiled step, which belongs to this process."""
        return {**self.__dict__, "_compiled": None, "_use_compiled": False}


def _in_one_order(x: Tensor, c: Stimulus, tokens: bool) -> tuple[Tensor, Stimulus, bool]:
    """Pictures as fused steps want them, and whether the last state is to be brought back.

    Both with channels last in memory if one has them so, else steps would bring c to x every time. Also where the
    coupling takes pixels for tokens, else each step would bring x to the tokens' order, and Jx back from it.
    """
    pictures = [x, c] if isinstance(c, Tensor) and c.ndim == 4 else [x]
    last = [a.is_contiguous(memory_format=torch.channels_last) and not a.is_contiguous() for a in pictures]
    if all(last) or not (tokens or any(last)):
        return x, c, False
    there = [a.contiguous(memory_format=torch.channels_last) for a in pictures]
    return there[0], there[1] if len(there) == 2 else c, not any(last)
