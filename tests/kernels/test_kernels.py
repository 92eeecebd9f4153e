"""Each kernel against its plain form in float64, on the GPU or in Triton's interpreter."""

import contextlib

import pytest
import torch

from akorn import oscillators as osc
from akorn.nn.position import GTA, apply_pairs

# A bf16 result is rounded once at 2⁻⁹ relative; inside the attention, queries, keys, values and weights are too.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCE)


def close(result, expected, dtype, scale=1.0):
    assert not result.isnan().any()
    torch.testing.assert_close(
        result.double().cpu(), expected.cpu(), rtol=TOLERANCE[dtype], atol=scale * TOLERANCE[dtype]
    )


def draw(seed, *shape, dtype, device):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def plain_attention(qkv, matrices, heads):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
    if matrices is not None:
        q, k, v = (apply_pairs(m, part) for m, part in zip(matrices, (q, k, v), strict=False))
    o = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    if matrices is not None:
        o = apply_pairs(matrices[3], o)
    return o.transpose(1, 2).flatten(2)


def plain_update(x, jx, c, gamma, rate, n, project, pair_weight):
    grouped, force = osc.group(x, n), osc.group(jx + c, n)
    delta = osc.project(force, grouped) if project else force
    if rate is not None:
        delta = delta + osc.rotate_pairs(grouped, rate)
    energy = osc.energy(x, jx, c) if pair_weight == 0.5 else osc.published_energy(x, jx, c)
    return osc.ungroup(osc.normalize(grouped + gamma * delta)), energy


def wide(*arrays):
    return [None if a is None else a.double() for a in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "head_dim"),
    [(2, 81, 2, 64), (3, 5, 1, 16), (1, 16, 2, 8), (2, 33, 3, 24), (1, 128, 1, 128), (1, 1, 1, 32)],
)
@pytest.mark.parametrize("position", [True, False])
def test_attention(device, dtype, batch, tokens, heads, head_dim, position):
    from triton.runtime.errors import OutOfResources

    from akorn.kernels.solve_attention import CONFIGS, attention, attention_into, pack_matrices

    qkv = draw(0, batch, tokens, 3 * heads * head_dim, dtype=dtype, device=device)
    # Free 2×2 matrices, not rotations: every entry has a place of its own.
    matrices = draw(1, 4, tokens, head_dim // 2, 2, 2, dtype=dtype, device=device) if position else None
    packed = pack_matrices(*matrices) if matrices is not None else None
    expected = plain_attention(*wide(qkv, matrices), heads)
    scale = 4.0 if position else 1.0  # two random matrices lie between values and output
    close(attention(qkv, packed, heads), expected, dtype, scale)
    for config in CONFIGS:
        out = torch.full((batch, tokens, heads * head_dim), float("nan"), dtype=dtype, device=device)
        with contextlib.suppress(OutOfResources):  # of float32 and wide heads not every cut fits the GPU
            attention_into(out, qkv, packed, heads, config)
            close(out, expected, dtype, scale)


def test_attention_takes_the_matrices_of_gta(device):
    from akorn.kernels.solve_attention import attention, pack_matrices

    place = GTA((3, 4), 16)
    qkv = draw(2, 2, 12, 3 * 32, dtype=torch.float32, device=device)
    matrices = [place.query, place.key, place.value, place.output]
    packed = pack_matrices(*matrices).detach().to(device)
    expected = plain_attention(qkv.double(), [m.detach().double().to(device) for m in matrices], 2)
    close(attention(qkv, packed, 2), expected, torch.float32)


def test_tiles_of_keys_hold_all_and_little_more(device):
    from akorn.kernels.solve_attention import MAX_TOKENS, key_tiles

    assert key_tiles(81) == (64, 32)
    for tokens in range(1, MAX_TOKENS + 1):
        first, second = key_tiles(tokens)
        assert {first, second} <= {0, 16, 32, 64, 128}
        assert first >= 16
        assert tokens <= first + second < max(2 * tokens, 17)
        assert second == 0 or tokens > first  # a tile without any key would have no finite score


@pytest.mark.gpu
def test_packed_pairs_are_taken(device):
    """What `test_attention` compares on a GPU are then really the packed forms."""
    from akorn.kernels.solve_attention import CONFIGS, fitting

    room = torch.zeros(2 * 81 * 3 * 128 + 2, dtype=torch.bfloat16, device=device)
    qkv, shifted = room[:-2].view(2, 81, -1), room[2:].view(2, 81, -1)
    matrices = torch.zeros(4, 2, 81, 64, dtype=torch.bfloat16, device=device)
    for config in CONFIGS:
        assert fitting(config, qkv, matrices, 2).packed == config.packed
        assert not fitting(config, qkv.half(), matrices.half(), 2).packed
        assert not fitting(config, shifted, matrices, 2).packed


@pytest.mark.parametrize("count", [1, 2, 41, 4097])
def test_normal_numbers(device, count):
    from akorn.kernels.normal_numbers import normal_numbers
    from akorn.sudoku import hashed_starts

    streams = hashed_starts._mix(torch.arange(3, device=device) - 1)
    numbers = normal_numbers(streams, count)
    assert numbers.shape == (3, count)
    torch.testing.assert_close(numbers, hashed_starts._plain(streams, count), rtol=1e-5, atol=2e-6)


@pytest.mark.gpu
def test_starts_are_the_same_bits_on_the_gpu(device):
    from akorn.sudoku.hashed_starts import _same_bits

    assert _same_bits(torch.device("cuda", torch.cuda.current_device()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 11, 16])
@pytest.mark.parametrize(("pair_weight", "rotate"), [(0.5, True), (1.0, False)])
def test_update(device, project, dtype, n, pair_weight, rotate):
    from akorn.kernels.update import update

    shape = (3, 29, 12 * n)
    x = osc.ungroup(osc.normalize(osc.group(draw(3, *shape, dtype=torch.float32, device=device), n))).to(dtype)
    jx, c = (draw(seed, *shape, dtype=dtype, device=device) for seed in (4, 5))
    gamma = torch.tensor([0.7], device=device)
    rate = torch.tensor([1.3], device=device) if rotate and n % 2 == 0 else None
    state, energy = update(x, jx, c, gamma, rate, n, project, pair_weight)
    expected, expected_energy = plain_update(*wide(x, jx, c, gamma, rate), n, project, pair_weight)
    close(state, expected, dtype)
    assert energy.dtype == torch.float32
    torch.testing.assert_close(energy.double(), expected_energy, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "channels"), [(2, 48), (4, 64), (8, 16), (16, 128)])
@pytest.mark.parametrize(("pair_weight", "rotate"), [(0.5, True), (1.0, False)])
def test_output_update(device, project, dtype, n, channels, pair_weight, rotate):
    from triton.runtime.errors import OutOfResources

    from akorn.kernels.solve_output import CONFIGS, output_config, output_update, output_update_into

    shape = (3, 47, channels)
    x = osc.ungroup(osc.normalize(osc.group(draw(6, *shape, dtype=torch.float32, device=device), n))).to(dtype)
    o, c = (draw(seed, *shape, dtype=dtype, device=device) for seed in (7, 8))
    weight = draw(9, channels, channels, dtype=dtype, device=device) / channels**0.5
    gamma = torch.tensor([0.4], device=device)
    rate = torch.tensor([-0.8], device=device) if rotate else None
    expected, expected_energy = plain_update(
        *wide(x), o.double() @ weight.double().T, *wide(c, gamma, rate), n, project, pair_weight
    )
    state, energy = output_update(o, weight, x, c, gamma, rate, n, project, pair_weight)
    close(state, expected, dtype)
    torch.testing.assert_close(energy.double(), expected_energy, rtol=1e-5, atol=2e-3)
    for config in {output_config(config, channels) for config in CONFIGS}:
        state, rows = x.clone(), 3 * 47  # in place, as solving does it
        parts = torch.full((rows, channels // config.columns), float("nan"), device=device)
        with contextlib.suppress(OutOfResources):
            output_update_into(state, parts, o, weight, state, c, gamma, rate, n, project, pair_weight, config)
            close(state, expected, dtype)
            torch.testing.assert_close(parts.view(3, -1).sum(1).double(), expected_energy, rtol=1e-5, atol=2e-3)


def test_zero_vectors_stay_at_zero(device):
    from akorn.kernels.update import update

    zero = torch.zeros(1, 2, 8, device=device)
    state, energy = update(zero, zero, zero, torch.ones(1, device=device), None, 4, True, 0.5)
    assert state.eq(0).all()
    assert energy.eq(0).all()


def test_bad_arguments(device):
    from akorn.kernels.solve_attention import attention
    from akorn.kernels.solve_output import output_update
    from akorn.kernels.update import update

    x, one = torch.zeros(2, 4, 12, device=device), torch.ones(1, device=device)
    with pytest.raises(ValueError, match="multiple of 5 heads"):
        attention(x, None, 5)
    with pytest.raises(ValueError, match="at most 128 tokens"):
        attention(x.new_zeros(1, 129, 12), None, 1)
    with pytest.raises(ValueError, match="n must be 2 to 16"):
        update(x, x, x, one, None, 5, True, 0.5)
    with pytest.raises(ValueError, match="even n only"):
        update(x, x, x, one, one, 3, True, 0.5)
    with pytest.raises(ValueError, match="multiple of 16"):
        output_update(x, x.new_zeros(12, 12), x, x, one, None, 4, True, 0.5)


def test_operators_are_registered_properly(device, project):
    """Schemas and fake forms agree with what the kernels return, so that torch.compile sees through them."""
    from akorn.kernels.solve_attention import attention
    from akorn.kernels.solve_output import output_update
    from akorn.kernels.update import update

    checks = ("test_schema", "test_faketensor")
    qkv = draw(10, 2, 6, 3 * 32, dtype=torch.float32, device=device)
    x, one = qkv[..., :32].contiguous(), torch.ones(1, device=device)
    torch.library.opcheck(attention.custom, (qkv, None, 2), test_utils=checks)
    torch.library.opcheck(update.custom, (x, x, x, one, one, 4, project, 0.5), test_utils=checks)
    weight = draw(14, 32, 32, dtype=torch.float32, device=device)
    for rate in (one, None):
        torch.library.opcheck(output_update.custom, (x, weight, x, x, one, rate, 4, project, 0.5), test_utils=checks)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_sudoku_size(device, project, dtype):
    from akorn.kernels.solve_attention import attention, pack_matrices
    from akorn.kernels.solve_output import output_update

    qkv = draw(11, 40, 81, 3 * 512, dtype=dtype, device=device)
    place = GTA((9, 9), 64).to(device, dtype)
    matrices = [m.detach() for m in (place.query, place.key, place.value, place.output)]
    o = attention(qkv, pack_matrices(*matrices), 8)
    close(o, plain_attention(qkv.double(), [m.double() for m in matrices], 8), dtype)
    x = osc.ungroup(osc.normalize(osc.group(draw(12, 40, 81, 512, dtype=torch.float32, device=device), 4))).to(dtype)
    weight = draw(13, 512, 512, dtype=dtype, device=device) / 512**0.5
    gamma, rate = torch.tensor([0.3], device=device), torch.tensor([0.5], device=device)
    state, energy = output_update(o, weight, x, x, gamma, rate, 4, project, 0.5)
    expected = plain_update(x.double(), o.double() @ weight.double().T, *wide(x, gamma, rate), 4, project, 0.5)
    close(state, expected[0], dtype)
    torch.testing.assert_close(energy.double(), expected[1], rtol=1e-4, atol=1e-2)
