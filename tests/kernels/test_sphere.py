"""Π in one pass, with its gradient, against the plain form; and when it is used."""

import pytest
import torch

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc
from akorn.execution.ops import to_sphere

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
TOLERANCE = {F64: 1e-10, F32: 1e-5, F16: 2e-3, BF16: 1.6e-2}
CASES = [
    ((7, 12), 3, "p"),
    ((3, 50, 24), 4, "p"),
    ((2, 301, 6), 2, "g"),
    ((2, 10, 3, 7), 5, "p"),
    ((2, 32, 4, 5), 16, "l"),
    ((2, 9, 11, 13), 3, "l"),
    ((2, 6, 19, 17), 2, "g"),
    ((0, 3, 4), 2, "p"),
]


def plain(x, n):
    dim = osc.channel_axis(x)
    return osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)


def draw(shape, device, dtype, layout):
    """Numbers that are plain, channels "l"ast or "g"apped in memory."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=F64).to(device, dtype)
    if layout == "l":
        x = x.contiguous(memory_format=torch.channels_last)
    return torch.stack((x, x), -1)[..., 0] if layout == "g" else x


@pytest.mark.parametrize(("shape", "n", "layout"), CASES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_same_as_float64(device, shape, n, layout, dtype):
    from akorn.kernels.sphere import normalise

    x = draw(shape, device, dtype, layout).requires_grad_()
    wide = x.detach().double().requires_grad_()
    weights = torch.randn(shape, dtype=F64, device=device)
    found, expected = normalise(x, n), plain(wide, n)
    (grad,) = torch.autograd.grad(found, x, weights.to(dtype))
    (wanted,) = torch.autograd.grad(expected, wide, weights.to(dtype).double())
    assert found.dtype == grad.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last if layout == "l" else torch.contiguous_format)
    for result, reference in ((found, expected), (grad, wanted)):
        torch.testing.assert_close(result.double(), reference, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("length", [0.0, 3e-13])
def test_vectors_without_direction(device, length):
    """Too short for Π: they become 0, and so does their gradient; the others are as if they were not there."""
    from akorn.kernels.sphere import normalise

    scale = torch.tensor([1.0, length, length, 1.0], dtype=F64, device=device).repeat_interleave(4).reshape(2, 8)
    x = (scale * draw((2, 8), device, F64, "p")).requires_grad_()
    found, expected = normalise(x, 4), plain(x, 4)
    torch.testing.assert_close(found, expected)
    assert found[scale != 1].eq(0).all()
    weights = torch.linspace(0, 1, 16, dtype=F64, device=device).reshape(2, 8)
    grads = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(*grads)
    assert grads[0][scale != 1].eq(0).all()
    assert grads[0][scale == 1].ne(0).all()


@pytest.mark.parametrize(("shape", "layout"), [((2, 3, 8), "p"), ((2, 8, 2, 3), "p"), ((2, 8, 2, 3), "l")])
def test_operators_are_registered_properly(device, shape, layout):
    from akorn.kernels.sphere import normalise, normalise_backward

    x = draw(shape, device, F64, layout).requires_grad_()
    torch.library.opcheck(normalise.custom, (x, 4))
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(normalise_backward.custom, (torch.ones_like(x), x.detach(), 4), test_utils=checks)
    assert torch.autograd.gradcheck(lambda x: normalise(x, 4), x, fast_mode=True)
    (grad,) = torch.autograd.grad(normalise(x, 4).pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()


def test_layers_take_it(device, monkeypatch):
    from akorn.kernels import sphere as module

    monkeypatch.setattr(kernels, "_interpreted", True)
    calls = []
    fused = module.normalise
    monkeypatch.setattr(module, "normalise", lambda *a: calls.append(1) or fused(*a))
    c = draw((2, 5, 8), device, F64, "p")
    layer = akn.KuramotoLayer(8, 4, akn.DenseCoupling(8)).to(device, F64)
    torch.testing.assert_close(layer.evolve(c, c, 1, trajectory=True).trajectory[0], plain(c, 4))
    assert len(calls) == 1
    layer(plain(c, 4), c, 1, on_sphere=True)
    free = akn.KuramotoLayer(8, 4, akn.DenseCoupling(8), rule=akn.Residual()).to(device, F64)
    assert torch.equal(free.evolve(c, c, 1, trajectory=True).trajectory[0], c)
    torch.vmap(lambda x: layer(x, x, 1))(c[None])
    wide = c.repeat(1, 1, 17)  # N = 17 is more than the kernels take
    torch.testing.assert_close(to_sphere(wide, 17), plain(wide, 17))
    with pytest.raises(ValueError, match="cannot be grouped"):
        to_sphere(c, 3)
    assert len(calls) == 1


@pytest.mark.parametrize("start", [akn.FromStimulus(4), akn.RandomStart(4), akn.LearnedStart(4, 8)])
def test_starts_take_it(device, monkeypatch, start):
    c, start = draw((2, 8, 3, 5), device, F64, "l"), start.to(device, F64)

    def first():
        return start(c, torch.Generator(device).manual_seed(0))

    expected = first()
    monkeypatch.setattr(kernels, "_interpreted", True)
    monkeypatch.setattr(osc, "normalize", lambda *_: pytest.fail("the plain form"))
    torch.testing.assert_close(first(), expected)
