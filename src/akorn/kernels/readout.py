"""The readout's norms m_k = ‖z_k‖ + b_k (Eq. 6) in one pass over memory each way; only z is kept for the way back.

z is read where it lies, as [rows, N′, pixels] like the arrays of `akorn.kernels.update_tiles`; row r belongs to the
bias b_k with k = r mod K. Arithmetic is float32 whatever the arrays are (float64 for float64). With g the gradient of
m, ∂z_k = g_k z_k/‖z_k‖, and 0 where z_k = 0, as torch's own norm has it. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.update_tiles import cut, form, load_pairs, lying, place, store_pairs

MAX_N = 16
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

_ELEMENTS = 2048  # of z, a program: 16 a thread


@triton.jit
def _place_lengths(rows, pixels, ROWS: tl.constexpr, PIXELS: tl.constexpr, FLAT: tl.constexpr):
    """Where this program's lengths lie, [ROWS] where FLAT and else [ROWS, 1, PIXELS]: first, offsets, row, inside."""
    program = tl.program_id(0)
    across = tl.cdiv(pixels, PIXELS)
    pixel = (program % across) * PIXELS
    row = program // across * ROWS
    start = row.to(tl.int64) * pixels + pixel
    if FLAT:
        r = tl.arange(0, ROWS)
        offsets = r
        inside = r < rows - row
    else:
        r = tl.arange(0, ROWS)[:, None, None]
        p = tl.arange(0, PIXELS)[None, None, :]
        offsets = r * pixels + p
        inside = (r < rows - row) & (p < pixels - pixel)
    return start, offsets, row + r, inside


@triton.jit
def _lengths_kernel(
    z,  # [rows, N, pixels]
    bias,  # [K]
    out,  # [rows, pixels]
    rows,
    pixels,
    count,  # K
    BIAS: tl.constexpr,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    z0, z1 = load_pairs(z + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    first, offsets, row, inside = _place_lengths(rows, pixels, ROWS, PIXELS, FLAT)
    length = tl.sqrt(tl.sum(z0 * z0 + z1 * z1, 1, keep_dims=not FLAT))
    if BIAS:
        length += tl.load(bias + row % count).to(WIDE)
    tl.store(out + first + offsets, length.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _lengths_backward_kernel(
    grad,  # [rows, pixels]
    z,  # [rows, N, pixels]
    grad_z,
    rows,
    pixels,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    z0, z1 = load_pairs(z + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    first, places, _, inside = _place_lengths(rows, pixels, ROWS, PIXELS, FLAT)
    g = tl.load(grad + first + places, mask=inside, other=0.0).to(WIDE)
    if FLAT:
        g = g[:, None]
    length = tl.sqrt(tl.sum(z0 * z0 + z1 * z1, 1, keep_dims=True))
    some = length > 0.0
    scale = tl.where(some, g / tl.where(some, length, 1.0), 0.0)
    store_pairs(grad_z + start, scale * z0, scale * z1, offsets, even, odd, pixels, ROWS, HALF, FLAT)


def why_not(z: Tensor, bias: Tensor, n: int) -> str | None:
    """What keeps `group_lengths` from arrays that `akorn.kernels.usable` allows, or None where it applies."""
    if not 1 <= n <= MAX_N:
        return f"N′ = {n} is not 1 to {MAX_N}"
    if z.dtype not in DTYPES or bias.dtype not in DTYPES:
        return f"arrays of {z.dtype} and {bias.dtype}"
    if z.dtype != torch.float64 and bias.dtype == torch.float64:
        return "the bias alone is float64"
    if bias.device != z.device:
        return "the bias is on another device"
    return None


@torch.library.custom_op("akorn::group_lengths", mutates_args=())
def group_lengths(z: Tensor, bias: Tensor | None, n: int, dtype: torch.dtype) -> Tensor:
    """‖z_k‖ + b_k over the N′ consecutive channels of each k; differentiable once.

    Args:
        z: [B, C], [B, tokens, C] or pictures [B, C, H, W] with C = K·N′.
        bias: b, [K]; None for 0.
        n: N′, 1 to 16.
        dtype: of the result; it is rounded once.

    Returns: the same with K channels, which lies in memory as z does.

    """
    count = _check(z, bias, n)
    z = z.contiguous(memory_format=form(z))
    out = _like(z, count, dtype)
    rows, pixels = _rows(z, n)
    tiles = cut(rows, pixels, n, z.dtype, _ELEMENTS)
    with torch.cuda.device_of(z):  # Triton launches on the current one
        _lengths_kernel[(tiles.parts,)](
            z,
            bias.contiguous() if bias is not None else z,
            out,
            rows,
            pixels,
            count,
            BIAS=bias is not None,
            **tiles.constants,
        )
    return out


@group_lengths.register_fake
def _(z: Tensor, bias: Tensor | None, n: int, dtype: torch.dtype) -> Tensor:
    return _like(z.contiguous(memory_format=form(z)), _check(z, bias, n), dtype)


@torch.library.custom_op("akorn::group_lengths_backward", mutates_args=())
def group_lengths_backward(grad: Tensor, z: Tensor, n: int) -> Tensor:
    """The gradient of z, from that of its lengths."""
    memory = form(z)
    z, grad = z.contiguous(memory_format=memory), grad.contiguous(memory_format=memory)
    grad_z = torch.empty_like(z)
    rows, pixels = _rows(z, n)
    tiles = cut(rows, pixels, n, z.dtype, _ELEMENTS)
    with torch.cuda.device_of(z):  # Triton launches on the current one
        _lengths_backward_kernel[(tiles.parts,)](grad, z, grad_z, rows, pixels, **tiles.constants)
    return grad_z


@group_lengths_backward.register_fake
def _(grad: Tensor, z: Tensor, n: int) -> Tensor:
    return torch.empty_like(z.contiguous(memory_format=form(z)))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    z, bias, ctx.n, _ = inputs
    ctx.save_for_backward(z)
    ctx.bias_dtype = bias.dtype if bias is not None else None


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (z,) = ctx.saved_tensors
    for_z, for_bias, _, _ = ctx.needs_input_grad
    grad_bias = None
    if for_bias:
        others = (0, 2, 3) if grad.ndim == 4 else tuple(range(grad.ndim - 1))
        grad_bias = grad.sum(others, dtype=torch.promote_types(grad.dtype, torch.float32)).to(ctx.bias_dtype)
    return group_lengths_backward(grad, z, ctx.n) if for_z else None, grad_bias, None, None


group_lengths.register_autograd(_differentiate, setup_context=_keep)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "the fused norm of the readout has no second derivatives; akorn.kernels.enable(False) turns to the plain one"
    )


group_lengths_backward.register_autograd(_refuse)


def _rows(z: Tensor, n: int) -> tuple[int, int]:
    """(rows, pixels) of the whole array in its `form`: it makes no difference where a sample ends."""
    rows, pixels = lying(z, n)
    return z.shape[0] * rows, pixels


def _like(z: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """An array of `count` channels that lies as z does."""
    if z.ndim != 4:
        return z.new_empty((*z.shape[:-1], count), dtype=dtype)
    batch, _, height, width = z.shape
    if form(z) is torch.channels_last:
        return z.new_empty((batch, height, width, count), dtype=dtype).permute(0, 3, 1, 2)
    return z.new_empty((batch, count, height, width), dtype=dtype)


def _check(z: Tensor, bias: Tensor | None, n: int) -> int:
    """K; ValueError unless these fit together."""
    channels = z.shape[1] if z.ndim == 4 else z.shape[-1]
    if not 1 <= n <= MAX_N or channels % n:
        raise ValueError(f"n must be 1 to {MAX_N} and divide the {channels} channels, got n={n}")
    if bias is not None and bias.shape != (channels // n,):
        raise ValueError(f"the bias must have {channels // n} values, got the shape {list(bias.shape)}")
    return channels // n
