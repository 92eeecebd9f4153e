"""LayerNorm of the last axis in one pass over memory each way.

With the statistics of a row over its C channels,

    y = (x − mean) · r · w + b,  r = 1/√(var + ε),      g_x = r (g w − ⟨g w⟩ − x̂ ⟨g w x̂⟩),  x̂ = (x − mean) r

where ⟨·⟩ is the mean over a row; g_w = Σ g x̂ and g_b = Σ g over all rows. In the backward pass a program goes through
many rows and keeps its own sums, which are then added up in a fixed order: the same input gives the same bits. The
result may have 16 bits for a product that follows, which saves a pass for the cast. Arithmetic is float32 (float64 for
float64). Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.group_norm import at_odds
from akorn.kernels.operators import operator

MAX_CHANNELS = 4096

_ELEMENTS = 1024  # the smallest number of elements of each array per program at a time
_PROGRAMS = 8  # per multiprocessor, backward: as many as run in parallel


@triton.jit(do_not_specialize=["rows"])
def _layer_norm_kernel(
    x,  # [rows, C], like out
    weight,
    bias,
    out,
    statistics,  # [2, rows]: the mean, and r
    rows,
    EPS: tl.constexpr,  # a constant keeps all its digits, also in float64
    C: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_R: tl.constexpr,
    WIDE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.arange(0, BLOCK_C)
    places = row[:, None] * C + c[None, :]
    inside = (row < rows)[:, None] & (c < C)[None, :]
    w = tl.load(weight + c, mask=c < C, other=0.0).to(WIDE)
    b = tl.load(bias + c, mask=c < C, other=0.0).to(WIDE)
    tile = tl.load(x + places, mask=inside, other=0.0).to(WIDE)
    mean = tl.sum(tile, 1) / C
    tile = tl.where((c < C)[None, :], tile - mean[:, None], 0.0)
    r = 1.0 / tl.sqrt(tl.sum(tile * tile, 1) / C + EPS)
    y = tile * r[:, None] * w[None, :] + b[None, :]
    tl.store(out + places, y.to(out.dtype.element_ty), mask=inside)
    tl.store(statistics + row, mean, mask=row < rows)
    tl.store(statistics + rows + row, r, mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def _layer_norm_backward_kernel(
    grad,  # [rows, C], like x and grad_x
    x,
    weight,
    statistics,
    grad_x,
    sums,  # [programs, 2, C]: of the weight, of the bias, over the rows of a program
    rows,
    C: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_R: tl.constexpr,
    WIDE: tl.constexpr,
):
    c = tl.arange(0, BLOCK_C)
    w = tl.load(weight + c, mask=c < C, other=0.0).to(WIDE)
    of_weight = tl.zeros([BLOCK_R, BLOCK_C], WIDE)
    of_bias = tl.zeros([BLOCK_R, BLOCK_C], WIDE)
    for tile in range(tl.program_id(0), tl.cdiv(rows, BLOCK_R), tl.num_programs(0)):
        row = tile * BLOCK_R + tl.arange(0, BLOCK_R).to(tl.int64)
        places = row[:, None] * C + c[None, :]
        inside = (row < rows)[:, None] & (c < C)[None, :]
        normed = tl.load(x + places, mask=inside, other=0.0).to(WIDE)
        g = tl.load(grad + places, mask=inside, other=0.0).to(WIDE)
        mean = tl.load(statistics + row, mask=row < rows, other=0.0)
        r = tl.load(statistics + rows + row, mask=row < rows, other=0.0)
        normed = (normed - mean[:, None]) * r[:, None]  # x̂; outside g is 0
        of_weight += g * normed
        of_bias += g
        g *= w[None, :]
        level = tl.sum(g, 1) / C
        along = tl.sum(g * normed, 1) / C
        back = r[:, None] * (g - level[:, None] - normed * along[:, None])
        tl.store(grad_x + places, back.to(grad_x.dtype.element_ty), mask=inside)
    mine = sums + tl.program_id(0) * (2 * C) + c
    tl.store(mine, tl.sum(of_weight, 0), mask=c < C)
    tl.store(mine + C, tl.sum(of_bias, 0), mask=c < C)


def why_not(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> str | None:
    """Why `layer_norm` cannot take arrays that `akorn.kernels.usable` allows, or None if it can."""
    if weight is None or bias is None:
        return "no weight or bias"
    if (reason := at_odds(x, weight, bias)) is not None:
        return reason
    if x.ndim < 1 or weight.shape != x.shape[-1:] or bias.shape != weight.shape:
        return f"arrays of {list(x.shape)}, {list(weight.shape)} and {list(bias.shape)}"
    if not 1 <= x.shape[-1] <= MAX_CHANNELS:
        return f"{x.shape[-1]} channels"
    return None


@operator("akorn::layer_norm")
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """LayerNorm of [..., C] over the last axis, for what `why_not` allows; differentiable once.

    dtype: its type. Returns the result, plain in memory, and the statistics that the backward pass uses, [2, ...].
    """
    x = x.contiguous()
    out, statistics = _results(x, dtype)
    rows, sizes = _sizes(x)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _layer_norm_kernel[(triton.cdiv(rows, sizes["BLOCK_R"]),)](
            x, weight.contiguous(), bias.contiguous(), out, statistics, rows, EPS=eps, **sizes
        )
    return out, statistics


@layer_norm.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return _results(x, dtype)


@operator("akorn::layer_norm_backward")
def layer_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of weight and bias, [2, C], as wide as the statistics."""
    x = x.contiguous()
    grad_x = x.new_empty(x.shape)
    rows, sizes = _sizes(x)
    programs = min(triton.cdiv(rows, sizes["BLOCK_R"]), _PROGRAMS * _multiprocessors(x))
    sums = x.new_empty(programs, 2, x.shape[-1], dtype=statistics.dtype)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _layer_norm_backward_kernel[(programs,)](
            grad.contiguous(), x, weight.contiguous(), statistics, grad_x, sums, rows, **sizes
        )
    return grad_x, sums.sum(0)


@layer_norm_backward.register_fake
def _(grad: Tensor, x: Tensor, weight: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(2, x.shape[-1], dtype=statistics.dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, _, _, _ = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, statistics = ctx.saved_tensors
    grad_x, sums = layer_norm_backward(grad, x, weight, statistics)
    of_weight, of_bias = sums.to(weight.dtype)
    return grad_x, of_weight, of_bias, None, None


layer_norm.register_autograd(_differentiate, setup_context=_keep)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "the fused LayerNorm has no second derivatives; akorn.kernels.enable(False) selects the plain one"
    )


layer_norm_backward.register_autograd(_refuse)


def _results(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Empty arrays for the result and the statistics."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.new_empty(x.shape, dtype=dtype), x.new_empty(2, *x.shape[:-1], dtype=wide)


def _sizes(x: Tensor) -> tuple[int, dict[str, Any]]:
    """The number of rows, and what the kernels are compiled for: about 8 elements of each array in a thread."""
    channels = x.shape[-1]
    block = triton.next_power_of_2(channels)
    sizes = {
        "C": channels,
        "BLOCK_C": block,
        "BLOCK_R": max(1, _ELEMENTS // block),
        "WIDE": tl.float64 if x.dtype == torch.float64 else tl.float32,
        "num_warps": max(4, block // 512),
    }
    return x.numel() // channels, sizes


def _multiprocessors(x: Tensor) -> int:
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
