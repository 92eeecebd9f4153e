"""T steps as one operator, forward and backward, for `torch.compile`: the time to compile does not grow with T.

The compiler sees `akorn::steps` with x, c and the tensors of the layer, and in the backward pass
`akorn::steps_backward`; they run as they would without the compiler, fused on a GPU. The backward pass recomputes each
step from the state before it, which is kept for every step with `Store`, and for some of them with `Recompute`.
So steps must draw no random numbers and change no buffers. If torch modules are known to do so, the steps are traced
one by one like any other code, as they are under function transforms, with a custom energy, with C as a function of
the step or with a trajectory; other code that does so is refused when it runs.

The operators refer to a layer by a number, its `handle`, since the compiler does not accept objects.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from akorn import kernels
from akorn import oscillators as osc
from akorn.execution.chain import chain_of
from akorn.execution.drive import Drive
from akorn.execution.gradients import Recompute, Store
from akorn.execution.outside import leaves, named_parts, outside, with_parts
from akorn.execution.recompute import Reversal, forward, kept_states, planned
from akorn.execution.step import EnergyFunction

try:
    from torch.fx.experimental.sym_node import DynamicInt
except ImportError:  # an earlier torch
    DynamicInt = int  # type: ignore[misc,assignment]

_ENERGIES: tuple[EnergyFunction | None, ...] = (None, osc.energy, osc.published_energy)
"""Energies by the number that is passed to the operators."""

_CHANGING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU, parametrizations._SpectralNorm)
"""Modules of torch that draw random numbers or change buffers in training."""


_layers: WeakValueDictionary[int, nn.Module] = WeakValueDictionary()
_handles = count(2)  # the compiler specialises on 0 and 1


def register(layer: nn.Module) -> int:
    """A handle for a module with a method `one_step`, valid as long as the module exists."""
    handle = next(_handles)
    _layers[handle] = layer
    return DynamicInt(handle)  # otherwise the compiler would recompile for every layer


def applies(module: nn.Module, x: Tensor, drive: Drive, energy: EnergyFunction | None, trajectory: bool) -> bool:
    """Whether steps are traced as one operator here."""
    # The flag, not `is_exporting()`, which in torch 2.11 is true whenever it compiles.
    if not torch.compiler.is_compiling() or torch.compiler._is_exporting_flag or not kernels.untransformed(x):
        return False
    if trajectory or drive.values is None:
        return False
    known = energy is None or energy is osc.energy or energy is osc.published_energy
    return known and not any(isinstance(part, _CHANGING) and part.training for part in module.modules())


def run(
    module: nn.Module,
    handle: int,
    x: Tensor,
    drive: Drive,
    steps: int,
    way: Store | Recompute,
    energy: EnergyFunction | None,
) -> tuple[Tensor, Tensor]:
    """The state after `steps` steps, and the energies before each, [steps, B] or empty."""
    assert drive.values is not None
    kind = x.device.type
    parts = [part for _, part in named_parts(module)]
    learns = torch.is_grad_enabled() and any(source.requires_grad for source in (x, drive.values, *parts))
    snapshots = steps if isinstance(way, Store) else way.snapshots
    which = 0 if energy is None else 1 if energy is osc.energy else 2
    autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    settings = (handle, steps, snapshots if learns else 0, which, drive.constant, autocast)
    return _steps(x, drive.values, parts, *settings)[:2]


@torch.library.custom_op("akorn::steps", mutates_args=())
def _steps(
    x: Tensor,
    c: Tensor,
    parts: list[Tensor],
    handle: int,
    steps: int,
    snapshots: int,
    energy: int,
    constant: bool,
    autocast: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The last state, the energies, and the states that the backward pass starts from, except the first.

    Args:
        x: the first state, on the sphere.
        c: C, one for all steps or one for each.
        parts: the tensors of the layer, see `named_parts`.
        handle: of the layer.
        steps: T.
        snapshots: how many states the backward pass may keep; 0 for none.
        energy: 0 for none, 1 for Eq. 3, 2 for the published one.
        constant: whether C is one for all steps.
        autocast: its type if it is on.

    """
    module = _layer(handle)
    plan = planned(steps, snapshots) if snapshots else []
    states = _states(x, kept_states(steps, snapshots))
    kept = iter(states.unbind(0))

    def keep(state: Tensor) -> None:
        if state is not x:
            next(kept).copy_(state)

    def work() -> tuple[Tensor, Tensor]:
        return forward(_chain(module, constant, steps, energy), x, c, steps, plan, keep)

    with outside(x, autocast), torch.no_grad():
        last, energies = with_parts(module, leaves(parts) if autocast is not None else parts, work)
    return _settled(last, x, c), energies.to(_wide(x, c)), states


@_steps.register_fake
def _(
    x: Tensor,
    c: Tensor,
    parts: list[Tensor],
    handle: int,
    steps: int,
    snapshots: int,
    energy: int,
    constant: bool,
    autocast: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    energies = x.new_empty((steps, x.shape[0]) if energy else (0,), dtype=_wide(x, c))
    return _like(x), energies, _states(x, kept_states(steps, snapshots))


@torch.library.custom_op("akorn::steps_backward", mutates_args=())
def _steps_backward(
    grad: Tensor,
    grad_energies: Tensor,
    x: Tensor,
    c: Tensor,
    states: Tensor,
    parts: list[Tensor],
    wanted: list[bool],
    handle: int,
    steps: int,
    snapshots: int,
    energy: int,
    constant: bool,
    autocast: torch.dtype | None,
) -> list[Tensor]:
    """The gradients of x, c and the parts, as far as they are needed; zeros if steps do not depend on one."""
    module = _layer(handle)
    for_x, for_c, *for_parts = wanted

    with outside(x, autocast):
        c = c.detach().requires_grad_(for_c)
        given = [part.detach().requires_grad_(want) for part, want in zip(parts, for_parts, strict=True)]
        learned = [leaf for leaf in given if leaf.requires_grad]

        def work() -> Reversal:
            chain = _chain(module, constant, steps, energy)
            reversal = Reversal(chain, c, learned, grad, grad_energies, for_x=for_x)
            with torch.no_grad():
                reversal.run(planned(steps, snapshots), [x, *states.unbind(0)])
            return reversal

        reversal = with_parts(module, given, work)
        grads = [reversal.whole_grad()] if for_x else []
    sources = ([reversal.c] if for_c else []) + learned
    totals = [*((x, grad) for grad in grads), *((source, reversal.totals.get(id(source))) for source in sources)]
    return [torch.zeros_like(like) if total is None else _fitted(total, like) for like, total in totals]


@_steps_backward.register_fake
def _(
    grad: Tensor,
    grad_energies: Tensor,
    x: Tensor,
    c: Tensor,
    states: Tensor,
    parts: list[Tensor],
    wanted: list[bool],
    handle: int,
    steps: int,
    snapshots: int,
    energy: int,
    constant: bool,
    autocast: torch.dtype | None,
) -> list[Tensor]:
    return [torch.empty_like(source) for source, want in zip((x, c, *parts), wanted, strict=True) if want]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, c, parts, *ctx.settings = inputs
    ctx.save_for_backward(x, c, output[2], *parts)
    ctx.mark_non_differentiable(output[2])
    if not ctx.settings[3]:
        ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad: Tensor, grad_energies: Tensor, _: Tensor) -> tuple[Any, ...]:
    for_x, for_c, for_parts, *others = ctx.needs_input_grad
    wanted = [for_x, for_c, *for_parts]
    x, c, states, *parts = ctx.saved_tensors
    found = iter(_steps_backward(grad, grad_energies, x, c, states, parts, wanted, *ctx.settings))
    grads = [next(found) if want else None for want in wanted]
    return grads[0], grads[1], grads[2:], *(None for _ in others)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError("steps as one operator have no second derivatives: call the layer without torch.compile")


_steps.register_autograd(_differentiate, setup_context=_save)
_steps_backward.register_autograd(_refuse)


def _layer(handle: int) -> nn.Module:
    module = _layers.get(handle)
    if module is None:
        raise RuntimeError("the layer whose steps were compiled is no longer alive")
    return module


def _chain(module: Any, constant: bool, steps: int, energy: int) -> Any:
    return chain_of(module.one_step(compiled=False), constant, steps, _ENERGIES[energy], module)


def _last(x: Tensor) -> bool:
    """Whether pictures have their channels last in memory."""
    return x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _like(x: Tensor) -> Tensor:
    """An array for a state."""
    return torch.empty_like(x, memory_format=torch.channels_last if _last(x) else torch.contiguous_format)


def _settled(last: Tensor, *given: Tensor) -> Tensor:
    """The last state in the layout of `_like`, and not in an input array."""
    out = _like(given[0])
    storages = {array.untyped_storage().data_ptr() for array in given}
    if last.stride() == out.stride() and last.untyped_storage().data_ptr() not in storages:
        return last.detach()
    return out.copy_(last)


def _states(x: Tensor, kept: int) -> Tensor:
    """An array for the kept states, each in the layout of `_like`; the first of them is x itself."""
    count = max(0, kept - 1)
    if not _last(x):
        return x.new_empty((count, *x.shape))
    batch, channels, height, width = x.shape
    return x.new_empty((count, batch, height, width, channels)).permute(0, 1, 4, 2, 3)


def _wide(x: Tensor, c: Tensor) -> torch.dtype:
    """The type of energies."""
    return torch.promote_types(torch.promote_types(x.dtype, c.dtype), torch.float32)


def _fitted(grad: Tensor, like: Tensor) -> Tensor:
    """A gradient in the type and memory order of its array, not shared with anyone."""
    return torch.empty_like(like).copy_(grad)
