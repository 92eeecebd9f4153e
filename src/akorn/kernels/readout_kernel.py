"""The kernels of `akorn.kernels.readout`, where the equations are. Needs Triton to import.

Tiles are those of `akorn.kernels.update_tiles`: some rows r at some pixels, with the biases a_k and b_k of k = r mod K.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

from akorn.kernels.update_tiles import load_pairs, place, store_pairs


@triton.jit
def _place_lengths(rows, pixels, ROWS: tl.constexpr, PIXELS: tl.constexpr, FLAT: tl.constexpr):
    """Where this program's lengths lie, [ROWS] if FLAT, else [ROWS, 1, PIXELS]: first, offsets, row, inside."""
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
def _load_inner(
    inner, row, COUNT: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr, FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """The pairs of a that belong to a tile, also beyond its end; row: the tile's first."""
    if FLAT:
        offsets = tl.arange(0, ROWS * HALF * 2)
        if ROWS % COUNT != 0:  # else every tile begins with the first channel, which the compiler should know
            offsets += row % COUNT * N
        offsets = offsets % (COUNT * N)
        even = offsets >= 0
        odd = even
    else:
        r = (row % COUNT + tl.arange(0, ROWS)[:, None, None]) % COUNT
        h = 2 * tl.arange(0, HALF)[None, :, None]
        offsets = r * N + h
        even = (r >= 0) & (h < N)
        odd = (r >= 0) & (h + 1 < N)
    return load_pairs(inner, offsets, even, odd, 1, ROWS, HALF, FLAT, WIDE)


@triton.jit
def group_lengths_kernel(
    z,  # [rows, N, pixels]
    inner,  # [K, N]
    bias,  # [K]
    out,  # [rows, pixels]
    rows,
    pixels,
    COUNT: tl.constexpr,  # K
    INNER: tl.constexpr,
    BIAS: tl.constexpr,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    """m = ‖z + a‖ + b of a tile."""
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    z0, z1 = load_pairs(z + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    first, offsets, row, inside = _place_lengths(rows, pixels, ROWS, PIXELS, FLAT)
    if INNER:
        tile = tl.program_id(0) // tl.cdiv(pixels, PIXELS) * ROWS
        a0, a1 = _load_inner(inner, tile, COUNT, N, ROWS, HALF, FLAT, WIDE)
        z0 += a0
        z1 += a1
    length = tl.sqrt(tl.sum(z0 * z0 + z1 * z1, 1, keep_dims=not FLAT))
    if BIAS:
        length += tl.load(bias + row % COUNT).to(WIDE)
    tl.store(out + first + offsets, length.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _scale(z0, z1, g):
    """g/‖z‖, and 0 where z = 0."""
    length = tl.sqrt(tl.sum(z0 * z0 + z1 * z1, 1, keep_dims=True))
    some = length > 0.0
    return tl.where(some, g / tl.where(some, length, 1.0), 0.0)


@triton.jit
def group_lengths_backward_kernel(
    grad,  # [rows, pixels]
    z,  # [rows, N, pixels]
    inner,  # [K, N]
    grad_z,
    rows,
    pixels,
    COUNT: tl.constexpr,
    INNER: tl.constexpr,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    """∂z of a tile."""
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    z0, z1 = load_pairs(z + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    first, places, _, inside = _place_lengths(rows, pixels, ROWS, PIXELS, FLAT)
    g = tl.load(grad + first + places, mask=inside, other=0.0).to(WIDE)
    if FLAT:
        g = g[:, None]
    if INNER:
        tile = tl.program_id(0) // tl.cdiv(pixels, PIXELS) * ROWS
        a0, a1 = _load_inner(inner, tile, COUNT, N, ROWS, HALF, FLAT, WIDE)
        z0 += a0
        z1 += a1
    scale = _scale(z0, z1, g)
    store_pairs(grad_z + start, scale * z0, scale * z1, offsets, even, odd, pixels, ROWS, HALF, FLAT)


@triton.jit
def group_lengths_backward_sums_kernel(
    grad,  # [rows]
    z,  # [rows, N]
    inner,  # [K, N]
    grad_z,
    sums,  # [programs, K·N + K]
    rows,
    tiles,  # per program
    COUNT: tl.constexpr,
    INNER: tl.constexpr,
    N: tl.constexpr,
    ROWS: tl.constexpr,  # a multiple of K: the same element of each tile belongs to the same channel
    HALF: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The same if FLAT, for several tiles per program, with the sums of ∂z and of g over them."""
    r = tl.arange(0, ROWS)
    e = tl.arange(0, ROWS * N)
    a0 = tl.zeros([ROWS, HALF], WIDE)
    a1 = tl.zeros([ROWS, HALF], WIDE)
    if INNER:
        a0, a1 = _load_inner(inner, 0, COUNT, N, ROWS, HALF, True, WIDE)
    sum0 = tl.zeros([ROWS, HALF], WIDE)
    sum1 = tl.zeros([ROWS, HALF], WIDE)
    sum_g = tl.zeros([ROWS], WIDE)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for tile in range(tiles):
        row = first + tile * (tl.num_programs(0).to(tl.int64) * ROWS)
        inside = e < (rows - row) * N
        z0, z1 = load_pairs(z + row * N, e, inside, inside, 1, ROWS, HALF, True, WIDE)
        g = tl.load(grad + row + r, mask=r < rows - row, other=0.0).to(WIDE)
        z0 += a0
        z1 += a1
        scale = _scale(z0, z1, g[:, None])
        z0 *= scale
        z1 *= scale
        store_pairs(grad_z + row * N, z0, z1, e, inside, inside, 1, ROWS, HALF, True)
        sum0 += z0
        sum1 += z1
        sum_g += g
    to = sums + tl.program_id(0) * (COUNT * (N + 1))
    both = tl.reshape(tl.join(sum0, sum1), [ROWS // COUNT, COUNT * N])
    tl.store(to + tl.arange(0, COUNT * N), tl.sum(both, 0))
    tl.store(to + COUNT * N + tl.arange(0, COUNT), tl.sum(tl.reshape(sum_g, [ROWS // COUNT, COUNT]), 0))
