"""Attention for training as couplings and layers use it, against their plain form in float64."""

import copy

import pytest
import torch
from test_attention import TOLERANCE, draw, near
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc


@pytest.fixture
def taken(device, monkeypatch):
    """Let couplings use the kernel by themselves; a list that grows each time one does."""
    from akorn.kernels import attention

    calls, run = [], attention.attend
    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    monkeypatch.setattr(attention, "attend", lambda *arguments: calls.append(1) or run(*arguments))
    return calls


POSITIONS = {
    "none": lambda: None,
    "plain": lambda: akn.Position((3, 4)),
    "absolute": lambda: akn.AbsolutePosition((3, 4), 32),
    "rotary": lambda: akn.RotaryPosition((3, 4), 16),
    "learned rotary": lambda: akn.RotaryPosition((3, 4), 16, learn=True),
    "learned rotary, shared": lambda: akn.RotaryPosition((3, 4), 16, learn=True, symmetric=True),
    "GTA": lambda: akn.GTA((3, 4), 16),
    "symmetric GTA": lambda: akn.GTA((3, 4), 16, symmetric=True),
}


def a_coupling(position="GTA", **options):
    torch.manual_seed(0)
    coupling = akn.AttentionCoupling(32, 2, position=POSITIONS[position](), **options)
    with torch.no_grad():  # away from the start, where GTA's matrices are rotations
        for parameter in coupling.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return coupling


def results(module, *inputs):
    """The output of a module, and the gradients of a fixed sum for inputs and parameters."""
    inputs = [a.detach().requires_grad_() for a in inputs]
    out = module(*inputs)
    sources = [*inputs, *module.parameters()]
    return [out.detach(), *torch.autograd.grad((out.double() * draw(5, *out.shape, device=out.device)).sum(), sources)]


def agree(module, taken, *inputs, tolerance=TOLERANCE[torch.float32]):
    """The fused form of a module against its plain form in float64."""
    fused = results(module, *inputs)
    assert taken
    count = len(taken)
    expected = results(copy.deepcopy(module).double(), *(a.double() for a in inputs))
    assert len(taken) == count, "float64 has no fused form"
    for a, b in zip(fused, expected, strict=True):
        near(a, b, tolerance)


@pytest.mark.parametrize("position", POSITIONS)
def test_the_coupling_takes_it(device, taken, position):
    agree(a_coupling(position).to(device), taken, draw(3, 2, 12, 32, device=device))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_pictures(device, taken, memory_format):
    x = draw(3, 2, 32, 3, 4, device=device).contiguous(memory_format=memory_format)
    coupling = a_coupling().to(device)
    agree(coupling, taken, x)
    assert coupling(x).is_contiguous(memory_format=torch.channels_last)  # as steps keep x, whatever they get


class _Clones(TorchDispatchMode):
    """Counts the arrays that are copied into another memory layout."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten.clone.default
        return function(*args, **(kwargs or {}))


@pytest.fixture
def copies(monkeypatch):
    """A function that counts the copies that a call makes, including those within operators."""
    inside, plain = [], torch.Tensor.contiguous

    def contiguous(self, *args, **kwargs):
        out = plain(self, *args, **kwargs)
        inside.append(out.data_ptr() != self.data_ptr())
        return out

    monkeypatch.setattr(torch.Tensor, "contiguous", contiguous)

    def count(call):
        inside.clear()
        with torch.no_grad(), _Clones() as clones:
            call()
        return clones.count + sum(inside)

    return count


@pytest.mark.parametrize("form", ["tokens", "constant", "varying", "function"])
def test_pictures_are_not_copied_in_every_step(device, taken, copies, form):
    """Channels first, they are brought to the tokens' order once, and back at the end."""
    layer = akn.KuramotoLayer(32, 4, a_coupling(), gamma=0.5).to(device)
    shape = (2, 12, 32) if form == "tokens" else (2, 32, 3, 4)
    x, c = (draw(seed, *shape, device=device) for seed in (3, 4))
    given = {
        "tokens": lambda steps: c,
        "constant": lambda steps: c,
        "varying": lambda steps: torch.stack([c] * steps),
        "function": lambda steps: lambda t: c,
    }[form]
    few, many = (copies(lambda s=steps: layer(x, given(s), s)) for steps in (2, 4))
    each = {"varying": 1, "function": 1}.get(form, 0)  # of c, which is another in every step
    assert many - few == 2 * each
    assert taken


@pytest.mark.parametrize(
    ("orders", "steps", "recompute"),
    [
        ((False, False), 1, False),
        ((False, False), 2, False),
        ((False, False), 2, True),
        ((True, True), 2, False),
        ((True, False), 2, False),
        ((False, True), 2, True),
    ],
)
def test_pictures_in_a_layer(device, taken, orders, steps, recompute):
    """Channels last in memory or not, of x and of c: as in float64, and channels first where both are."""
    layer = akn.KuramotoLayer(
        32, 4, a_coupling(), gamma=0.5, gradients=akn.Recompute() if recompute else akn.Store()
    ).to(device)
    formats = [torch.channels_last if last else torch.contiguous_format for last in orders]
    x, c = (draw(3 + i, 2, 32, 3, 4, device=device).contiguous(memory_format=f) for i, f in enumerate(formats))
    agree(_Steps(layer, steps), taken, x, c, tolerance=1e-4)
    last = torch.channels_last if any(orders) else torch.contiguous_format
    found = layer.evolve(x, c, steps, energy=osc.energy, trajectory=True)
    assert found.x.is_contiguous(memory_format=last)
    assert torch.equal(found.trajectory[-1], found.x)
    tokens = [a.flatten(2).transpose(1, 2).contiguous() for a in (x, c)]
    wanted = layer.evolve(*tokens, steps, energy=osc.energy)
    near(found.x.flatten(2).transpose(1, 2).detach(), wanted.x.double().detach(), 1e-6)
    near(found.energies.detach(), wanted.energies.double().detach(), 1e-5)


def test_under_autocast(device, taken):
    coupling = a_coupling().to(device)

    class Cast(torch.nn.Module):
        inner = coupling

        def forward(self, x):
            with torch.autocast(device.type, torch.bfloat16):
                return self.inner(x)

    x = draw(3, 2, 12, 32, device=device)
    out = Cast()(x)
    assert out.dtype == torch.bfloat16
    assert taken
    near(out.detach(), copy.deepcopy(coupling).double()(x.double()).detach(), TOLERANCE[torch.bfloat16])


def test_in_a_layer(device, taken):
    """With recomputation as without, and each as in float64."""
    for recompute in (False, True):
        layer = akn.KuramotoLayer(
            32, 4, a_coupling(), gamma=0.5, gradients=akn.Recompute() if recompute else akn.Store()
        ).to(device)
        agree(_Steps(layer), taken, *(draw(seed, 2, 12, 32, device=device) for seed in (3, 4)), tolerance=1e-4)


class _Steps(torch.nn.Module):
    def __init__(self, layer, steps=2):
        super().__init__()
        self.layer, self.steps = layer, steps

    def forward(self, x, c):
        return self.layer(x, c, self.steps)


def test_checkpointed(device, taken):
    coupling = a_coupling().to(device)

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = coupling

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    agree(Checkpointed(), taken, draw(3, 2, 12, 32, device=device))


@pytest.mark.parametrize("position", ["absolute", "GTA"])
def test_compiled(device, monkeypatch, position):
    """In one graph, with the operator in it."""
    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    coupling, x = a_coupling(position).to(device), draw(3, 2, 12, 32, device=device)
    graphs = []

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph

    for a, b in zip(
        results(torch.compile(coupling, fullgraph=True, backend="aot_eager"), x), results(coupling, x), strict=True
    ):
        near(a, b.double(), 1e-6)
    torch.compile(coupling, fullgraph=True, backend=backend)(x)
    assert "akorn.attend" in graphs[0]


class _Other(akn.Position):
    """A kind that the kernels do not support."""

    def on_query(self, q):
        return 2 * q


def test_where_it_does_not_apply(device, taken):
    x = draw(3, 2, 12, 32, device=device)
    couplings = [
        akn.AttentionCoupling(32, 2, mask=torch.ones(12, 12, dtype=torch.bool)),
        akn.AttentionCoupling(32, 2, grid=(3, 4), symmetric=True),
        akn.AttentionCoupling(32, 2, position=_Other((3, 4))),
        akn.AttentionCoupling(32, 32),  # heads of one component
    ]
    for coupling in couplings:
        coupling.to(device)(x)
    a_coupling().double().to(device)(x.double())
    was = kernels.enabled()
    kernels.enable(False)
    try:
        a_coupling().to(device)(x)
    finally:
        kernels.enable(was)
    assert not taken
    a_coupling().to(device)(x)
    assert len(taken) == kernels.enabled()
