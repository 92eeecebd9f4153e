"""LayerNorm as layers and baselines use it, under autocast, compiled and in recorded graphs, against torch's own."""

import copy

import pytest
import torch
import torch.nn.functional as F
from layer_norm_arrays import close, draw

from akorn import kernels
from akorn import nn as akn
from akorn.baselines import ItrSA

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


@pytest.fixture
def calls(device, monkeypatch):
    """Layers use the fused norm here, also in the interpreter; a list that grows with each call: the results' types."""
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
    """T norms and one more in each block, and a last one; the same results, under autocast up to its roundings."""
    torch.manual_seed(0)
    model = ItrSA(16, 2, grid=(3, 3), blocks=2).to(device)
    x = torch.randn(2, 16, 9, device=device).transpose(1, 2)  # as pictures give them
    with torch.autocast(device.type, BF16, enabled=autocast):
        found = run(model, x, 3)
    assert calls == [*[BF16 if autocast else F32] * 8, F32]
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
def test_layer_norm_and_product_under_autocast(device):
    """The step of a baseline, against torch's own norm: what the product sees is the same, except for the last bits."""
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
