"""The readout's norms m_k = ‖z_k + a_k‖ + b_k (Eq. 6) in one pass over memory each way; only z is kept for later.

z is read in place, as [rows, N′, pixels] like the arrays of `akorn.kernels.update_tiles`; row r belongs to the
biases a_k and b_k with k = r mod K. Arithmetic is float32 whatever the arrays are (float64 for float64). With g the
gradient of m, ∂z_k = g_k (z_k + a_k)/‖z_k + a_k‖, and 0 where that is 0/0, as in torch's own norm. The gradients of a
and b are sums of ∂z and g over all places; if channels lie side by side, they are computed in the same pass. Needs
Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator
from akorn.kernels.readout_kernel import (
    group_lengths_backward_kernel,
    group_lengths_backward_sums_kernel,
    group_lengths_kernel,
)
from akorn.kernels.update_tiles import cut, form, lying

MAX_N = 16
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

_ELEMENTS = 2048  # elements of z that a program has at a time: 16 per thread
_PARTS = 512  # programs that share a sum: enough to keep a GPU busy


def why_not(z: Tensor, inner: Tensor, bias: Tensor, n: int) -> str | None:
    """Why `group_lengths` cannot take arrays that `akorn.kernels.usable` allows, or None if it can."""
    arrays = (z, inner, bias)
    if not 1 <= n <= MAX_N:
        return f"N′ = {n} is not 1 to {MAX_N}"
    if not {array.dtype for array in arrays} <= set(DTYPES):
        return f"arrays of {', '.join(str(array.dtype) for array in arrays)}"
    if z.dtype != torch.float64 and torch.float64 in (inner.dtype, bias.dtype):
        return "a bias alone is float64"
    if any(array.device != z.device for array in arrays):
        return "a bias is on another device"
    return None


@operator("akorn::group_lengths")
def group_lengths(z: Tensor, inner: Tensor | None, bias: Tensor | None, n: int, dtype: torch.dtype) -> Tensor:
    """‖z_k + a_k‖ + b_k over the N′ consecutive channels of each k; differentiable once.

    Args:
        z: [B, C], [B, tokens, C] or pictures [B, C, H, W] with C = K·N′.
        inner: a, [C]; None for 0.
        bias: b, [K]; None for 0.
        n: N′, 1 to 16.
        dtype: of the result; it is rounded once.

    Returns: the same with K channels, which has the memory layout of z.

    """
    count = _check(z, inner, bias, n)
    z = z.contiguous(memory_format=form(z))
    out = _like(z, count, dtype)
    rows, pixels = _rows(z, n)
    tiles = cut(rows, pixels, n, z.dtype, _ELEMENTS)
    with torch.cuda.device_of(z):  # Triton launches on the current device
        group_lengths_kernel[(tiles.parts,)](
            z,
            inner.contiguous() if inner is not None else z,
            bias.contiguous() if bias is not None else z,
            out,
            rows,
            pixels,
            COUNT=count,
            INNER=inner is not None,
            BIAS=bias is not None,
            **tiles.constants,
        )
    return out


@group_lengths.register_fake
def _(z: Tensor, inner: Tensor | None, bias: Tensor | None, n: int, dtype: torch.dtype) -> Tensor:
    return _like(z.contiguous(memory_format=form(z)), _check(z, inner, bias, n), dtype)


@operator("akorn::group_lengths_backward")
def group_lengths_backward(grad: Tensor, z: Tensor, inner: Tensor | None, n: int) -> tuple[Tensor, Tensor]:
    """The gradient of z, from that of its lengths; and those of a and b, one after the other, [K·N′ + K]."""
    memory = form(z)
    z, grad = z.contiguous(memory_format=memory), grad.contiguous(memory_format=memory)
    grad_z = torch.empty_like(z)
    count = _check(z, inner, None, n)
    rows, pixels = _rows(z, n)
    tiles = cut(rows, pixels, n, z.dtype, _ELEMENTS)
    constants = {"COUNT": count, "INNER": inner is not None, **tiles.constants}
    a = inner.contiguous() if inner is not None else z
    if _summed_on_the_way(count, constants):
        del constants["PIXELS"], constants["FLAT"]
        each = triton.cdiv(tiles.parts, _PARTS)  # tiles per program
        sums = z.new_empty(triton.cdiv(tiles.parts, max(1, each)), count * (n + 1), dtype=_wide(z))
        with torch.cuda.device_of(z):  # Triton launches on the current device
            group_lengths_backward_sums_kernel[(len(sums),)](grad, z, a, grad_z, sums, rows, each, **constants)
        return grad_z, sums.sum(0)
    with torch.cuda.device_of(z):
        group_lengths_backward_kernel[(tiles.parts,)](grad, z, a, grad_z, rows, pixels, **constants)
    return grad_z, torch.cat([_sum(grad_z), _sum(grad)]).to(_wide(z))


@group_lengths_backward.register_fake
def _(grad: Tensor, z: Tensor, inner: Tensor | None, n: int) -> tuple[Tensor, Tensor]:
    count = _check(z, inner, None, n)
    return torch.empty_like(z.contiguous(memory_format=form(z))), z.new_empty(count * (n + 1), dtype=_wide(z))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    z, inner, bias, ctx.n, _ = inputs
    ctx.save_for_backward(z, inner)
    ctx.dtypes = [a.dtype if a is not None else None for a in (inner, bias)]


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    z, inner = ctx.saved_tensors
    grad_z, sums = group_lengths_backward(grad, z, inner, ctx.n)
    count = len(sums) // (ctx.n + 1)
    biases = zip(sums.split((count * ctx.n, count)), ctx.dtypes, strict=True)
    return grad_z, *(values.to(dtype) if dtype is not None else None for values, dtype in biases), None, None


group_lengths.register_autograd(_differentiate, setup_context=_keep)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "the fused norm of the readout has no second derivatives; akorn.kernels.enable(False) selects the plain one"
    )


group_lengths_backward.register_autograd(_refuse)


def _summed_on_the_way(count: int, constants: dict[str, Any]) -> bool:
    """Whether a tile holds each channel equally often, so that elements can be added up tile by tile."""
    return bool(constants["FLAT"] and count & (count - 1) == 0 and count <= constants["ROWS"])


def _sum(values: Tensor) -> Tensor:
    """The sum of each channel: [channels]."""
    others = (0, 2, 3) if values.ndim == 4 else tuple(range(values.ndim - 1))
    return values.sum(others, dtype=_wide(values))


def _wide(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _rows(z: Tensor, n: int) -> tuple[int, int]:
    """(rows, pixels) of the whole array in its `form`: it makes no difference where a sample ends."""
    rows, pixels = lying(z, n)
    return z.shape[0] * rows, pixels


def _like(z: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """An array of `count` channels with the memory layout of z."""
    if z.ndim != 4:
        return z.new_empty((*z.shape[:-1], count), dtype=dtype)
    batch, _, height, width = z.shape
    if form(z) is torch.channels_last:
        return z.new_empty((batch, height, width, count), dtype=dtype).permute(0, 3, 1, 2)
    return z.new_empty((batch, count, height, width), dtype=dtype)


def _check(z: Tensor, inner: Tensor | None, bias: Tensor | None, n: int) -> int:
    """K; ValueError unless these fit together."""
    channels = z.shape[1] if z.ndim == 4 else z.shape[-1]
    if not 1 <= n <= MAX_N or channels % n:
        raise ValueError(f"n must be 1 to {MAX_N} and divide the {channels} channels, got n={n}")
    for name, values, size in (("inner bias", inner, channels), ("bias", bias, channels // n)):
        if values is not None and values.shape != (size,):
            raise ValueError(f"the {name} must have {size} values, got the shape {list(values.shape)}")
    return channels // n
