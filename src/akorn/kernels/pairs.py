"""GTA's 2×2 matrices, as the attention kernels for training read and apply them. Needs Triton to import."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

from collections.abc import Sequence

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attention_tiles import load_tile
from akorn.kernels.solve_attention import swap_pairs


@triton.jit
def load_matrices(matrices, tokens, parts, PART: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr):
    """Both planes of a set of 2×2 matrices, see `pack`: float32."""
    own = load_tile(matrices + 2 * PART * TOKENS * D, tokens, parts, D, TOKENS, D)
    other = load_tile(matrices + (2 * PART + 1) * TOKENS * D, tokens, parts, D, TOKENS, D)
    return own.to(tl.float32), other.to(tl.float32)


@triton.jit
def apply(x, own, other, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Mx on pairs of columns, float32."""
    x = x.to(tl.float32)
    return own * x + other * swap_pairs(x, ROWS, COLUMNS)


@triton.jit
def apply_back(x, own, other, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Mᵀx on pairs of columns, float32."""
    x = x.to(tl.float32)
    return own * x + swap_pairs(other * x, ROWS, COLUMNS)


@triton.jit
def turn(
    x, matrices, tokens, parts, PART: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The matrices of a part (queries 0, keys 1, values 2, outputs 3) on a tile: Mx, float32."""
    own, other = load_matrices(matrices, tokens, parts, PART, TOKENS, D)
    return apply(x, own, other, ROWS, COLUMNS)


@triton.jit
def turn_back(
    x, matrices, tokens, parts, PART: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Their transposes: Mᵀx, float32."""
    own, other = load_matrices(matrices, tokens, parts, PART, TOKENS, D)
    return apply_back(x, own, other, ROWS, COLUMNS)


@triton.jit
def _pack_one(source, target, places, TOKENS: tl.constexpr, D: tl.constexpr):
    inside = places < TOKENS * D
    row = places % 2  # place = (token · D/2 + pair)·2 + row, and an entry is place·2 + column
    own = tl.load(source + places * 2 + row, mask=inside)
    other = tl.load(source + places * 2 + 1 - row, mask=inside)
    tl.store(target + places, own.to(target.dtype.element_ty), mask=inside)
    tl.store(target + TOKENS * D + places, other.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _pack_kernel(
    query,  # [TOKENS, D/2, 2, 2] each
    key,
    value,
    output,
    packed,  # [SETS, 2, TOKENS, D]
    TOKENS: tl.constexpr,
    D: tl.constexpr,
    SETS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    PLANES: tl.constexpr = 2 * TOKENS * D
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _pack_one(query, packed, places, TOKENS, D)
    _pack_one(key, packed + PLANES, places, TOKENS, D)
    if SETS == 4:
        _pack_one(value, packed + 2 * PLANES, places, TOKENS, D)
        _pack_one(output, packed + 3 * PLANES, places, TOKENS, D)


def pack(matrices: Sequence[Tensor], like: Tensor) -> Tensor:
    """Two (queries, keys) or four (and values, outputs) sets, [tokens, D/2, 2, 2] each → [sets, 2, tokens, D].

    Mx on a pair is own · x + other · (x₂, x₁): own holds the diagonal (m₁₁, m₂₂), other the rest (m₁₂, m₂₁). They get
    the dtype of `like`, as in `akorn.nn.position.apply_pairs`.
    """
    tokens, head_dim = matrices[0].shape[0], 2 * matrices[0].shape[1]
    packed = like.new_empty(len(matrices), 2, tokens, head_dim)
    sets = [m.contiguous() for m in matrices]
    _pack_kernel[(triton.cdiv(tokens * head_dim, 256),)](
        sets[0], sets[1], sets[-2], sets[-1], packed, TOKENS=tokens, D=head_dim, SETS=len(sets), BLOCK=256, num_warps=2
    )
    return packed
