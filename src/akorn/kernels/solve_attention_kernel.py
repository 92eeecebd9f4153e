"""The kernel of `akorn.kernels.solve_attention` and its parts. Needs Triton to import."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc,assignment,var-annotated"
# ruff: noqa: RUF005  (Triton does not support starred tuples)

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]


@triton.jit
def swap_pairs(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(x₁, x₂) → (x₂, x₁) on each pair of consecutive columns: a renaming of registers, no traffic."""
    first, second = tl.split(tl.reshape(x, [ROWS, COLUMNS // 2, 2]))
    return tl.reshape(tl.join(second, first), [ROWS, COLUMNS])


@triton.jit
def _split(x):
    """Two bfloat16 numbers whose sum is a float32, except for its last 8 bits."""
    high = x.to(tl.bfloat16)
    return high, (x - high.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def multiply(a, b, total, PRECISION: tl.constexpr):
    """The sum total + a·b in float32; `tune.precision` and `attention_tiles.products` of `akorn.kernels` say how.

    "split" computes a float32 product as three of bfloat16: (a₁ + a₂)(b₁ + b₂) ≈ a₁b₁ + a₁b₂ + a₂b₁, exact to 16 bits.
    It takes half as long again as one in TF32, which is exact to 10 bits, and no more shared memory.
    """
    if PRECISION == "split" or PRECISION == "split wide":
        HOW: tl.constexpr = "wide" if PRECISION == "split wide" else "tf32"
        a1, a2 = _split(a)
        b1, b2 = _split(b)
        total = multiply(a2, b1, total, HOW)
        total = multiply(a1, b2, total, HOW)
        total = multiply(a1, b1, total, HOW)
    elif PRECISION == "wide":
        total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
    else:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit
def _read(base, rows, parts, STRIDE: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr):
    """Rows of [TOKENS, D], STRIDE apart, which are not read again: they bypass the cache that keeps the matrices."""
    inside = (rows[:, None] < TOKENS) & (parts[None, :] < D)
    return tl.load(base + rows[:, None] * STRIDE + parts[None, :], mask=inside, other=0.0, cache_modifier=".cg")


@triton.jit
def _matrices(matrices, rows, parts, PART: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr):
    """Both planes of a set of 2×2 matrices, see `akorn.kernels.solve_attention.pack_matrices`."""
    inside = (rows[:, None] < TOKENS) & (parts[None, :] < D)
    places = matrices + 2 * PART * TOKENS * D + rows[:, None] * D + parts[None, :]
    own = tl.load(places, mask=inside, other=0.0, eviction_policy="evict_last")
    other = tl.load(places + TOKENS * D, mask=inside, other=0.0, eviction_policy="evict_last")
    return own, other


@triton.jit
def _turn(x, own, other, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PACKED: tl.constexpr):
    """The 2×2 matrices on pairs of columns, as own · x + other · swapped x, in the type of x.

    PACKED turns a pair in three instructions instead of eleven. The product with `other` is then rounded to bfloat16
    before the sum, which is rounded too. It relies on the two columns of a pair being in one register: see
    `akorn.kernels.solve_attention.fitting`.
    """
    if PACKED:
        turned = tl.inline_asm_elementwise(
            """{
            .reg .b32 swapped, part, zero;
            mov.b32 zero, 0x80008000;
            prmt.b32 swapped, $1, $1, 0x1032;
            fma.rn.bf16x2 part, $3, swapped, zero;
            fma.rn.bf16x2 $0, $2, $1, part;
            }""",
            "=r,r,r,r",
            [x, own, other],
            dtype=tl.bfloat16,
            is_pure=False,  # otherwise Triton changes the layout of all three inputs instead of the one result
            pack=2,
        )
    else:
        wide = x.to(tl.float32)
        turned = own.to(tl.float32) * wide + other.to(tl.float32) * swap_pairs(wide, ROWS, COLUMNS)
        turned = turned.to(x.dtype)
    return turned


@triton.jit
def _turn_sum(o, own, other):
    """As `_turn` PACKED, for float32 sums: pairs are swapped where the product left them, and rounded once."""
    return tl.inline_asm_elementwise(
        """{
        .reg .f32 a, b, c, d, first, second;
        shl.b32 a, $3, 16;
        and.b32 b, $3, 0xffff0000;
        shl.b32 c, $4, 16;
        and.b32 d, $4, 0xffff0000;
        mul.f32 first, c, $2;
        mul.f32 second, d, $1;
        fma.rn.f32 first, a, $1, first;
        fma.rn.f32 second, b, $2, second;
        cvt.rn.bf16x2.f32 $0, second, first;
        }""",
        "=r,r,r,r,r",
        [o, own, other],
        dtype=tl.bfloat16,
        is_pure=True,
        pack=2,
    )


@triton.jit
def _keys(
    source, matrices, parts,
    START: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, GROUP: tl.constexpr, POSITION: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Turned keys [BLOCK_D, ROWS] and values [ROWS, BLOCK_D] of each head, and the values with their pairs swapped."""
    C: tl.constexpr = HEADS * D
    rows = START + tl.arange(0, ROWS)
    read_k = ()
    read_v = ()
    for g in tl.static_range(GROUP):
        read_k = read_k + (_read(source + C + g * D, rows, parts, 3 * C, TOKENS, D),)
        read_v = read_v + (_read(source + 2 * C + g * D, rows, parts, 3 * C, TOKENS, D),)
    keys = ()
    values = ()
    swapped = ()
    if POSITION:
        own, other = _matrices(matrices, rows, parts, 1, TOKENS, D)
        for g in tl.static_range(GROUP):
            keys = keys + (tl.trans(_turn(read_k[g], own, other, ROWS, BLOCK_D, PACKED)),)
        own, other = _matrices(matrices, rows, parts, 2, TOKENS, D)
        for g in tl.static_range(GROUP):
            v = _turn(read_v[g], own, other, ROWS, BLOCK_D, PACKED)
            values = values + (v,)
            if not PACKED:
                swapped = swapped + (swap_pairs(v, ROWS, BLOCK_D),)
    else:
        for g in tl.static_range(GROUP):
            keys = keys + (tl.trans(read_k[g]),)
            values = values + (read_v[g],)
    return keys, values, swapped


@triton.jit
def attention_kernel(
    qkv,  # [B, TOKENS, 3·C], channel = part·C + head·D + d
    matrices,  # [4, 2, TOKENS, D], see `akorn.kernels.solve_attention.pack_matrices`; not read without POSITION
    out,  # [B, TOKENS, C]
    scale,  # log₂e / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    GROUP: tl.constexpr,
    POSITION: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Keys come as a tile of FIRST rows and, unless SECOND is 0, another of SECOND rows: 81 as 64 + 32, not 128."""
    C: tl.constexpr = HEADS * D
    dtype = out.dtype.element_ty
    program = tl.program_id(0)
    sample = (program // (HEADS // GROUP)).to(tl.int64)
    head = program % (HEADS // GROUP) * GROUP
    source = qkv + sample * (TOKENS * 3 * C) + head * D
    target = out + sample * (TOKENS * C) + head * D
    parts = tl.arange(0, BLOCK_D)
    k1, v1, s1 = _keys(
        source, matrices, parts, 0, FIRST, TOKENS, HEADS, D, BLOCK_D, GROUP, POSITION, PACKED
    )  # fmt: skip
    if SECOND > 0:
        k2, v2, s2 = _keys(
            source, matrices, parts, FIRST, SECOND, TOKENS, HEADS, D, BLOCK_D, GROUP, POSITION, PACKED
        )  # fmt: skip

    for start in tl.static_range(0, TOKENS, BLOCK_Q):
        rows = start + tl.arange(0, BLOCK_Q)
        inside = (rows[:, None] < TOKENS) & (parts[None, :] < D)
        queries = ()
        for g in tl.static_range(GROUP):
            queries = queries + (_read(source + g * D, rows, parts, 3 * C, TOKENS, D),)
        if POSITION:
            own, other = _matrices(matrices, rows, parts, 0, TOKENS, D)
        for g in tl.static_range(GROUP):
            q = queries[g]
            if POSITION:
                q = _turn(q, own, other, BLOCK_Q, BLOCK_D, PACKED)
            scores = multiply(q, k1[g], tl.zeros([BLOCK_Q, FIRST], tl.float32), PRECISION)  # [BLOCK_Q, FIRST]
            if FIRST > TOKENS:
                scores = tl.where(tl.arange(0, FIRST)[None, :] < TOKENS, scores, -float("inf"))
            top = tl.max(scores, 1)
            if SECOND > 0:
                more = multiply(q, k2[g], tl.zeros([BLOCK_Q, SECOND], tl.float32), PRECISION)
                more = tl.where(FIRST + tl.arange(0, SECOND)[None, :] < TOKENS, more, -float("inf"))
                top = tl.maximum(top, tl.max(more, 1))
            top *= scale
            weights = tl.exp2(scores * scale - top[:, None])
            total = tl.sum(weights, 1)
            weights = weights.to(dtype)
            o = multiply(weights, v1[g], tl.zeros([BLOCK_Q, BLOCK_D], tl.float32), PRECISION)
            if SECOND > 0:
                more = tl.exp2(more * scale - top[:, None])
                total += tl.sum(more, 1)
                more = more.to(dtype)
                o = multiply(more, v2[g], o, PRECISION)
            share = (1.0 / total)[:, None]
            o *= share
            if POSITION:
                own_o, other_o = _matrices(matrices, rows, parts, 3, TOKENS, D)
                if PACKED:
                    o = _turn_sum(o, own_o, other_o)
                else:
                    # The matrices need the output with its pairs swapped. A second product is cheaper than swapping
                    # in the layout that the first one leaves its result in.
                    swapped = multiply(weights, s1[g], tl.zeros([BLOCK_Q, BLOCK_D], tl.float32), PRECISION)
                    if SECOND > 0:
                        swapped = multiply(more, s2[g], swapped, PRECISION)
                    o = own_o.to(tl.float32) * o + other_o.to(tl.float32) * (swapped * share)
            tl.store(target + g * D + rows[:, None] * C + parts[None, :], o.to(dtype), mask=inside)
