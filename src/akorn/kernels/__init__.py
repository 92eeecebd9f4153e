"""Fused kernels for the hot loops: tensors in, tensors out. Each has a plain form that gives the same results.

`akorn.execution` decides what uses them, and when; here are the switches, and which arrays they accept
(`usable`). Kernels are in the module that callers use, or next to it in `…_kernel(s)`, `…_tiles` and `…_backward`:

    update           the update of Eq. 4–5, also without Proj, with Ω by `update_omega`
    sphere           Π alone
    attention        attention with GTA's matrices, which are applied to pairs of components by `pairs`, `pairs_passes`
    convolution      convolutions whose gradients are faster
    readout          the readout's lengths (Eq. 6)
    group_norm       GroupNorm
    layer_norm       LayerNorm
    solve            T steps without gradients, as CUDA graphs (`solve_run`, with `solve_attention` and `solve_output`);
                     on a CPU `solve_cpu`; both take a `solve_step`
    normal_numbers   random numbers that are the same on every device

`tune` and `choices` find by timing how work is best divided, and remember it; inside `backward_memory.keeping` more is
kept for a backward pass. `operators` registers kernels as torch operators. `enable(False)`, or AKORN_KERNELS=0 in the
environment, turns them off.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from akorn._moved import with_old_names
from akorn.runtime.devices import NO_TRITON, missing_for_kernels

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["available", "enable", "enabled", "usable"]

_WORDS = {"0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True, "yes": True}


def _wanted() -> bool:
    """The setting of AKORN_KERNELS; on if it is not set or has an unknown value."""
    told = os.environ.get("AKORN_KERNELS", "").strip()
    if told and told.lower() not in _WORDS:
        logging.getLogger(__name__).warning("AKORN_KERNELS=%s is neither 0 nor 1: fused kernels stay on", told)
    return _WORDS.get(told.lower(), True)


_enabled = _wanted()
_missing = missing_for_kernels()
_interpreted = False  # tests set it: arrays on the CPU then go through Triton's interpreter


def enable(flag: bool) -> None:
    """Turn the fused kernels on or off; with AKORN_KERNELS=0 (or false, off, no) they start off."""
    global _enabled
    _enabled = flag


def enabled() -> bool:
    """Whether fused kernels may be used."""
    return _enabled


@cache
def available() -> bool:
    """Whether fused kernels can run here: a CUDA device, Triton, a C compiler, Python.h. Warns once if not."""
    import torch

    if not torch.cuda.is_available():
        return False
    if _missing is not None:
        logging.getLogger(__name__).warning("%s: Kuramoto steps run unfused, which is slower", _missing)
    return _missing is None


def interpreting() -> bool:
    """Whether arrays on the CPU go through Triton's interpreter, as in tests."""
    return _interpreted


def usable(x: Tensor) -> bool:
    """Whether fused kernels may work on this array: they are on, it is on a CUDA device, and Triton can run.

    The kernels support only reverse-mode gradients, so not within `vmap`, `jvp` or other function transforms, nor for
    subclasses of Tensor. May be called while `torch.compile` traces, and never waits for the device.
    """
    import torch

    if not _enabled or not (x.is_cuda or _interpreted) or not untransformed(x):
        return False
    if _missing is None or (_interpreted and _missing != NO_TRITON):  # the interpreter needs no compiler
        return True
    if not torch.compiler.is_compiling():
        available()  # warns once
    return False


def untransformed(x: Tensor) -> bool:
    """Whether this is a plain array, outside `vmap`, `jvp` and other function transforms."""
    import torch
    from torch.autograd import forward_ad

    if type(x) not in (torch.Tensor, torch.nn.Parameter) or torch._C._are_functorch_transforms_active():
        return False
    return forward_ad._current_level < 0


def _find(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__getattr__ = with_old_names(__name__, _find)
