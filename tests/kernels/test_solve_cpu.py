"""The CPU's steps of long passes against the layer's own loop in float64, and when they are used."""

import copy

import pytest
import torch
from solving import run, why_not
from update_cases import RULES

import akorn
from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc
from akorn.kernels import packed
from akorn.kernels import solve_cpu as cpu

FUNCTIONS = {"eq3": osc.energy, "published": osc.published_energy, None: None}


@pytest.fixture(autouse=True)
def poisoned():
    """What torch.empty returns is NaN here, so that nothing unwritten is read by luck."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(2).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def a_layer(
    n=4, channels=32, heads=2, grid=(3, 4), omega="pairs", gamma=0.6, qkv_bias=True, expansion=0, rule=None, **options
):
    torch.manual_seed(0)
    coupling = akn.AttentionCoupling(channels, heads, grid=grid, bias=qkv_bias, **options)
    if expansion:
        coupling = akn.FeedForwardCoupling(coupling, channels, expansion=expansion)
    kinds = {"pairs": akn.PairwiseFrequency, "matrix": akn.NaturalFrequency}
    rotation = kinds[omega](n, init=0.5) if omega else None
    parts = {"omega": rotation, "gamma": gamma, "learn_gamma": True, "bias": True, "rule": rule}
    layer = akn.KuramotoLayer(channels, n, coupling, **parts)
    with torch.no_grad():  # biases and positions as training leaves them: anything
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def inputs(batch, layer, tokens=12):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, tokens, layer.channels, generator=generator) for _ in range(2)]


def agrees(layer, batch=5, tokens=12, steps=6, energy="eq3", **options):
    x, c = inputs(batch, layer, tokens)
    assert why_not(cpu, layer, x, c) is None
    state, energies = run(cpu.fast_steps, layer, x, c, steps, energy, **options)
    with torch.no_grad():
        expected = copy.deepcopy(layer).double().evolve(x.double(), c.double(), steps, energy=FUNCTIONS[energy])
    torch.testing.assert_close(state.double(), expected.x, rtol=0, atol=1e-4)
    if energy is None:
        assert energies is None
    else:
        assert energies.shape == (steps, batch)
        torch.testing.assert_close(energies.double(), expected.energies, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("expansion", [0, 2])
def test_steps_in_two_calls_are_those_of_one(dtype, expansion):
    """So that a replay, which stops to show the state, ends in the answer that was printed."""
    layer = a_layer(expansion=expansion)
    x, c = inputs(3, layer)
    once, energies = run(cpu.fast_steps, layer, x, c, 12, "eq3", dtype=dtype)
    half, first = run(cpu.fast_steps, layer, x, c, 4, "eq3", dtype=dtype)
    again, last = run(cpu.fast_steps, layer, half, c, 8, "eq3", dtype=dtype)
    assert torch.equal(again, once)
    assert torch.equal(torch.cat((first, last)), energies)


@pytest.mark.parametrize(
    ("n", "omega", "energy", "block"),
    [
        (4, "pairs", "eq3", None),
        (4, "matrix", "published", 2),
        (2, "pairs", None, 3),
        (3, "matrix", "eq3", 1),
        (5, None, "published", 5),
        (8, "pairs", "eq3", 4),
    ],
)
def test_same_as_the_layer(project, n, omega, energy, block):
    layer = a_layer(n, channels={3: 48, 5: 40}.get(n, 32), omega=omega, rule=RULES[project])
    agrees(layer, energy=energy, block=block)


def test_random_sizes():
    draw = torch.Generator().manual_seed(3)

    def pick(*values):
        return values[int(torch.randint(len(values), (), generator=draw))]

    for _ in range(8):
        n, heads, grid = pick(2, 4, 8, 16), pick(1, 2, 4), (pick(1, 2, 5), pick(3, 7))
        layer = a_layer(
            n, 16 * pick(2, 3) * heads, heads, grid, pick("pairs", "matrix", None), pick(0.1, 1.0, -0.7),
            qkv_bias=pick(True, False), rule=RULES[pick(True, False)],
        )  # fmt: skip
        agrees(layer, pick(1, 4), grid[0] * grid[1], pick(1, 7), pick("eq3", "published"), block=pick(1, 3, None))


@pytest.mark.parametrize(
    "position",
    [
        None,
        akn.Position((3, 4)),
        akn.RotaryPosition((3, 4), 16),
        akn.RotaryPosition((3, 4), 16, learn=True),
        akn.GTA((3, 4), 16, symmetric=True),
    ],
)
def test_positions(position):
    agrees(a_layer(grid=None, position=position))


@pytest.mark.parametrize(
    ("expansion", "n", "energy", "options"),
    [
        (2, 4, "eq3", {}),
        (1, 2, "published", {"omega": "matrix", "gamma": -0.7}),
        (3, 8, None, {"omega": None, "qkv_bias": False}),
    ],
)
def test_an_mlp_behind_the_attention(project, expansion, n, energy, options):
    agrees(a_layer(n, expansion=expansion, rule=RULES[project], **options), energy=energy, block=2)


def test_many_tokens_go_through_flash_attention(monkeypatch):
    monkeypatch.setattr(cpu, "_LONG", 12)
    agrees(a_layer())
    agrees(a_layer(grid=None))


def test_without_packed_products(monkeypatch):
    monkeypatch.setattr(packed, "packs", lambda dtype: False)
    agrees(a_layer())
    agrees(a_layer(qkv_bias=False), energy="published")
    agrees(a_layer(expansion=2))


@pytest.mark.parametrize("expansion", [0, 2])
@pytest.mark.parametrize("packs", [True, False])
def test_products_in_bfloat16(monkeypatch, project, expansion, packs):
    """As far from float64 as three digits are, also under autocast, and float32 in all else."""
    if not packs:
        monkeypatch.setattr(packed, "packs", lambda dtype: False)
    layer = a_layer(expansion=expansion, rule=RULES[project])
    x, c = inputs(5, layer)
    state, energies = run(cpu.fast_steps, layer, x, c, 3, "eq3", torch.bfloat16, block=2)
    assert state.dtype == energies.dtype == torch.float32
    with torch.no_grad():
        exact = copy.deepcopy(layer).double().evolve(x.double(), c.double(), 3, energy=osc.energy)
        error = (state.double() - exact.x).abs().max()
        assert 1e-5 < error < 0.05  # less would be float32
        torch.testing.assert_close(energies.double(), exact.energies, rtol=0.02, atol=0.3)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(
                akn.solve_steps(layer, x, c, 3)[0], run(cpu.fast_steps, layer, x, c, 3, "eq3", torch.bfloat16)[0]
            )
    lengths = osc.group(state, 4).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=0, atol=1e-6)
    agrees(layer)  # and float32 again, with the same owner


def test_packed_products_are_right_where_there_are_any():
    product = packed.Product(torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, -1.0]))
    assert torch.equal(product(torch.eye(3)), torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]))


def test_norms_do_not_drift():
    layer = a_layer()
    state, energies = run(cpu.fast_steps, layer, *inputs(2, layer), 400, "eq3")
    lengths = osc.group(state, 4).double().norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=0, atol=3e-7)
    assert energies.isfinite().all()


def test_zero_vectors_stay_zero():
    """Without a force nothing moves them, as in the layer; the others are unit vectors."""
    layer = a_layer(omega=None, grid=None, qkv_bias=False)
    with torch.no_grad():
        layer.bias.zero_()
        layer.coupling.maps.output.weight.zero_()
    x, c = inputs(1, layer)
    x[0, 3, :4] = 0
    state, _ = run(cpu.fast_steps, layer, x, torch.zeros_like(c), 3, None)
    assert (state[0, 3, :4] == 0).all()
    torch.testing.assert_close(state, layer(x, torch.zeros_like(c), 3).detach())


def test_changed_weights_are_seen():
    """A second call, which reuses what the first one made, uses the weights at that time; also for other tokens."""
    layer = a_layer(grid=None)
    agrees(layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.data.mul_(1.5)  # past the version counter
    agrees(layer)
    agrees(layer, tokens=7)
    layer.omega = None
    agrees(layer)
    layer.rule = akn.WithoutProjection()
    agrees(layer)
    layer = a_layer(expansion=2)
    agrees(layer)
    with torch.no_grad():
        layer.coupling.norm.bias.data.add_(0.5)
    agrees(layer)


def test_the_prepared_weights_go_with_the_layer():
    layer = a_layer()
    agrees(layer)
    first = cpu._KEPT[layer][1]
    agrees(layer)
    assert cpu._KEPT[layer][1] is first
    assert layer in cpu._KEPT
    count = len(cpu._KEPT)
    del layer
    assert len(cpu._KEPT) == count - 1


def test_inference_mode_and_back():
    layer = a_layer()
    x, c = inputs(2, layer)
    with torch.inference_mode():
        first, _ = run(cpu.fast_steps, layer, x.clone(), c.clone(), 2, None)
    assert torch.equal(run(cpu.fast_steps, layer, x, c, 2, None)[0], first)


def test_samples_do_not_depend_on_their_company():
    """Alone, in a block or in blocks of another size: the same within rounding."""
    layer = a_layer()
    x, c = inputs(6, layer)
    together, energies = run(cpu.fast_steps, layer, x, c, 5, "eq3", block=6)
    for block in (1, 4):
        state, values = run(cpu.fast_steps, layer, x, c, 5, "eq3", block=block)
        torch.testing.assert_close(state, together, rtol=0, atol=2e-5)
        torch.testing.assert_close(values, energies, rtol=1e-5, atol=1e-3)


def test_solve_steps_comes_here(monkeypatch):
    layer = a_layer()
    x, c = inputs(2, layer)
    calls = []
    fast = cpu.fast_steps
    monkeypatch.setattr(cpu, "fast_steps", lambda *a, **k: calls.append(1) or fast(*a, **k))
    was = kernels.enabled()
    try:
        with torch.no_grad():
            kernels.enable(False)
            plain = akn.solve_steps(layer, x, c, 3)
            expected = layer.evolve(x, c, 3, energy=osc.energy)
            assert torch.equal(plain[0], expected.x)
            kernels.enable(True)
            akn.solve_steps(layer, x, c, 3, dtype=torch.float16)
            assert not calls
            state, energies = akn.solve_steps(layer, x, c, 3)
            assert calls
            torch.testing.assert_close(state, expected.x, rtol=0, atol=1e-5)
            torch.testing.assert_close(energies, expected.energies, rtol=1e-5, atol=1e-4)
        calls.clear()
        assert akn.solve_steps(layer, x, c, 3)[0].requires_grad  # gradients take the layer's own loop
        assert not calls
    finally:
        kernels.enable(was)


@pytest.mark.parametrize("name", ["sudoku", "sudoku-base", "sudoku-paper"])
def test_shipped_solvers_come_here(name):
    """A part of theirs that no fast form knows would make them slower, and nothing else would say so."""
    layer = akorn.create_model(name, pretrained=True).blocks[-1].layer
    x, c = inputs(1, layer, tokens=81)
    assert why_not(cpu, layer, x, c) is None


def test_what_is_not_taken():
    layer = a_layer()
    x, c = inputs(2, layer)
    assert "c changes" in why_not(cpu, layer, x, lambda t: c)
    assert "c changes" in why_not(cpu, layer, x, torch.stack((c, c)))
    assert "float64" in why_not(cpu, layer, x.double(), c.double())
    assert "weights of torch.float64" in why_not(cpu, copy.deepcopy(layer).double(), x, c)
    assert "unconstrained maps" in why_not(cpu, a_layer(symmetric=True), x, c)
    assert "masked" in why_not(cpu, a_layer(mask=torch.ones(12, 12, dtype=torch.bool)), x, c)
    assert "positions" in why_not(cpu, a_layer(grid=None, position=akn.AbsolutePosition((3, 4), 32)), x, c)
    with torch.autocast("cpu", torch.float16):
        assert "autocast" in why_not(cpu, layer, x, c)
    for name, value, why in (
        ("rule", akn.Residual(), "rule"),
        ("rule", type("Own", (akn.WithoutProjection,), {})(), "rule"),
        ("omega", akn.PairwiseFrequency(4, 8), "natural"),
        ("gamma", torch.nn.Parameter(torch.zeros(())), "too small"),
    ):
        other = a_layer()
        setattr(other, name, value)
        assert why in why_not(cpu, other, x, c)
    for name, part in (("norm", torch.nn.LayerNorm(32)), ("contract", torch.nn.Linear(64, 32))):
        other = a_layer(expansion=2)
        setattr(other.coupling, name, part)
        assert "MLP were replaced" in why_not(cpu, other, x, c)
    assert "masked" in why_not(cpu, a_layer(expansion=2, mask=torch.ones(12, 12, dtype=torch.bool)), x, c)
    reasons = torch.func.vmap(lambda a: (reasons_seen.append(why_not(cpu, layer, a, a)), a)[1])
    reasons_seen = []
    reasons(x[None])
    assert "transforms" in reasons_seen[0]


def test_wrong_tokens_are_refused():
    layer = a_layer()
    x, c = inputs(1, layer, tokens=5)
    with pytest.raises(ValueError, match="12 tokens, but the state has 5"):
        run(cpu.fast_steps, layer, x, c, 1, None)
