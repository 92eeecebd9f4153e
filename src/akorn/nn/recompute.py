"""Backward through many steps with a fixed number of stored states (Griewank and Walther's binomial schedule).

A chain of T steps keeps all that every step needs for its backward pass. Here at most SNAPSHOTS states are kept, and
the others are computed again when they are needed. With s snapshots and no step computed more than r times again, a
chain of C(s + r, s) steps can be reversed: 6 snapshots reverse 28 steps with r = 2 and 924 with r = 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SNAPSHOTS = 6

Step = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor | None]]
"""(state, c, t) → the next state, and the energy before the step or None."""


Parameters = Callable[[], Sequence[Tensor]]
"""The tensors, besides the state and c, that steps depend on, as they are now."""


def recomputed(
    step: Step, x: Tensor, c: Tensor, steps: int, parameters: Parameters, snapshots: int = SNAPSHOTS
) -> tuple[Tensor, list[Tensor]]:
    """`steps` steps from x, with the memory of a single step and `snapshots` states in the backward pass.

    Gradients reach x, c and `parameters`. A step that depends on anything else that wants a gradient, or that draws
    random numbers, is refused, since it could not be repeated.
    """
    x, energies = _Chain.apply(  # type: ignore[no-untyped-call]
        step, steps, snapshots, parameters, x, c, *parameters()
    )
    return x, list(energies.unbind(0))


class _Chain(torch.autograd.Function):
    """The chain as one node of the graph; its backward pass builds and frees the graph of one step at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        step: Step,
        steps: int,
        snapshots: int,
        parameters: Parameters,
        x: Tensor,
        c: Tensor,
        *values: Tensor,
    ) -> tuple[Tensor, Tensor]:
        plan = _plan(0, steps, snapshots)
        kept = {start for start, _, _ in plan}
        states, energies = [], []
        before = _random_state(x.device)
        for t in range(steps):
            if t in kept:
                states.append(x)
            x, energy = step(x, c, t)
            if energy is not None:
                energies.append(energy)
        after = _random_state(x.device)
        if before is not None and after is not None and not torch.equal(before, after):
            raise ValueError("recompute=True cannot repeat steps that draw random numbers, such as a dropout's")
        ctx.step, ctx.plan, ctx.parameters = step, plan, parameters
        kind = x.device.type
        ctx.autocast = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        ctx.save_for_backward(c, *states)
        ctx.values = values
        ctx.versions = [value._version for value in values]
        return x, torch.stack(energies) if energies else x.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_energies: Tensor) -> tuple[Tensor | None, ...]:
        c, *states = ctx.saved_tensors
        now = ctx.parameters()
        if [id(value) for value in now] != [id(value) for value in ctx.values]:
            raise RuntimeError("recompute=True needs in the backward pass the very parameters of the forward pass")
        if [value._version for value in now] != ctx.versions:
            raise RuntimeError("a parameter was changed in place between the forward pass and its recomputation")
        kind, dtype, enabled = ctx.autocast
        with torch.autocast(kind, dtype, enabled):
            reversal = _Reversal(ctx.step, c, ctx.values, grad, grad_energies)
            reversal.run(ctx.plan, states)
        return None, None, None, None, reversal.grad, *reversal.totals


def _random_state(device: torch.device) -> Tensor | None:
    """The state of the generator that a step would draw from; None where it cannot be asked for."""
    if device.type == "cpu":
        return torch.get_rng_state()
    if device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
        return torch.cuda.get_rng_state(device)
    return None


def _check_sources(outputs: Sequence[Tensor], known: Sequence[Tensor]) -> None:
    """Raise if the graph of a step ends in a tensor that its gradients are not collected for."""
    ids = {id(tensor) for tensor in known}
    seen, waiting = set(), [output.grad_fn for output in outputs if output.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in ids:
            raise RuntimeError(
                f"recompute=True: a step depends on a tensor of shape {list(leaf.shape)} that is no parameter of the"
                " layer, which its gradient would not reach"
            )
        waiting += [following for following, _ in node.next_functions if following is not None]


class _Reversal:
    """The backward pass of a chain: `grad` is that of the state in front of the steps not yet reversed."""

    def __init__(self, step: Step, c: Tensor, parameters: Sequence[Tensor], grad: Tensor, grad_energies: Tensor):
        self.step = step
        self.c = c.detach().requires_grad_(c.requires_grad)
        self.sources = [self.c, *parameters]
        self.totals: list[Tensor | None] = [None] * len(self.sources)
        self.grad = grad
        self.grad_energies = grad_energies
        self.checked = False

    def run(self, plan: list[tuple[int, int, int]], states: list[Tensor]) -> None:
        """Reverse the segments of a plan, last to first, from the state at the start of each."""
        for start, stop, free in reversed(plan):
            x = states.pop()
            if stop - start == 1:
                self.one(x, start)
                continue
            parts = _plan(start, stop, free)
            inner = [x]
            with torch.no_grad():
                for begin, end, _ in parts[:-1]:
                    for t in range(begin, end):
                        x, _ = self.step(x, self.c, t)
                    inner.append(x)
            self.run(parts, inner)

    def one(self, x: Tensor, t: int) -> None:
        """Reverse one step, adding up the gradients of what all steps share."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            outputs, gradients = [], []
            after, energy = self.step(x, self.c, t)
            outputs.append(after)
            gradients.append(self.grad)
            if energy is not None:
                outputs.append(energy)
                gradients.append(self.grad_energies[t])
            if not self.checked:
                _check_sources(outputs, [x, *self.sources])
                self.checked = True
            wanted = [i for i, source in enumerate(self.sources) if source.requires_grad]
            grads = torch.autograd.grad(
                outputs,
                [x, *(self.sources[i] for i in wanted)],
                gradients,
                allow_unused=True,
                materialize_grads=False,
            )
        self.grad = grads[0] if grads[0] is not None else torch.zeros_like(x)
        for i, grad in zip(wanted, grads[1:], strict=True):
            total = self.totals[i]
            self.totals[i] = grad if total is None else total if grad is None else total + grad


def _plan(start: int, stop: int, free: int) -> list[tuple[int, int, int]]:
    """Divide steps into segments (start, stop, snapshots free while it is reversed); the last is a single step."""
    plan = []
    while stop - start > 1:
        middle = start + _split(stop - start, free)
        plan.append((start, middle, max(free, 1)))
        start, free = middle, free - 1
    return [*plan, (start, stop, max(free, 1))]


def _split(steps: int, snapshots: int) -> int:
    """How many of `steps` steps to compute again later, so that none is computed too often."""
    if snapshots <= 1:
        return steps - 1
    repeats = 1
    while comb(snapshots + repeats, snapshots) < steps:
        repeats += 1
    # The rest has one snapshot less and as many repeats; it is given all that it can reverse.
    return max(1, min(steps - 1, steps - comb(snapshots - 1 + repeats, snapshots - 1)))
