"""The convolution for training against torch's in float64: both input gradients, biases, where it is torch's own."""

import pytest
import torch
import torch.nn.functional as F
from nearness import close as close_within

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
NCHW, LAST = torch.contiguous_format, torch.channels_last
TOLERANCE = {F32: 3e-6, BF16: 1e-2}
pytestmark = pytest.mark.usefixtures("whole_float32")

# batch, channels, out channels, height, width, kernel, stride
SIZES = [
    (2, 4, 6, 5, 7, 3, 1),
    (2, 6, 4, 5, 7, 3, 2),
    (1, 40, 3, 6, 4, 5, 1),
    (3, 3, 37, 4, 4, 1, 1),
    (2, 1, 5, 9, 8, 9, 1),
    (2, 5, 1, 1, 1, 3, 1),
]


def draw(size, device, dtype, memory=LAST, seed=0):
    """x, weight and bias."""
    batch, channels, out, height, width, kernel, _ = size
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, channels, height, width), (out, channels, kernel, kernel), (out,))
    arrays = [torch.randn(shape, generator=generator, dtype=F64).to(device, dtype) for shape in shapes]
    arrays = [a.contiguous(memory_format=memory) if a.ndim == 4 else a for a in arrays]
    return [a.requires_grad_() for a in arrays]


def results(arrays, stride, function):
    """y, and the gradients of all arrays for the same gradient of y."""
    y = function(*arrays, stride)
    weights = torch.linspace(-1, 2, y.numel(), dtype=F64, device=y.device).reshape(y.shape).sin().to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, [a for a in arrays if a is not None], weights)]


def plain(x, weight, bias, stride):
    return F.conv2d(x, weight, bias, stride, weight.shape[-1] // 2)


def close(found, expected, dtype):
    close_within(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("way", ["library", "mirrored"])
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("size", SIZES)
def test_both_ways_are_torchs(device, choose, size, dtype, way):
    from akorn.kernels.convolution import conv2d

    taken, arrays = choose(way), draw(size, device, dtype)
    found = results(arrays, size[-1], conv2d)
    assert taken == ([way] if size[-1] == 1 else [])  # a strided gradient is the library's
    assert [f.dtype for f in found] == [dtype] * 4
    close(found, results([a.detach().double().requires_grad_() for a in arrays], size[-1], plain), dtype)
    assert all(f.is_contiguous(memory_format=LAST) for f in found[:2])


@pytest.mark.parametrize("memory", [NCHW, LAST])
def test_orders_that_differ_and_no_bias(device, choose, memory):
    from akorn.kernels.convolution import conv2d

    choose("mirrored")
    x, weight, _ = draw(SIZES[0], device, F32, memory)
    other = LAST if memory is NCHW else NCHW
    weight = weight.detach().contiguous(memory_format=other).requires_grad_()
    found = results([x, weight, None], 1, conv2d)
    wide = [a.detach().double().requires_grad_() for a in (x, weight)]
    close(found, results([*wide, None], 1, plain), F32)


def test_a_wide_bias(device):
    """As under autocast: the bias is added, and its gradient summed, in float32."""
    from akorn.kernels.convolution import conv2d

    x, weight, bias = draw(SIZES[0], device, BF16)
    bias = torch.randn(6, device=device, requires_grad=True)
    found = results([x, weight, bias], 1, conv2d)
    assert [f.dtype for f in found] == [BF16, BF16, BF16, F32]
    wide = results([a.detach().double().requires_grad_() for a in (x, weight, bias)], 1, plain)
    close(found[:3], wide[:3], BF16)
    gradient = torch.linspace(-1, 2, found[0].numel(), dtype=F64, device=device).reshape(found[0].shape).sin()
    close(found[3:], [gradient.to(BF16).double().sum((0, 2, 3))], F32)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 130, 40, 41), (2, 64, 33, 9), (1, 1, 1, 1)])
@pytest.mark.parametrize("parts", [1, 3, 256])
def test_sums_of_channels(device, monkeypatch, shape, parts):
    from akorn.kernels import convolution

    monkeypatch.setattr(convolution, "_PARTS", parts)
    values = torch.randn(shape, device=device).contiguous(memory_format=LAST)
    close([convolution.channel_sums(values)], [values.double().sum((0, 2, 3))], F32)


@pytest.mark.parametrize("shape", [(3, 5, 3, 3), (33, 70, 5, 5), (64, 32, 1, 1)])
def test_mirroring(device, shape):
    from akorn.kernels.convolution import mirror

    weight = torch.randn(shape, device=device).contiguous(memory_format=LAST)
    mirrored = mirror(weight)
    assert mirrored.is_contiguous(memory_format=LAST)
    assert torch.equal(mirrored, weight.flip(2, 3).transpose(0, 1))
    assert torch.equal(mirror(mirrored), weight)


def test_second_derivatives(device, choose):
    """Of every pair of arrays, through either gradient."""
    from akorn.kernels.convolution import conv2d

    def twice(arrays, function):
        y = function(*arrays, 1)
        first = torch.autograd.grad(y.pow(3).sum(), arrays, create_graph=True)
        return torch.autograd.grad(sum(g.sin().sum() for g in first), arrays)

    for way in ("library", "mirrored"):
        choose(way)
        arrays = [(0.3 * a.detach()).requires_grad_() for a in draw((2, 3, 4, 4, 5, 3, 1), device, F32)]
        wide = [a.detach().double().requires_grad_() for a in arrays]
        for result, wanted in zip(twice(arrays, conv2d), twice(wide, plain), strict=True):
            torch.testing.assert_close(result.double(), wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_are_registered_properly(device, stride):
    from akorn.kernels.convolution import channel_sums, conv2d, input_gradient

    x, weight, bias = draw(SIZES[0], device, F32)
    torch.library.opcheck(conv2d.custom, (x, weight, bias, stride))
    torch.library.opcheck(conv2d.custom, (x.detach(), weight, None, stride))
    grad = torch.ones_like(conv2d(x, weight, bias, 1)).detach().requires_grad_()
    torch.library.opcheck(input_gradient.custom, (grad, weight))
    torch.library.opcheck(channel_sums.custom, (grad,))


def test_where_convolutions_are_torchs_own(device):
    from akorn.kernels.convolution import why_not

    x, weight, bias = draw(SIZES[0], device, F32)
    assert why_not(x, weight, bias) is None
    assert why_not(x, weight.contiguous(), None) is None
    assert "channels first" in why_not(x.contiguous(), weight.contiguous(), bias)
    assert "float64" in why_not(x.double(), weight.double(), bias)
    assert "3×2" in why_not(x, weight[..., :2], bias)
    assert "2×2" in why_not(x, weight[..., :2, :2], bias)
    assert "[4, 5, 7]" in why_not(x[0], weight, bias)
    assert "[2, 3, 5, 7]" in why_not(x[:, :3], weight, bias)
    assert "no pictures" in why_not(x[:0], weight, bias)


def test_the_choice_is_timed_once_a_shape(device, monkeypatch):
    from akorn.kernels import convolution, tune

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tune, "_CHOSEN", {})
    monkeypatch.setenv("AKORN_CACHE", "")
    timed = []

    def time(launch, count):
        launch()
        timed.append(count)
        return 1.0 / len(timed)  # the later the faster

    monkeypatch.setattr(tune, "time_launches", time)
    grad, weight, _ = draw(SIZES[0], device, F32)
    weight = weight.detach().transpose(0, 1).contiguous(memory_format=LAST)
    taken = []
    for way, function in list(convolution.WAYS.items()):
        monkeypatch.setitem(convolution.WAYS, way, lambda *a, w=way, f=function: taken.append(w) or f(*a))
    for _ in range(2):
        convolution.input_gradient(grad.detach(), weight)
    assert taken == ["library", "mirrored", "mirrored", "mirrored"]
    assert len(timed) == 2
    more = torch.cat([grad.detach(), grad.detach()[:1]]).contiguous(memory_format=LAST)
    convolution.input_gradient(more, weight)  # a batch of about the same size
    assert len(timed) == 2
    convolution.input_gradient(grad.detach()[:1], weight)
    assert len(timed) == 4


@pytest.mark.parametrize("way", ["library", "mirrored"])
def test_autocast_around_the_backward_pass_alone_changes_nothing(device, choose, way):
    from akorn.kernels.convolution import conv2d

    choose(way)
    arrays = draw(SIZES[0], device, F32)
    grads = []
    for autocast in (False, True):
        y = conv2d(*arrays, 1)
        with torch.autocast(device.type, BF16, enabled=autocast):
            grads.append(torch.autograd.grad(y.square().sum(), arrays))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-3)  # bfloat16 would be off by tenths


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(
    "size",
    [
        (32, 64, 64, 32, 32, 9, 1),
        (32, 128, 128, 16, 16, 7, 1),
        (32, 256, 256, 8, 8, 5, 1),
        (32, 64, 128, 32, 32, 3, 1),
        (32, 64, 128, 32, 32, 3, 2),
        (32, 3, 64, 32, 32, 3, 1),
    ],
)
def test_the_sizes_of_the_paper_convolution(device, choose, size, dtype):
    from akorn.kernels.convolution import conv2d

    arrays = draw(size, device, dtype)
    expected = results([a.detach().double().requires_grad_() for a in arrays], size[-1], plain)
    for way in ("library", "mirrored"):
        choose(way)
        found = results(arrays, size[-1], conv2d)
        for result, wanted in zip(found, expected, strict=True):
            error = (result.double() - wanted).norm() / wanted.norm()
            assert error < {F32: 1e-3, BF16: 5e-3}[dtype]  # cuDNN may take transforms in float32: 3e-4 was seen
