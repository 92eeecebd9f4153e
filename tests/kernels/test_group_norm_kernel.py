"""The fused GroupNorm against torch's in float64, forward and backward; and when the layer uses it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from nearness import close as close_within

from akorn import kernels
from akorn import nn as akn

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
TOLERANCE = {F64: 1e-10, F32: 2e-6, F16: 2e-3, BF16: 1.6e-2}


def draw(shape, order, device, dtype, seed=0):
    """x in one of the orders, far from zero, and a weight and a bias."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(*shape, generator=generator, dtype=F64) + 3).to(device, dtype)
    if order == "last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif order == "transposed":
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    elif order == "gaps":
        x = torch.stack([x, x], -1).flatten(-2)[..., ::2]
    channels = shape[1] if len(shape) == 4 else shape[-1]
    affine = (torch.randn(2, channels, generator=generator, dtype=F64) + 1).to(device, dtype)
    return [x.detach().requires_grad_(), *(a.clone().requires_grad_() for a in affine)]


def plain(x, weight, bias, groups, eps=1e-5):
    if x.ndim == 4:
        return F.group_norm(x, groups, weight, bias, eps)
    return F.group_norm(x.transpose(1, 2), groups, weight, bias, eps).transpose(1, 2)


def gradient(y):
    """What is sent back through y."""
    return torch.linspace(-1, 2, y.numel(), dtype=F64, device=y.device).reshape(y.shape).sin().to(y.dtype)


def both(inputs, groups, dtype=None, eps=1e-5):
    """(y, gradients) of the fused form, and of torch's in float64 for the same values."""
    from akorn.kernels.group_norm import group_norm

    y, _ = group_norm(*inputs, groups, eps, dtype or inputs[0].dtype)
    weights = gradient(y)
    found = [y.detach(), *torch.autograd.grad(y, inputs, weights)]
    wide = [a.detach().double().requires_grad_() for a in inputs]
    want = plain(*wide, groups, eps)
    return found, [want.detach(), *torch.autograd.grad(want, wide, weights.double())]


def close(found, expected, dtype):
    close_within(found, expected, TOLERANCE[dtype])


SHAPES = [
    ((2, 7, 12), 3, "plain"),
    ((2, 7, 12), 3, "transposed"),
    ((2, 7, 12), 6, "gaps"),
    ((3, 1, 24), 24, "plain"),
    ((1, 37, 80), 5, "plain"),
    ((2, 12, 3, 5), 6, "plain"),
    ((2, 12, 3, 5), 3, "last"),
    ((2, 40, 1, 1), 5, "last"),
    ((2, 1, 4, 4), 1, "last"),
]


@pytest.mark.parametrize(("shape", "groups", "order"), SHAPES)
@pytest.mark.parametrize("dtype", [F64, F32])
def test_every_order(device, shape, groups, order, dtype):
    found, expected = both(draw(shape, order, device, dtype), groups)
    close(found, expected, dtype)
    memory = torch.channels_last if order == "last" else torch.contiguous_format
    assert found[0].is_contiguous(memory_format=memory)  # as the steps want it


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("out", [None, F32])
@pytest.mark.parametrize("order", ["plain", "transposed"])
def test_narrow_types_of_norms(device, dtype, out, order):
    found, expected = both(draw((2, 70, 36), order, device, dtype), 9, out)
    assert [f.dtype for f in found] == [out or dtype, *[dtype] * 3]
    close(found, expected, dtype)


def test_wide_weights_for_narrow_arrays(device):
    """As under autocast: bfloat16 activations, float32 parameters, a float32 result."""
    x, weight, bias = draw((2, 9, 8), "plain", device, BF16)
    inputs = [x, *(a.detach().float().requires_grad_() for a in (weight, bias))]
    found, expected = both(inputs, 2, F32)
    assert [f.dtype for f in found] == [F32, BF16, F32, F32]
    close(found[:1] + found[2:], expected[:1] + expected[2:], F32)
    close(found[1:2], expected[1:2], BF16)


def test_a_level_far_above_the_differences(device):
    """Statistics come from differences from the mean: nothing is lost if the mean is large."""
    x, weight, bias = draw((2, 50, 8), "plain", device, F64)
    inputs = [
        (x.detach() + 1e3).float().requires_grad_(),
        *(a.detach().float().requires_grad_() for a in (weight, bias)),
    ]
    found, expected = both(inputs, 2)
    torch.testing.assert_close(found[0].double(), expected[0], rtol=0, atol=2e-3)


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "order"), [((2, 7, 12), "plain"), ((2, 12, 3, 5), "last")])
def test_epsilon_has_all_its_digits(device, shape, order):
    """Compiled, a float is float32 unless it is a constant; the interpreter knows no such difference."""
    x, weight, bias = draw(shape, order, device, F64)
    close(*both([(0.1 * x).detach().requires_grad_(), weight, bias], 3, eps=0.1), F64)


@pytest.mark.parametrize(("shape", "order"), [((2, 3, 8), "plain"), ((2, 3, 8), "transposed"), ((2, 8, 2, 3), "last")])
def test_norm_operators_are_registered_properly(device, shape, order):
    from akorn.kernels.group_norm import group_norm, group_norm_backward

    inputs = draw(shape, order, device, F32)
    torch.library.opcheck(group_norm.custom, (*inputs, 4, 1e-5, F32))
    x, weight, bias = (a.detach() for a in inputs)
    y, statistics = group_norm(x, weight, bias, 4, 1e-5, BF16)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(group_norm_backward.custom, (y, x, weight, statistics), test_utils=checks)


def test_no_second_derivatives_of_norms(device):
    from akorn.kernels.group_norm import group_norm

    inputs = draw((2, 3, 8), "plain", device, F64)
    (grad,) = torch.autograd.grad(group_norm(*inputs, 2, 1e-5, F64)[0].square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()


def test_where_norms_are_not_fused(device):
    from akorn.kernels.group_norm import why_not

    x, weight, bias = draw((2, 3, 24), "plain", device, F32)
    assert why_not(x, weight, bias, 6) is None
    assert why_not(x, None, None, 6) == "no weight or bias"
    assert "8 groups" in why_not(x, weight, bias, 8)  # of 3 channels
    assert "2 axes" in why_not(x[0], weight, bias, 6)
    assert "float64" in why_not(x.double(), weight, bias, 6)
    assert "int64" in why_not(x.long(), weight, bias, 6)
    assert "2000 tokens" in why_not(x[:1, :1].expand(1, 2000, 24), weight, bias, 6)
    assert "0 tokens" in why_not(x[:, :0], weight, bias, 6)


@pytest.fixture
def calls(device, monkeypatch):
    """Layers use the fused norm here, also in the interpreter; a list that grows with each call of it."""
    from akorn.kernels import group_norm as norm

    monkeypatch.setattr(kernels, "_interpreted", True)
    count = []
    fused = norm.group_norm
    monkeypatch.setattr(norm, "group_norm", lambda *a: count.append(a[-1]) or fused(*a))
    return count


def run(layer, x):
    layer, x = copy.deepcopy(layer), x.detach().clone().requires_grad_()
    y = layer(x)
    y.pow(3).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize(("shape", "order"), [((2, 7, 12), "plain"), ((2, 12, 3, 5), "plain"), ((2, 12, 3, 5), "last")])
def test_layers_take_the_fused_norm(device, calls, monkeypatch, shape, order):
    layer = akn.GroupNorm(3, 12).to(device, F64)
    x = draw(shape, order, device, F64)[0]
    found = run(layer, x)
    assert calls == [F64]
    monkeypatch.setattr(kernels, "_enabled", False)
    close(found, run(layer, x), F64)
    assert calls == [F64]


@pytest.mark.parametrize("groups", [3, 4])
@pytest.mark.parametrize(("shape", "order"), [((2, 7, 12), "plain"), ((2, 12, 3, 5), "last")])
def test_a_shift_is_added(device, calls, shape, order, groups):
    """By the kernel, or after torch's norm if groups of 3 channels need that."""
    layer = akn.GroupNorm(groups, 12).to(device, F64)
    x, shift, _ = draw(shape, order, device, F64)
    y = layer(x, shift)
    assert len(calls) == (groups == 3)
    grads = torch.autograd.grad(y.pow(3).sum(), [x, shift, layer.bias])
    wanted = layer(x) + (shift if len(shape) == 3 else shift[:, None, None])
    expected = torch.autograd.grad(wanted.pow(3).sum(), [x, shift, layer.bias])
    close([y.detach(), *grads], [wanted.detach(), *expected], F64)


def test_layers_that_cannot_take_it_give_tokens_in_order(device, calls):
    """Groups of 3 channels: torch's norm is used, but steps must not reorder its result one by one."""
    x = draw((2, 7, 12), "plain", device, F64)[0]
    y = akn.GroupNorm(4, 12).to(device, F64)(x)
    assert not calls
    assert y.is_contiguous()
    torch.testing.assert_close(y, plain(x, None, None, 4))


def test_autocast_leaves_the_type_of_norms(device, calls, monkeypatch):
    layer, x = akn.GroupNorm(2, 8).to(device), torch.randn(2, 3, 8, device=device).bfloat16()
    with torch.autocast(device.type, BF16):
        found = layer(x)
        monkeypatch.setattr(kernels, "_enabled", False)
        expected = layer(x)
    assert len(calls) == 1
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def magnitudes(x, g, groups, eps=1e-5):
    """Of each channel, the sums of |g| r (|x| + |mean|) and of |g|: the terms of ∂weight and ∂bias; float64."""
    x, g = (a.detach().double() for a in (x, g))
    x, g = (a.flatten(2) if a.ndim == 4 else a.transpose(1, 2) for a in (x, g))  # [B, C, T]
    grouped = x.unflatten(1, (groups, -1))
    mean = grouped.mean((2, 3), keepdim=True)
    r = (grouped.var((2, 3), correction=0, keepdim=True) + eps).rsqrt()
    parts = ((grouped.abs() + mean.abs()) * r).flatten(1, 2)
    return (g.abs() * parts).sum((0, 2)), g.abs().sum((0, 2))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(
    ("shape", "groups", "order"),
    [
        ((64, 400, 256), 64, "plain"),
        ((64, 400, 256), 64, "transposed"),
        ((64, 256, 256), 64, "plain"),
        ((16, 64, 32, 32), 32, "plain"),
        ((16, 64, 32, 32), 32, "last"),
        ((16, 256, 8, 8), 128, "last"),
    ],
)
def test_norms_at_the_sizes_of_the_paper(device, shape, groups, order, dtype):
    inputs = draw(shape, order, device, dtype)
    found, expected = both(inputs, groups, F32)
    close(found[:2], expected[:2], dtype)
    # The gradients of weight and bias are sums of many terms that cancel. A term carries a few roundings, each of 2⁻²⁴
    # of its parts at most. Then follow up to 32 additions in a thread, 9 across threads and some across samples; each
    # rounds a partial sum likewise: in all less than 64 roundings of the sum of magnitudes. A token left out would be
    # ten times that.
    sizes = magnitudes(inputs[0], gradient(found[0]), groups)
    for result, wanted, size in zip(found[2:], expected[2:], sizes, strict=True):
        bound = 64 * 2**-24 * size + torch.finfo(result.dtype).eps * wanted.abs()
        assert ((result.double() - wanted).abs() <= bound).all()
    again, _ = both(inputs, groups, F32)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
