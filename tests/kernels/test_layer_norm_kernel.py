"""The fused LayerNorm against torch's in float64, forward and backward; and where layers and baselines take it."""

import copy

import pytest
import torch
import torch.nn.functional as F

from akorn import kernels
from akorn import nn as akn
from akorn.baselines import ItrSA

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
TOLERANCE = {F64: 1e-10, F32: 2e-6, F16: 2e-3, BF16: 1.6e-2}


def draw(shape, device, dtype, order="plain", seed=0):
    """x in one of the orders, far from zero, and a weight and a bias."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(*shape, generator=generator, dtype=F64) + 3).to(device, dtype)
    if order == "transposed":
        x = x.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif order == "gaps":
        x = torch.stack([x, x], -1).flatten(-2)[..., ::2]
    elif order == "one":  # row for all
        x = x[:1].expand(shape)
    affine = (torch.randn(2, shape[-1], generator=generator, dtype=F64) + 1).to(device, dtype)
    return [x.detach().requires_grad_(), *(a.clone().requires_grad_() for a in affine)]


def gradient(y):
    """What is sent back through y."""
    return torch.linspace(-1, 2, y.numel(), dtype=F64, device=y.device).reshape(y.shape).sin().to(y.dtype)


def both(inputs, dtype=None, eps=1e-5):
    """(y, gradients) of the fused form, and of torch's in float64 for the same values."""
    from akorn.kernels.layer_norm import layer_norm

    y, _ = layer_norm(*inputs, eps, dtype or inputs[0].dtype)
    weights = gradient(y)
    found = [y.detach(), *torch.autograd.grad(y, inputs, weights)]
    wide = [a.detach().double().requires_grad_() for a in inputs]
    want = F.layer_norm(wide[0], wide[1].shape, *wide[1:], eps)
    return found, [want.detach(), *torch.autograd.grad(want, wide, weights.double())]


def close(found, expected, dtype):
    for result, wanted in zip(found, expected, strict=True):
        assert result.shape == wanted.shape
        assert not result.isnan().any()
        scale = max(1.0, float(wanted.abs().max())) if wanted.numel() else 1.0
        torch.testing.assert_close(result.double(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


SHAPES = [
    ((7, 12), "plain"),
    ((2, 5, 33), "transposed"),  # tokens of pictures
    ((4, 6, 16), "gaps"),
    ((9, 20), "one"),
    ((3, 2, 2, 8), "plain"),
    ((12,), "plain"),
    ((3, 1), "plain"),
    ((700, 24), "plain"),  # programs go through several tiles, the last one not full
    ((45, 300), "plain"),
    ((2, 4096), "plain"),
    ((0, 8), "plain"),
    ((2, 0, 8), "plain"),
]


@pytest.mark.parametrize(("shape", "order"), SHAPES)
@pytest.mark.parametrize("dtype", [F64, F32])
def test_every_shape_and_order(device, shape, order, dtype):
    found, expected = both(draw(shape, device, dtype, order))
    assert [f.dtype for f in found] == [dtype] * 4
    close(found, expected, dtype)
    assert found[0].is_contiguous()  # as products want it


@pytest.mark.parametrize("seed", range(6))
def test_random_sizes(device, seed):
    rows, channels = (int(n) for n in torch.randint(1, 90, (2,), generator=torch.Generator().manual_seed(seed)))
    close(*both(draw((rows, channels), device, F64, seed=seed), eps=0.1), F64)


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("out", [None, F32])
def test_narrow_types(device, dtype, out):
    found, expected = both(draw((2, 70, 36), device, dtype), out)
    assert [f.dtype for f in found] == [out or dtype, *[dtype] * 3]
    close(found, expected, dtype)


@pytest.mark.parametrize("out", [BF16, F16])
def test_a_narrow_result_is_the_wide_one_rounded(device, out):
    """As autocast has them: float32 states and parameters, 16 bits for the product that follows."""
    from akorn.kernels.layer_norm import layer_norm

    inputs = draw((3, 50, 40), device, F32)
    found, expected = both(inputs, out)
    assert [f.dtype for f in found] == [out, F32, F32, F32]
    rounded = layer_norm(*inputs, 1e-5, F32)[0].detach().to(out)
    if device.type == "cuda" or out == F16:  # Triton's interpreter cuts bfloat16 off
        assert torch.equal(found[0], rounded)
    close(found[:1], [rounded.double()], out)
    close(found[1:], expected[1:], F32)


def test_wide_parameters_of_narrow_arrays(device):
    x, weight, bias = draw((2, 9, 8), device, BF16)
    found, expected = both([x, *(a.detach().float().requires_grad_() for a in (weight, bias))], F32)
    assert [f.dtype for f in found] == [F32, BF16, F32, F32]
    close(found[:1] + found[2:], expected[:1] + expected[2:], F32)
    close(found[1:2], expected[1:2], BF16)


def test_a_level_far_above_the_differences_of_a_row(device):
    """Statistics come from differences to the mean: nothing is lost where that is large."""
    x, weight, bias = draw((50, 16), device, F64)
    wide = [x.detach() + 1e3, weight, bias]
    found, expected = both([a.detach().float().requires_grad_() for a in wide])
    torch.testing.assert_close(found[0].double(), expected[0], rtol=0, atol=2e-3)


def test_rows_that_are_constant(device):
    """Without a variance, ε alone keeps r finite: y is the bias."""
    _, weight, bias = draw((3, 8), device, F64)
    x = torch.full((3, 8), 7.0, device=device, dtype=F64, requires_grad=True)
    found, expected = both([x, weight, bias])
    close(found, expected, F64)
    assert torch.equal(found[0], bias.detach().expand(3, 8))


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (1, 2), (0, 2)])
def test_gradients_of_some_inputs(device, wanted):
    from akorn.kernels.layer_norm import layer_norm

    _, expected = both(draw((6, 12), device, F64))
    inputs = [a.detach().requires_grad_(i in wanted) for i, a in enumerate(draw((6, 12), device, F64))]
    y = layer_norm(*inputs, 1e-5, F64)[0]
    y.backward(gradient(y))
    assert [a.grad is not None for a in inputs] == [i in wanted for i in range(3)]
    close([inputs[i].grad for i in wanted], [expected[1 + i] for i in wanted], F64)


def test_without_gradients(device):
    from akorn.kernels.layer_norm import layer_norm

    inputs = draw((6, 12), device, F64)
    with torch.no_grad():
        y, statistics = layer_norm(*inputs, 1e-5, F64)
    assert not y.requires_grad
    assert not layer_norm(*inputs, 1e-5, F64)[1].requires_grad
    x = inputs[0].detach()
    torch.testing.assert_close(statistics, torch.stack((x.mean(-1), (x.var(-1, correction=0) + 1e-5).rsqrt())))


@pytest.mark.parametrize(("shape", "order"), [((2, 3, 8), "plain"), ((2, 3, 8), "transposed")])
def test_layer_norm_operators_are_registered_properly(device, shape, order):
    from akorn.kernels.layer_norm import layer_norm, layer_norm_backward

    inputs = draw(shape, device, F32, order)
    torch.library.opcheck(layer_norm, (*inputs, 1e-5, BF16))
    x, weight, bias = (a.detach() for a in inputs)
    y, statistics = layer_norm(x, weight, bias, 1e-5, BF16)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(layer_norm_backward, (y, x, weight, statistics), test_utils=checks)
    wide = draw(shape, device, F64, order)
    assert torch.autograd.gradcheck(lambda *a: layer_norm(*a, 1e-5, F64)[0], wide, fast_mode=True)


def test_no_second_derivatives_of_layer_norms(device):
    from akorn.kernels.layer_norm import layer_norm

    inputs = draw((3, 8), device, F64)
    (grad,) = torch.autograd.grad(layer_norm(*inputs, 1e-5, F64)[0].square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()


def test_where_layer_norms_are_not_fused(device):
    from akorn.kernels.layer_norm import why_not

    x, weight, bias = draw((2, 3, 24), device, F32)
    assert why_not(x, weight, bias) is None
    assert why_not(x[:0], weight, bias) is None
    assert why_not(x, weight, None) == "no weight or bias"
    assert "float64" in why_not(x.double(), weight, bias)
    assert "int64" in why_not(x.long(), weight, bias)
    assert "bfloat16" in why_not(x, weight, bias.bfloat16())
    assert "[2, 3, 12]" in why_not(x[..., :12], weight, bias)
    assert "[3, 24]" in why_not(x, x[0], bias)
    assert "[1]" in why_not(x, weight, bias[:1])
    assert "devices" in why_not(x, weight, bias.to("meta"))
    large = torch.ones(4097, device=device)
    assert why_not(large, large, large) == "4097 channels"
    assert why_not(large[:0], large[:0], large[:0]) == "0 channels"


@pytest.fixture
def calls(device, monkeypatch):
    """Layers take the fused norm here, in the interpreter too; a list that grows with each call: the results' types."""
    from akorn.kernels import layer_norm as module

    monkeypatch.setattr(kernels, "_interpreted", True)
    count = []
    fused = module.layer_norm
    monkeypatch.setattr(module, "layer_norm", lambda *a: count.append(a[-1]) or fused(*a))
    return count


def run(layer, x, *others):
    layer, x = copy.deepcopy(layer), x.detach().clone().requires_grad_()
    y = layer(x, *others)
    y.pow(3).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in layer.parameters())]


def test_layers_take_the_fused_layer_norm(device, calls, monkeypatch):
    layer = akn.LayerNorm(12, narrow=True).to(device, F64)
    x = draw((2, 7, 12), device, F64)[0]
    found = run(layer, x)
    assert calls == [F64]
    monkeypatch.setattr(kernels, "_enabled", False)
    close(found, run(layer, x), F64)
    assert calls == [F64]


def test_layers_that_cannot_take_it(device, calls):
    layer = akn.LayerNorm(12).to(device)
    x = draw((2, 7, 12), device, F32)[0].detach()
    expected = F.layer_norm(x, (12,))
    torch.testing.assert_close(torch.vmap(layer)(x), expected)  # inside a function transform
    layer.bias = None
    torch.testing.assert_close(layer(x), expected)
    assert not calls
    with pytest.raises(RuntimeError, match="shape"):  # torch says what is wrong
        layer(x[..., :5])


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_autocast_and_layer_norms(device, calls, monkeypatch, narrow, dtype):
    """The type is torch's, unless a product follows: for that it is the one the product would cast to."""
    layer = akn.LayerNorm(8, narrow=narrow).to(device)
    x = torch.randn(2, 3, 8, device=device, dtype=dtype)
    with torch.autocast(device.type, BF16):
        found = layer(x)
        monkeypatch.setattr(kernels, "_enabled", False)
        expected = layer(x)
    assert calls == [found.dtype]
    assert found.dtype == (BF16 if narrow else expected.dtype)
    torch.testing.assert_close(found.float(), expected.float(), rtol=1e-2, atol=1e-2)


def test_autocast_leaves_float64_alone(device, calls):
    layer = akn.LayerNorm(8, narrow=True).to(device, F64)
    with torch.autocast(device.type, BF16):
        assert layer(torch.randn(2, 8, device=device, dtype=F64)).dtype == F64
    assert calls == [F64]


@pytest.mark.parametrize("autocast", [False, True])
def test_baselines_take_it(device, calls, monkeypatch, autocast):
    """T norms and one more in each block, the same results, under autocast up to its roundings."""
    torch.manual_seed(0)
    model = ItrSA(16, 2, grid=(3, 3), blocks=2).to(device)
    x = torch.randn(2, 16, 9, device=device).transpose(1, 2)  # as pictures give them
    with torch.autocast(device.type, BF16, enabled=autocast):
        found = run(model, x, 3)
    assert calls == [BF16 if autocast else F32] * 8
    monkeypatch.setattr(kernels, "_enabled", False)
    for result, wanted in zip(found, run(model, x, 3), strict=True):
        error = (result.double() - wanted.double()).norm() / wanted.double().norm()
        assert error < (0.05 if autocast else 1e-4)


def test_compiled_steps_take_it(device, calls):
    from torch._dynamo import reset

    torch.manual_seed(0)
    layer = akn.LayerNorm(16).to(device)
    x = torch.randn(2, 5, 16, device=device)
    expected = run(layer, x)
    reset()
    seen = []

    def listening(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    compiled = torch.compile(layer, fullgraph=True, backend=listening)
    torch.testing.assert_close(compiled(x), expected[0])
    assert any("akorn.layer_norm" in target for target in seen)
    reset()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "dtype", "out"),
    [
        ((512, 400, 256), F32, BF16),  # Shapes
        ((512, 256, 256), F32, BF16),  # CLEVRTex
        ((256, 400, 256), BF16, BF16),
        ((1000, 81, 512), F32, F32),  # Sudoku
        ((1000, 7, 768), F32, F16),
        ((5000, 4096), F32, BF16),
    ],
)
def test_layer_norms_at_real_sizes(device, shape, dtype, out):
    from akorn.kernels.layer_norm import layer_norm

    torch.manual_seed(0)
    x = (torch.randn(shape, device=device) + 1).to(dtype).requires_grad_()
    weight, bias = (torch.randn(shape[-1], device=device).add_(1).requires_grad_() for _ in range(2))
    g = torch.randint(-3, 4, shape, device=device).to(out)  # whole numbers: any order of sums is exact
    y, _ = layer_norm(x, weight, bias, 1e-5, out)
    found = [y.detach(), *torch.autograd.grad(y, [x, weight, bias], g)]
    again = layer_norm(x, weight, bias, 1e-5, out)[0]
    again = [again.detach(), *torch.autograd.grad(again, [x, weight, bias], g)]
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    del again

    wide = [a.detach().double().requires_grad_() for a in (x, weight, bias)]
    want = F.layer_norm(wide[0], shape[-1:], *wide[1:], 1e-5)
    grads = torch.autograd.grad(want, wide, g.double())
    close(found[:1], [want.detach()], out)
    close(found[1:2], grads[:1], dtype)
    assert torch.equal(found[3].double(), grads[2])  # not a row left out, none counted twice
    # A term of the weight's sum carries a few roundings of its parts, and so does each of some hundred additions.
    normed = F.layer_norm(wide[0].detach(), shape[-1:], eps=1e-5)
    size = ((normed.abs() + 2) * g.double().abs()).flatten(0, -2).sum(0)
    assert ((found[2].double() - grads[1]).abs() <= 64 * 2**-24 * size).all()


@pytest.mark.gpu
def test_layer_norm_and_product_under_autocast(device):
    """The step of a baseline, against torch's own norm: what the product sees is the same, but for last bits."""
    torch.manual_seed(0)
    x = torch.randn(512, 400, 256, device=device)
    norm, product = akn.LayerNorm(256, narrow=True).to(device), torch.nn.Linear(256, 256).to(device)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    plain = torch.nn.LayerNorm(256).to(device)
    plain.load_state_dict(norm.state_dict())
    results = []
    for each in (norm, plain):
        own = x.clone().requires_grad_()
        with torch.autocast("cuda", BF16):
            seen = each(own)
            y = product(seen)
        grads = torch.autograd.grad(y, [own, *each.parameters(), product.weight], torch.ones_like(y))
        results.append([seen.detach(), y.detach(), *grads])
    assert results[0][0].dtype == BF16
    assert results[0][0].ne(results[1][0].to(BF16)).float().mean() < 1e-3  # a last bit of float32 may turn a rounding
    for found, expected in zip(*results, strict=True):
        error = (found.double() - expected.double()).norm() / expected.double().norm()
        assert error < 2e-3


@pytest.mark.gpu
def test_graphs_record_layer_norms(device):
    torch.manual_seed(0)
    layer = akn.LayerNorm(256, narrow=True).to(device)
    x = torch.randn(64, 400, 256, device=device, requires_grad=True)

    def step():
        with torch.autocast("cuda", BF16):
            y = layer(x)
        return [y.detach(), *torch.autograd.grad(y.float().pow(3).sum(), [x, *layer.parameters()])]

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    for a, b in zip(recorded, step(), strict=True):
        assert torch.equal(a, b)
