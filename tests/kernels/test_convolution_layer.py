"""The convolution for training as couplings, readouts and `Conv2d` use it, against torch's own."""

import copy

import pytest
import torch

from akorn import kernels
from akorn import nn as akn
from akorn.nn.convolution import Conv2d

F32, BF16 = torch.float32, torch.bfloat16
LAST = torch.channels_last
pytestmark = pytest.mark.usefixtures("whole_float32")


@pytest.fixture
def calls(device, monkeypatch):
    """Layers use the operator here, also in the interpreter; a list that grows with each call of it."""
    from akorn.kernels import convolution

    monkeypatch.setattr(kernels, "_interpreted", True)
    count = []
    fused = convolution.conv2d
    monkeypatch.setattr(convolution, "conv2d", lambda *a: count.append((a[0].dtype, a[1].dtype)) or fused(*a))
    return count


LAYERS = {
    "coupling": lambda: akn.ConvCoupling(6, 5),
    "symmetric": lambda: akn.ConvCoupling(6, 3, symmetric=True),
    "readout": lambda: akn.Readout(6, 5, n_out=2, kernel_size=3),
    "linear readout": lambda: akn.LinearReadout(6, 5, kernel_size=3),
    "module": lambda: Conv2d(6, 5, 3, 2),
}


def run(layer, x, compiled=False):
    layer, x = copy.deepcopy(layer), x.detach().clone().requires_grad_()
    function = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
    y = function(x)
    y.float().pow(3).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_layers_take_it_by_themselves(device, calls, choose, monkeypatch, kind, autocast, compiled):
    torch._dynamo.reset()
    torch.manual_seed(0)
    choose("mirrored")
    layer = LAYERS[kind]().to(device).to(memory_format=LAST)
    x = torch.randn(2, 6, 4, 7, device=device).contiguous(memory_format=LAST)
    with torch.autocast(device.type, BF16, enabled=autocast):
        found = run(layer, x, compiled)
        assert calls == [(BF16, BF16) if autocast else (F32, F32)] or compiled
        monkeypatch.setattr(kernels, "_enabled", False)
        before = len(calls)
        expected = run(layer, x)
    assert len(calls) == before
    assert [f.dtype for f in found] == [e.dtype for e in expected]
    assert [f.stride() for f in found[2:]] == [e.stride() for e in expected[2:]]
    for result, wanted in zip(found, expected, strict=True):
        scale = float(wanted.abs().max())
        torch.testing.assert_close(result, wanted, rtol=0, atol=(0.03 if autocast else 1e-5) * scale)


def test_layers_that_take_torchs_own(device, calls, monkeypatch):
    x = torch.randn(1, 6, 4, 7, device=device)
    last = x.contiguous(memory_format=LAST)
    coupling = akn.ConvCoupling(6, 3).to(device)
    with torch.no_grad():
        coupling(last)
    coupling(x)
    akn.ConvCoupling(6, 3, periodic=True).to(device)(last)
    copy.deepcopy(coupling).double()(last.double())
    torch.func.grad(lambda x: coupling(x).square().sum())(last)
    assert not calls
    coupling(last)
    assert len(calls) == 1
    coupling.to(memory_format=LAST)(x)
    assert len(calls) == 2
    monkeypatch.setattr(kernels, "_enabled", False)
    coupling(last)
    assert len(calls) == 2


def test_types_that_do_not_fit_are_torchs_affair(device, calls):
    x = torch.randn(1, 6, 4, 7, device=device).contiguous(memory_format=LAST)
    with pytest.raises(RuntimeError, match="type"):
        akn.ConvCoupling(6, 3).to(device, BF16)(x)


def test_kernels_of_even_size():
    with pytest.raises(ValueError, match="odd size, got 4"):
        Conv2d(3, 3, 4)


def test_the_module_is_torchs():
    torch.manual_seed(0)
    ours = Conv2d(3, 5, 3, 2)
    torch.manual_seed(0)
    theirs = torch.nn.Conv2d(3, 5, 3, 2, padding=1)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.randn(2, 3, 7, 8)
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.gpu
def test_recorded_graphs_take_what_was_timed_before(device):
    """Nothing is timed while a graph is recorded, and the replayed gradients are the eager ones."""
    torch.manual_seed(0)
    coupling = akn.ConvCoupling(64, 5).to(device).to(memory_format=LAST)
    x = torch.randn(8, 64, 16, 16, device=device).contiguous(memory_format=LAST).requires_grad_()

    def step():
        with torch.autocast("cuda", BF16):
            y = coupling(coupling(x))
        return torch.autograd.grad(y.float().square().sum(), [x, coupling.free_weight])

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            eager = step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    graph.replay()
    for a, b in zip(recorded, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2 * float(b.abs().max()))
