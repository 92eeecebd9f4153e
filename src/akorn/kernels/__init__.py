"""Fused kernels for the hot loops, picked at run time; every one has a plain form that gives the same results.

For training, layers take fused kernels by themselves for arrays that `usable` allows, forward and backward. Kernels
are in the module that layers call, or beside it in `…_kernel(s)`, `…_tiles` and `…_backward`:

    update, step     the update of Eq. 4–5, with Ω by `update_omega`, and how it is a step of a layer
    normalise        Π alone
    attend           attention with GTA's matrices, which are applied by `turn` and `turn_passes`
    convolution      convolutions whose gradients are quicker
    readout          the readout's lengths (Eq. 6)
    norm             GroupNorm
    layer_norm       LayerNorm

`tune` and `choices` time how work is best cut and remember it; inside `keep.keeping` more is kept for a backward pass.

`solve_steps` runs T Kuramoto steps without gradients. On a CUDA device with Triton it takes the fused path (`solve`,
with `attention` and `output`) where that applies, on a CPU that of `cpu`; everywhere else, and with `enable(False)` or
AKORN_KERNELS=0 in the environment, the layer's own loop.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING, Literal

from akorn.runtime.devices import NO_TRITON, missing_for_kernels

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from akorn.nn.kuramoto import KuramotoLayer, Stimulus

__all__ = ["available", "enable", "enabled", "solve_steps", "usable"]

Energy = Literal["eq3", "published"]

_WORDS = {"0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True, "yes": True}


def _wanted() -> bool:
    """What AKORN_KERNELS says; on where it says nothing, or nothing that is known."""
    told = os.environ.get("AKORN_KERNELS", "").strip()
    if told and told.lower() not in _WORDS:
        logging.getLogger(__name__).warning("AKORN_KERNELS=%s is neither 0 nor 1: fused kernels stay on", told)
    return _WORDS.get(told.lower(), True)


_enabled = _wanted()
_missing = missing_for_kernels()
_interpreted = False  # tests set it: arrays on the CPU then go through Triton's interpreter


def enable(flag: bool) -> None:
    """Turn the fused kernels on or off; AKORN_KERNELS=0 (or false, off, no) starts with them off."""
    global _enabled
    _enabled = flag


def enabled() -> bool:
    """Whether fused kernels may be used."""
    return _enabled


@cache
def available() -> bool:
    """Whether fused kernels can run here: a CUDA device, Triton, a C compiler, Python.h. Says once what a GPU lacks."""
    import torch

    if not torch.cuda.is_available():
        return False
    if _missing is not None:
        logging.getLogger(__name__).warning("%s: Kuramoto steps run unfused, which is slower", _missing)
    return _missing is None


def usable(x: Tensor) -> bool:
    """Whether fused kernels may work on this array: they are on, it is on a CUDA device, and Triton can run.

    The kernels know reverse-mode gradients alone, so not within `vmap`, `jvp` or other function transforms, nor for
    subclasses of Tensor. May be called where `torch.compile` traces, and never waits for the device.
    """
    import torch

    if not _enabled or not (x.is_cuda or _interpreted) or not untransformed(x):
        return False
    if _missing is None or (_interpreted and _missing != NO_TRITON):  # the interpreter compiles nothing
        return True
    if not torch.compiler.is_compiling():
        available()  # says so, once
    return False


def untransformed(x: Tensor) -> bool:
    """Whether this is a plain array, outside `vmap`, `jvp` and other function transforms."""
    import torch
    from torch.autograd import forward_ad

    if type(x) not in (torch.Tensor, torch.nn.Parameter) or torch._C._are_functorch_transforms_active():
        return False
    return forward_ad._current_level < 0


def hooked(module: nn.Module) -> bool:
    """Whether someone listens to a part of the module, forward or backward: hooks run in the plain form alone."""
    return any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        for part in module.modules()
    )


def solve_steps(
    layer: KuramotoLayer,
    x: Tensor,
    c: Stimulus,
    steps: int,
    energy: Energy | None = "eq3",
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`steps` updates of a state, for solving: the last state, like x, and the energies before each step, [steps, B].

    The fused path takes over on CUDA without gradients, for at most 128 tokens under attention with free maps, GTA,
    rotary or no positions, one rate or no natural rotation and a constant c. Then weights and states are bfloat16
    unless `dtype` says otherwise, energies and norms are float32; on a CPU such layers, of any number of tokens, take a
    path of long passes in float32; otherwise all is as in `layer.evolve`, in the types given.

    Args:
        layer: the Kuramoto layer.
        x: the first state; it need not be normalised.
        c: the stimulus, as for `layer.evolve`.
        steps: T.
        energy: "eq3" (Eq. 3), "published" (the pair term without its ½), or None for no energies.
        dtype: of weights and states on the fused path: float32, bfloat16 (the default) or float16.

    """
    import torch

    from akorn import oscillators as osc

    functions = {"eq3": osc.energy, "published": osc.published_energy, None: None}
    if energy not in functions:
        raise ValueError(f'energy must be "eq3", "published" or None, got {energy!r}')
    if dtype not in (None, torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype must be float32, bfloat16 or float16, got {dtype}")
    fast = _enabled and not torch.is_grad_enabled() and not hooked(layer)
    if fast and x.is_cuda and available():
        from akorn.kernels import solve

        if not torch.cuda.is_current_stream_capturing() and solve.why_not(layer, x, c) is None:
            assert isinstance(c, torch.Tensor)
            return solve.fused_steps(layer, x, c, steps, energy, dtype or torch.bfloat16)
    if fast and x.device.type == "cpu" and dtype in (None, torch.float32):
        from akorn.kernels import cpu

        if cpu.why_not(layer, x, c) is None:
            assert isinstance(c, torch.Tensor)
            return cpu.fast_steps(layer, x, c, steps, energy)
    evolution = layer.evolve(x, c, steps, energy=functions[energy])
    return evolution.x, evolution.energies
