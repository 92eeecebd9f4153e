"""The Kuramoto layer: T steps of the update of Eq. 4–5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from akorn import execution
from akorn import oscillators as osc
from akorn.execution import Drive, EnergyFunction, Gradients, Stimulus
from akorn.nn.attention import AttentionCoupling
from akorn.nn.checks import (
    check_finite,
    check_module,
    check_part,
    check_tensor,
    described,
    explained,
    hooked,
    one_number,
    whole_number,
    whole_steps,
)
from akorn.nn.description import multiplies, projects, rotation
from akorn.nn.flags import GradientFlags
from akorn.nn.norm import GroupNorm, per_channel
from akorn.nn.rules import Kuramoto, UpdateRule

__all__ = ["EnergyFunction", "Evolution", "KuramotoLayer", "Stimulus"]

_CompiledStep = Callable[[nn.Module, Tensor, Tensor, EnergyFunction | None], tuple[Tensor, Tensor | None]]


class Evolution(NamedTuple):
    """The evolution of a layer's state in T steps."""

    x: Tensor
    """The last state, in the shape of the first."""
    energies: Tensor | None
    """[T, B]: the energy at the state before each step."""
    trajectory: Tensor | None
    """[T + 1, *x.shape]: the normalised start and the state after each step."""


class KuramotoLayer(GradientFlags, nn.Module):
    """Oscillators that are coupled, driven by C, and rotate on their own:

        Δxᵢ = Ωᵢxᵢ + Proj_xᵢ(cᵢ + Σⱼ Jᵢⱼxⱼ),    xᵢ ← Π[xᵢ + γ Δxᵢ]        (Eq. 4–5)

    States are [B, C], tokens [B, tokens, C] or pictures [B, C, H, W]; N consecutive channels are one oscillator. How
    steps run (fused, on a CUDA device with Triton) is up to `akorn.execution`.

    Args:
        channels: number of channels C, a multiple of n.
        n: rotating dimensions N ≥ 2.
        coupling: J, any module that maps a state to an array of the same shape.
        omega: Ω, a `NaturalFrequency` or `PairwiseFrequency`; None for no rotation.
        gamma: the step size γ, or its initial value if it is learned; a tensor keeps its precision.
        learn_gamma: whether γ is trained.
        damped: take the step γ/(1 + γ) instead of γ. A layer without Ω that adds x in its place, Π[x + γ(x + Proj(…))],
            takes this step: so the published models without Ω ran.
        rule: the update rule; by default `Kuramoto`, Eq. 4–5.
        stimulus: applied to c once before the steps, a `GroupNorm` for example.
        bias: add a learned constant to c, one value for each channel. (The linear couplings have no bias, so
            that the energy's pair term contains only J; `AttentionCoupling` has one in its queries, keys and values,
            unless bias=False.)
        gradients: how gradients come back through the steps: `Store()`, the default; `Recompute()`, with memory that
            does not grow with the number of steps; or `LastSteps(k)`, only through the last k steps.
        recompute: deprecated, use `gradients=Recompute()`.
        gradient_steps: deprecated, use `gradients=LastSteps(k)`.

    """

    gamma: Tensor
    damped = False  # of layers pickled before there was a choice
    one_operator = True
    """Whether `torch.compile` treats T steps as one operator; set it to False to unroll them."""

    def __init__(
        self,
        channels: int,
        n: int,
        coupling: nn.Module,
        *,
        omega: nn.Module | None = None,
        gamma: float | Tensor = 1.0,
        learn_gamma: bool = False,
        damped: bool = False,
        rule: UpdateRule | None = None,
        stimulus: nn.Module | None = None,
        bias: bool = False,
        gradients: Gradients | None = None,
        recompute: bool | None = None,
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
        if gradients is not None and not isinstance(gradients, Gradients):
            raise ValueError(f"gradients must be Store(), Recompute() or LastSteps(k), got {described(gradients)}")
        check_part("coupling", coupling, channels, n)
        check_part("omega", omega, channels, n)
        self.channels = channels
        self.n = n
        self.coupling = coupling
        self.omega = omega
        self.rule = rule if rule is not None else Kuramoto()
        self.stimulus = stimulus
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.gradients = self._told(gradients, recompute, gradient_steps)
        if damped and omega is not None:
            raise ValueError("a damped step stands for a layer without Ω, this one has omega")
        self.damped = damped
        start = one_number("gamma", gamma)
        if learn_gamma:
            self.gamma = nn.Parameter(start)
        else:
            self.register_buffer("gamma", start)
        self._compiled: _CompiledStep | None = None
        self._use_compiled = False
        self._handle = execution.register(self)

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
        """`forward`, with energies (of the kind `energy`) and the trajectory, if requested.

        Nothing else is kept: without gradients, memory does not depend on `steps`. on_sphere: asserts that x is
        already normalised, which saves doing it again.
        """
        steps = self._check(x, c, steps)
        if energy is not None and not callable(energy):
            raise ValueError(f"energy must be a function such as akorn.oscillators.energy, got {described(energy)}")
        if torch.compiler.is_compiling():
            return self._evolve(x, c, steps, energy, trajectory, on_sphere)
        try:
            return self._evolve(x, c, steps, energy, trajectory, on_sphere)
        except RuntimeError as error:
            if (told := explained(error, x, self)) is None:
                raise
            raise ValueError(told) from error

    def _evolve(
        self, x: Tensor, c: Stimulus, steps: int, energy: EnergyFunction | None, trajectory: bool, on_sphere: bool
    ) -> Evolution:
        x, c, moved = execution.in_one_order(x, c, tokens=steps > 1 and isinstance(self.coupling, AttentionCoupling))
        x = x if on_sphere else self._start(x)  # Π[x]
        drive = self.drive(c, x.ndim)  # c through the stimulus module, plus the bias
        x, energies, states = execution.run(
            self.one_step(),
            x,
            drive,
            steps,
            gradients=self.gradients,
            module=self,
            energy=energy,
            trajectory=trajectory,
        )
        return Evolution(x.contiguous() if moved else x, energies, states)

    @property
    def step_size(self) -> Tensor:
        """What multiplies Δx: γ, or γ/(1 + γ) where the step is damped."""
        return self.gamma / (1 + self.gamma) if self.damped else self.gamma

    def step(self, x: Tensor, c: Tensor) -> Tensor:
        """One update of a normalised state; c has already passed the layer's stimulus module and bias."""
        return execution.advance(self.one_step(), x, c, None)[0]

    def energy(self, x: Tensor, c: Tensor, function: EnergyFunction = osc.energy) -> Tensor:
        """The energy of a normalised state: [B]."""
        return function(x, self.coupling(x), self.drive(c, x.ndim)(0, x.shape))

    def one_step(self, *, compiled: bool = True) -> execution.Step:
        """The update for `akorn.execution`; compiled: the one from `compile_step`, if it is in use."""
        own = self._compiled if compiled and self._use_compiled else None
        return execution.Step(
            coupling=self.coupling,
            n=self.n,
            gamma=lambda: self.step_size,
            rotation=rotation(self.omega),
            rule=self.rule,
            projects=projects(self.rule),
            multiplies=lambda: multiplies(self.coupling),
            compiled=None if own is None else lambda x, c, energy: own(self, x, c, energy),
            handle=self._handle if self.one_operator else None,
        )

    def _start(self, x: Tensor) -> Tensor:
        """The state where the rule expects it: on the sphere, unless the rule says otherwise."""
        if type(self.rule).start is UpdateRule.start:
            return execution.ops.to_sphere(x, self.n)
        dim = osc.channel_axis(x)
        return osc.ungroup(self.rule.start(osc.group(x, self.n, dim), dim), dim)

    def drive(self, c: Stimulus, ndim: int) -> Drive:
        """C as it acts on the oscillators of a state with `ndim` axes: through the stimulus module, with the bias."""
        if not isinstance(c, Tensor):
            return Drive(lambda t: self._prepare_from(c, t), None, False)
        if c.ndim == ndim:
            return execution.constant(self._prepare(c))
        return execution.changing(self._prepare(c.flatten(0, 1)).unflatten(0, c.shape[:2]))  # samples do not mix

    def _prepare_from(self, c: Callable[[int], Tensor], t: int) -> Tensor:
        at = c(t)
        check_tensor(f"c at step {t}", at)
        return self._prepare(at)

    def _prepare(self, c: Tensor) -> Tensor:
        if self.bias is not None and type(self.stimulus) is GroupNorm and not hooked(self.stimulus):
            return cast(Tensor, self.stimulus(c, self.bias))  # one pass for both; a hook expects only the stimulus
        if self.stimulus is not None:
            c = self.stimulus(c)
        return c if self.bias is None else c + per_channel(self.bias, c)

    def _check(self, x: Tensor, c: Stimulus, steps: int) -> int:
        """Refuse impossible arguments; returns the number of steps as a plain int."""
        steps = whole_steps(steps)
        check_tensor("x", x)
        dim = osc.channel_axis(x)
        if not x.is_floating_point():
            raise ValueError(f"x must be of a floating-point type, got {x.dtype}")
        if not isinstance(c, Tensor) and not callable(c):
            raise ValueError(f"c must be a tensor, or a function of the step, got {described(c)}")
        if x.shape[dim] != self.channels:
            raise ValueError(
                f"the layer has {self.channels} channels, but x of shape {list(x.shape)} has {x.shape[dim]}"
            )
        if isinstance(c, Tensor) and c.shape != x.shape and c.shape != (steps, *x.shape):
            raise ValueError(
                f"c must have the shape of x, {list(x.shape)}, or one for each of the {steps} steps,"
                f" {[steps, *x.shape]}; got {list(c.shape)}"
            )
        check_finite(x=x, c=c)
        return steps

    def compile_step(self, **options: object) -> None:
        """Compile a single step: as fast as compiling the whole loop, in a fraction of the compile time."""
        self._compiled = execution.compiled_alone(type(self)._step, **options)
        self._use_compiled = True

    def use_compiled_step(self, use: bool) -> None:
        """Switch between the compiled step, if `compile_step` was called, and the plain one."""
        self._use_compiled = use

    def _step(self, x: Tensor, c: Tensor, energy: EnergyFunction | None) -> tuple[Tensor, Tensor | None]:
        """The compiled function: the state after one update, and the energy of the state before it."""
        return execution.advance(self.one_step(compiled=False), x, c, energy)[:2]

    def extra_repr(self) -> str:
        """What print() shows for the layer itself."""
        learned = "learned" if isinstance(self.gamma, nn.Parameter) else "fixed"
        learned += ", damped" if self.damped else ""
        gamma = "?" if self.gamma.is_meta else f"{self.gamma.item():.3g}"
        rule = type(self.rule).__name__
        return f"channels={self.channels}, n={self.n}, gamma={gamma} ({learned}), rule={rule}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._handle = execution.register(self)  # a copy is a different layer

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and pickles, without the compiled step and the handle, which belong to this process."""
        return {**self.__dict__, "_compiled": None, "_use_compiled": False, "_handle": None}
