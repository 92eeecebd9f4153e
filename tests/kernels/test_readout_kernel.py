"""The readout's fused norm against the plain one in float64, forward and backward; and when a readout uses it."""

import copy

import pytest
import torch
from nearness import close as close_within

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
TOLERANCE = {F64: 1e-12, F32: 1e-6, F16: 1e-3, BF16: 8e-3}
NCHW, LAST = torch.contiguous_format, torch.channels_last


def draw(shape, device, dtype, n, memory=NCHW, seed=0):
    """z, and an inner bias and a bias of its kind."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(*shape, generator=generator, dtype=F64).to(device, dtype).contiguous(memory_format=memory)
    channels = shape[1 if len(shape) == 4 else -1]
    biases = (torch.randn(size, generator=generator, dtype=F64).to(device, dtype) for size in (channels, channels // n))
    return z.requires_grad_(), *(bias.requires_grad_() for bias in biases)


def plain(z, inner, bias, n):
    dim = osc.channel_axis(z)
    inner, bias = (a if a is None or dim == -1 else a[:, None, None] for a in (inner, bias))
    z = z if inner is None else z + inner
    m = torch.linalg.vector_norm(z.unflatten(dim, (-1, n)), dim=dim)
    return m if bias is None else m + bias


def both(z, inner, bias, n, dtype=None):
    """(m, gradients) of the fused form, and of the plain one in float64 for the same values."""
    from akorn.kernels.readout import group_lengths

    arrays = [z, inner, bias]
    m = group_lengths(*arrays, n, dtype or z.dtype)
    weights = torch.linspace(0.5, 1, m.numel(), dtype=F64, device=z.device).reshape(m.shape).to(m.dtype)
    found = [m.detach(), *torch.autograd.grad(m, [a for a in arrays if a is not None], weights)]
    wide = [None if a is None else a.detach().double().requires_grad_() for a in arrays]
    want = plain(*wide, n)
    return found, [want.detach(), *torch.autograd.grad(want, [a for a in wide if a is not None], weights.double())]


def close(found, expected, dtype):
    close_within(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("n", range(1, 17))
@pytest.mark.parametrize(
    ("shape", "memory"), [((3, 5), NCHW), ((2, 3, 5), NCHW), ((2, 3, 3, 7), NCHW), ((2, 3, 3, 7), LAST)]
)
def test_every_size_and_layout(device, n, shape, memory):
    axis = 1 if len(shape) == 4 else -1
    shape = tuple(s * n if i == axis % len(shape) else s for i, s in enumerate(shape))
    arrays = draw(shape, device, F64, n, memory)
    found, expected = both(*arrays, n)
    close(found, expected, F64)
    if memory is LAST:
        assert found[0].is_contiguous(memory_format=LAST)
        assert found[1].is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("out", [None, F32])
@pytest.mark.parametrize("memory", [NCHW, LAST])
def test_narrow_types(device, dtype, out, memory):
    """More rows and pixels than a program has; the result has the requested type, gradients have that of their
    arrays.
    """
    arrays = draw((3, 4 * 33, 9, 17), device, dtype, 4, memory)
    found, expected = both(*arrays, 4, out)
    assert [f.dtype for f in found] == [out or dtype, dtype, dtype, dtype]
    close(found, expected, dtype)


@pytest.mark.parametrize("channels", [12, 16])
def test_several_programs_of_tokens(device, channels):
    z, inner, bias = draw((3, 701, channels), device, F32, 4)
    close(*both(z, inner, bias, 4), F32)
    close(*both(z, None, bias, 4), F32)
    close(*both(z, inner, None, 4), F32)
    close(*both(z, None, None, 4), F32)


@pytest.mark.parametrize("parts", [1, 2, 512])
@pytest.mark.parametrize(("shape", "n"), [((2, 1500, 8), 4), ((3, 64, 7, 9), 2), ((2, 128, 5, 5), 8)])
def test_sums_of_several_tiles_a_program(device, monkeypatch, parts, shape, n):
    """Channels side by side, powers of two: biases' gradients come from the pass over z."""
    from akorn.kernels import readout

    monkeypatch.setattr(readout, "_PARTS", parts)
    monkeypatch.setattr(readout, "_sum", lambda values: pytest.fail("summed on its own"))
    arrays = draw(shape, device, F64, n, LAST if len(shape) == 4 else NCHW)
    close(*both(*arrays, n), F64)


@pytest.mark.parametrize("stride", ["transposed", "every other"])
def test_arrays_with_gaps(device, stride):
    _, inner, bias = draw((2, 12), device, F64, 4)
    z = torch.randn(2, 12, 10, dtype=F64, device=device)
    z = (z.transpose(1, 2) if stride == "transposed" else torch.cat([z, z, z], -1)[..., 3:27:2]).requires_grad_()
    assert not z.is_contiguous()
    close(*both(z, inner, bias, 4), F64)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_the_gradient_of_zero_is_zero(device, n):
    """As in torch's norm; close to it everything is as usual."""
    z, inner, bias = draw((2, 3, 2 * n), device, F64, n)
    with torch.no_grad():
        z[0, :, :n] = -inner[:n]
    found, expected = both(z, inner, bias, n)
    close(found, expected, F64)
    assert found[1][0, :, :n].eq(0).all()
    assert found[1][0, :, n:].ne(0).all()


def test_nothing_to_do(device):
    arrays = draw((0, 3, 8), device, F32, 4)
    close(*both(*arrays, 4), F32)


def test_impossible_arguments(device):
    from akorn.kernels.readout import group_lengths, why_not

    z, inner, bias = draw((2, 3, 12), device, F32, 4)
    with pytest.raises(ValueError, match="n=5"):
        group_lengths(z, inner, bias, 5, F32)
    with pytest.raises(ValueError, match="the bias must have 3 values"):
        group_lengths(z, inner, bias[:2], 4, F32)
    with pytest.raises(ValueError, match="the inner bias must have 12 values"):
        group_lengths(z, bias, bias, 4, F32)
    assert why_not(z, inner, bias, 4) is None
    assert "17" in why_not(z, inner, bias, 17)
    assert "int64" in why_not(z.long(), inner, bias, 4)
    assert "float64" in why_not(z, inner, bias.double(), 4)
    assert "float64" in why_not(z, inner.double(), bias, 4)


def test_no_second_derivatives(device):
    from akorn.kernels.readout import group_lengths

    arrays = draw((2, 3, 8), device, F64, 4)
    (grad,) = torch.autograd.grad(group_lengths(*arrays, 4, F64).square().sum(), arrays[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("shape", "memory"), [((2, 3, 8), NCHW), ((2, 3, 12), NCHW), ((2, 8, 2, 3), NCHW), ((2, 8, 2, 3), LAST)]
)
def test_operators_are_registered_properly(device, shape, memory):
    from akorn.kernels.readout import group_lengths, group_lengths_backward

    z, inner, bias = draw(shape, device, F32, 4, memory)
    torch.library.opcheck(group_lengths.custom, (z, inner, bias, 4, F32))
    torch.library.opcheck(group_lengths.custom, (z.detach(), None, None, 4, BF16))
    grad = torch.ones_like(group_lengths(z, inner, bias, 4, F32)).detach()
    checks = ("test_schema", "test_faketensor")
    for a in (inner.detach(), None):
        torch.library.opcheck(group_lengths_backward.custom, (grad, z.detach(), a, 4), test_utils=checks)


@pytest.fixture
def calls(device, monkeypatch):
    """Readouts use the fused norm here, also in the interpreter; a list that grows with each call of it."""
    from akorn.kernels import readout

    monkeypatch.setattr(kernels, "_interpreted", True)
    count = []
    fused = readout.group_lengths
    monkeypatch.setattr(readout, "group_lengths", lambda *a: count.append(a[0].dtype) or fused(*a))
    return count


def run(readout, x, compiled=False):
    """C and the gradients of x and the parameters."""
    readout, x = copy.deepcopy(readout), x.clone().requires_grad_()
    function = torch.compile(readout, backend="aot_eager", fullgraph=True) if compiled else readout
    c = function(x)
    weights = torch.linspace(-1, 1, c.numel(), dtype=c.dtype, device=x.device).reshape(c.shape)
    (c * weights).sum().backward()
    return [c.detach(), x.grad, *(p.grad for p in readout.parameters())]


READOUTS = {
    "tokens": (lambda: akn.Readout(12, 5, n_out=4), (2, 7, 12)),
    "pictures": (lambda: akn.Readout(6, 5, n_out=2, kernel_size=3), (2, 6, 4, 5)),
    "pictures, channels last": (lambda: akn.Readout(6, 5, n_out=3), (2, 6, 4, 5)),
}


@pytest.mark.parametrize("kind", list(READOUTS))
@pytest.mark.parametrize("compiled", [False, True])
def test_readouts_take_it_by_themselves(device, calls, monkeypatch, kind, compiled):
    torch._dynamo.reset()
    torch.manual_seed(0)
    make, shape = READOUTS[kind]
    readout = make().to(device, F64)
    with torch.no_grad():
        readout.bias.normal_()
    x = torch.randn(*shape, dtype=F64, device=device)
    if "last" in kind:
        x = x.contiguous(memory_format=LAST)
    found = run(readout, x, compiled)
    assert calls or compiled
    monkeypatch.setattr(kernels, "_enabled", False)
    before = len(calls)
    close(found, run(readout, x), F64)
    assert len(calls) == before


def test_a_readout_without_the_norm_is_not_touched(device, calls):
    readout, x = akn.LinearReadout(8).to(device), torch.randn(2, 3, 8, device=device)
    with torch.no_grad():
        readout.bias.normal_()
    torch.testing.assert_close(readout(x), torch.nn.functional.linear(x, readout.weight[..., 0, 0], readout.inner_bias)
                               + readout.bias)  # fmt: skip
    assert not calls


def test_wide_groups_take_the_plain_form(device, calls):
    akn.Readout(4, 2, n_out=17).to(device)(torch.randn(2, 4, device=device))
    assert not calls


@pytest.mark.parametrize("narrow", [False, True])
def test_autocast_gives_the_type_of_the_plain_form(device, calls, monkeypatch, narrow):
    readout, x = akn.Readout(8, narrow=narrow).to(device), torch.randn(2, 3, 8, device=device)
    with torch.autocast(device.type, BF16):
        found = run(readout, x)
        assert calls == [BF16]
        monkeypatch.setattr(kernels, "_enabled", False)
        expected = run(readout, x)
    assert [f.dtype for f in found] == [e.dtype for e in expected]
    assert found[0].dtype == (BF16 if narrow else F32)
    close(found, [e.double() for e in expected], BF16)


def test_only_z_is_kept(device, calls):
    """One array of the size of z is kept, and none of the size of m."""
    readout, x = akn.Readout(8, 6).to(device), torch.randn(2, 3, 8, device=device).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda a: kept.append(tuple(a.shape)) or a, lambda a: a):
        readout(x)
    assert kept.count((2, 3, 24)) == 1
    assert (2, 3, 6) not in kept


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(
    ("shape", "n", "memory"),
    [
        ((512, 400, 1024), 4, NCHW),
        ((128, 128, 32, 32), 2, NCHW),
        ((128, 128, 32, 32), 2, LAST),
        ((128, 256, 16, 16), 2, LAST),
        ((128, 512, 8, 8), 2, NCHW),
    ],
)
def test_the_sizes_of_the_paper_readout(device, shape, n, memory, dtype):
    from akorn.kernels.readout import group_lengths

    z = torch.randn(shape, device=device, dtype=dtype).contiguous(memory_format=memory).requires_grad_()
    channels = shape[1 if len(shape) == 4 else -1]
    inner, bias = (torch.randn(size, device=device, requires_grad=True) for size in (channels, channels // n))
    arrays = [z, inner, bias]
    m = group_lengths(*arrays, n, F32)
    weights = torch.randn_like(m)
    found = torch.autograd.grad(m, arrays, weights)
    again = torch.autograd.grad(group_lengths(*arrays, n, F32), arrays, weights)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    few = slice(0, 8), slice(-8, None)  # float64 of everything would not fit
    for part in few:
        wide, a, b = z[part].detach().double().requires_grad_(), inner.detach().double(), bias.detach().double()
        want = plain(wide, a, b, n)
        (grad,) = torch.autograd.grad(want, wide, weights[part].double())
        close([m[part].detach(), found[0][part]], [want.detach(), grad], dtype)
    # Sums in float32: every addition rounds a partial sum by 2⁻²⁴ of it at most. There are up to 256 behind each other,
    # up as often as down and of partial sums that cancel: together below 32 such roundings of the sum of magnitudes.
    others = (1, 2) if len(shape) == 4 else (0,)
    for result, terms, grain in ((found[2], weights, 0.0), (found[1], found[0], TOLERANCE[dtype])):
        wanted = torch.stack([part.sum(others, dtype=F64) for part in terms]).sum(0)
        size = torch.stack([part.abs().sum(others, dtype=F64) for part in terms]).sum(0)
        # ∂z is rounded to its type before it is summed here, up as often as down: √count of the roundings are left.
        left = 4 * grain * size / (terms.numel() / channels) ** 0.5
        assert ((result.double() - wanted).abs() <= 32 * 2**-24 * size + left).all()
