"""The fused LayerNorm against torch's in float64, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from layer_norm_arrays import close, draw

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16


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
    """As under autocast: float32 states and parameters, 16 bits for the product that follows."""
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
    """Statistics come from differences from the mean: nothing is lost if the mean is large."""
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
    torch.library.opcheck(layer_norm.custom, (*inputs, 1e-5, BF16))
    x, weight, bias = (a.detach() for a in inputs)
    y, statistics = layer_norm(x, weight, bias, 1e-5, BF16)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(layer_norm_backward.custom, (y, x, weight, statistics), test_utils=checks)
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
