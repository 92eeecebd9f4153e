"""Backward through many steps with a fixed number of stored states (Griewank and Walther's binomial schedule).

Normally a chain of T steps keeps all that every step needs for its backward pass. Here at most a few states, the
snapshots, are kept, and the one before the last step; the others are recomputed when needed. With s snapshots and no
step recomputed more than r times, a chain of C(s + r, s) steps can be reversed: 8 snapshots reverse 9 steps with r = 1,
45 with r = 2 and 1,287 with r = 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from akorn.kernels.backward_memory import keeping

_HINT = " (under torch.compile, `layer.one_operator = False` unrolls them instead)"


class Step(Protocol):
    """One step of a chain, forward."""

    def __call__(
        self, x: Tensor, c: Tensor, t: int, copy: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The next state, the energy before the step or None, and what is passed to the next step.

        That is a copy of the state in another type; a step that does not get it makes its own.
        """
        ...


Parameters = Callable[[], Sequence[Tensor]]
"""The tensors, besides the state and c, that steps depend on, as they are now."""

Buffers = Callable[[], Mapping[str, Tensor]]
"""Buffers that steps may read but must not change, by name, as they are now."""

Reverse = Callable[["Reversal", Tensor, int], bool]
"""(reversal, x, t): step t backward from the state x before it, in its own way; False if there is none."""


Plan = list[tuple[int, int, int]]
"""Segments of steps: (start, stop, snapshots free while it is reversed); the state at each start is kept."""


class Chain(NamedTuple):
    """Repeatable steps."""

    step: Step
    reverse: Reverse
    parameters: Parameters
    buffers: Buffers


def recomputed(chain: Chain, x: Tensor, c: Tensor, steps: int, snapshots: int) -> tuple[Tensor, list[Tensor]]:
    """`steps` steps from x, with the memory of a single step and `snapshots` states in the backward pass.

    Gradients reach x, c and the chain's parameters; there are no second derivatives. A step is refused if it depends on
    anything else that requires a gradient, draws random numbers or changes a buffer, since it could not be repeated.
    """
    x, energies = _Chain.apply(chain, steps, snapshots, x, c, *chain.parameters())  # type: ignore[no-untyped-call]
    return x, list(energies.unbind(0))


class _Chain(torch.autograd.Function):
    """The chain as one node of the graph; its backward pass builds and frees the graph of one step at a time."""

    @staticmethod
    def forward(
        ctx: Any, chain: Chain, steps: int, snapshots: int, x: Tensor, c: Tensor, *values: Tensor
    ) -> tuple[Tensor, Tensor]:
        plan = planned(steps, snapshots)
        states: list[Tensor] = []
        x, energies = forward(chain, x, c, steps, plan, states.append)
        ctx.chain, ctx.plan = chain, plan
        kind = x.device.type
        ctx.autocast = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        ctx.save_for_backward(c, *states)
        ctx.values = values
        ctx.versions = [value._version for value in values]
        # Detached, in case the step returned a view, so that it can be changed in place.
        return x.detach(), energies

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_energies: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # with create_graph=True
            raise RuntimeError("gradients=Recompute() has no second derivatives (create_graph=True): use Store()")
        c, *states = ctx.saved_tensors
        now = ctx.chain.parameters()
        if [id(value) for value in now] != [id(value) for value in ctx.values]:
            raise RuntimeError("recomputed steps need the same parameters in the backward pass as in the forward pass")
        if [value._version for value in now] != ctx.versions:
            raise RuntimeError("a parameter was changed in place between the forward pass and its recomputation")
        kind, dtype, enabled = ctx.autocast
        with torch.autocast(kind, dtype, enabled):
            reversal = Reversal(ctx.chain, c, ctx.values, grad, grad_energies, for_x=ctx.needs_input_grad[3])
            reversal.run(ctx.plan, states)
        for_x = reversal.whole_grad() if reversal.for_x else None
        return None, None, None, for_x, *(reversal.totals.get(id(source)) for source in reversal.sources)


def forward(
    chain: Chain, x: Tensor, c: Tensor, steps: int, plan: Plan, keep: Callable[[Tensor], object]
) -> tuple[Tensor, Tensor]:
    """The last state and the energies, [steps, B] or empty; `keep` is called with each state that the plan keeps.

    ValueError if steps draw random numbers or change buffers.
    """
    kept = {start for start, _, _ in plan}
    energies = []
    copy: Tensor | None = None
    before = _random_state(x.device)
    buffers = chain.buffers()  # keep references, so that no other array gets the same address
    versions = _versions(buffers)
    for t in range(steps):
        if t in kept:
            keep(x)
        x, energy, copy = chain.step(x, c, t, copy)
        if energy is not None:
            energies.append(energy)
    after = _random_state(x.device)
    if before is not None and after is not None and not torch.equal(before, after):
        raise ValueError(
            f"steps that are recomputed for their gradients cannot draw random numbers, as dropout does{_HINT}"
        )
    if changed := [name for name, version in _versions(chain.buffers()).items() if versions.get(name) != version]:
        raise ValueError(
            f"steps that are recomputed for their gradients cannot change buffers, as BatchNorm does in"
            f" training: here {', '.join(changed)}{_HINT}"
        )
    return x, torch.stack(energies) if energies else x.new_empty(0)


def _random_state(device: torch.device) -> Tensor | None:
    """The state of the generator that a step would draw from; None if it cannot be read."""
    if device.type == "cpu":
        return torch.get_rng_state()
    if device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
        return torch.cuda.get_rng_state(device)
    return None


def _versions(buffers: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
    """The identity of each buffer, and how often it was changed in place; known without waiting for the device."""
    return {name: (id(b), 0 if b.is_inference() else b._version) for name, b in buffers.items()}


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
                f"a step that is recomputed for its gradients depends on a tensor of shape {list(leaf.shape)} that"
                " is not a parameter of the layer, so its gradient would be lost"
            )
        waiting += [following for following, _ in node.next_functions if following is not None]


class Reversal:
    """The backward pass of a chain: `grad` is the gradient of the state after the steps that are not yet reversed.

    `coupled`, from a coupling and perhaps of another type, must still be added to it; `ours` says whether `grad` may be
    overwritten. `totals` are the gradients so far of the tensors that all steps share, by id.
    """

    def __init__(
        self,
        chain: Chain,
        c: Tensor,
        parameters: Sequence[Tensor],
        grad: Tensor,
        grad_energies: Tensor,
        *,
        for_x: bool = True,
    ) -> None:
        self.chain = chain
        self.c = c.detach().requires_grad_(c.requires_grad)
        self.sources = [self.c, *parameters]
        self.for_x = for_x  # whether the first state's gradient is needed
        self.grad = grad
        self.coupled: Tensor | None = None
        self.ours = False
        self.grad_energies = grad_energies
        self.totals: dict[int, Tensor] = {}
        self._sums: set[int] = set()  # which of them are our own sums
        self._own_way = True  # until the chain's `reverse` returns False
        self._checked = False

    def run(self, plan: Plan, states: list[Tensor]) -> None:
        """Reverse the segments of a plan, last to first, from the state at the start of each."""
        for start, stop, free in reversed(plan):
            x = states.pop()
            if stop - start == 1:
                self._own_way = self._own_way and self.chain.reverse(self, x, start)
                if not self._own_way:
                    self.one(x, start)
                continue
            parts = _plan(start, stop, free)
            inner = [x]
            with torch.no_grad():
                copy: Tensor | None = None
                for begin, end, _ in parts[:-1]:
                    for t in range(begin, end):
                        x, _, copy = self.chain.step(x, self.c, t, copy)
                    inner.append(x)
            self.run(parts, inner)

    def one(self, x: Tensor, t: int) -> None:
        """Reverse one step through its whole graph."""
        x = x.detach().requires_grad_(self.wanted(t))
        with torch.enable_grad(), keeping():
            after, energy, _ = self.chain.step(x.view_as(x), self.c, t)  # autocast caches no copy of a view
        outputs, gradients = [after], [self.whole_grad()]
        if energy is not None:
            outputs.append(energy)
            gradients.append(self.grad_energies[t])
        self.check(outputs, x)
        grad = self.through(outputs, x, gradients)
        self.grad = grad if grad is not None else torch.zeros_like(x)
        self.ours = False  # the array may be shared

    def wanted(self, t: int) -> bool:
        """Whether the gradient of the state before step t is needed."""
        return t > 0 or self.for_x

    def whole_grad(self) -> Tensor:
        """`grad` plus what must be added to it."""
        if self.coupled is not None:
            self.grad = self.grad.add_(self.coupled) if self.ours else self.grad + self.coupled
            self.coupled, self.ours = None, True
        return self.grad

    def check(self, outputs: Sequence[Tensor], x: Tensor) -> None:
        """Raise, at the first step, if the graph of a step ends in a tensor that no gradient is collected for."""
        if not self._checked:
            _check_sources(outputs, [x, *self.sources])
            self._checked = True

    def through(self, outputs: Sequence[Tensor], x: Tensor, gradients: Sequence[Tensor]) -> Tensor | None:
        """The gradient of x; those of shared tensors are accumulated."""
        inputs = [source for source in (x, *self.sources) if source.requires_grad]
        graph = [(output, grad) for output, grad in zip(outputs, gradients, strict=True) if output.requires_grad]
        if not graph:
            return None
        grads = torch.autograd.grad([o for o, _ in graph], inputs, [g for _, g in graph], allow_unused=True)
        first = int(x.requires_grad)
        self.collect(inputs[first:], grads[first:])
        return grads[0] if first else None

    def collect(self, sources: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
        """Accumulate gradients of shared tensors."""
        more = {id(source): grad for source, grad in zip(sources, grads, strict=True) if grad is not None}
        known = [key for key in more if key in self.totals]
        if known:
            totals, added = [self.totals[key] for key in known], [more.pop(key) for key in known]
            # The first gradient may be a shared array; the sum of two is ours and can be changed in place.
            if self._sums.issuperset(known):
                torch._foreach_add_(totals, added)
            else:
                more.update(zip(known, torch._foreach_add(totals, added), strict=True))
                self._sums.update(known)
        self.totals.update(more)


def planned(steps: int, snapshots: int) -> Plan:
    """How to reverse this many steps with this many kept states."""
    return _plan(0, steps, snapshots)


def kept_states(steps: int, snapshots: int) -> int:
    """The length of `planned`, for symbolic numbers; 0 without snapshots."""
    return min(steps, snapshots + 1) if snapshots else 0


def _plan(start: int, stop: int, free: int) -> Plan:
    """Divide steps into segments (start, stop, snapshots free while it is reversed); the last is a single step."""
    plan = []
    while stop - start > 1:
        middle = start + _split(stop - start, free)
        plan.append((start, middle, max(free, 1)))
        start, free = middle, free - 1
    return [*plan, (start, stop, max(free, 1))]


def _split(steps: int, snapshots: int) -> int:
    """How many of `steps` steps to recompute later, so that none is computed too often."""
    if snapshots <= 1:
        return steps - 1
    repeats = 1
    while comb(snapshots + repeats, snapshots) < steps:
        repeats += 1
    # The rest has one snapshot less and as many repeats; it gets as many steps as it can reverse.
    return max(1, min(steps - 1, steps - comb(snapshots - 1 + repeats, snapshots - 1)))
