"""Any training step as a graph: the same numbers as without one, on the CPU, with fake recordings, and on a GPU."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import akorn
from akorn.errors import AkornError
from akorn.execution import GraphedStep, graph, graphed

CPU = torch.device("cpu")
NETS: list[nn.Module] = []  # the last one is what a pretended graph is of


class Net(nn.Module):
    """Dropout draws from torch's generator, BatchNorm has buffers, one parameter is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 1)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        for _ in range(times):
            x = x.tanh()
        y: Tensor = self.second(self.dropout(self.norm(self.first(x))))
        return y


class FakeGraph:
    """A graph that runs its work again, into the tensors that it left the first time."""

    made = 0

    def __init__(self, work: Callable[[], Any], model: nn.Module, generators: Iterable[torch.Generator]) -> None:
        self.work, self.parameters = work, [p for p in model.parameters() if p.requires_grad]
        states = [(generator, generator.get_state()) for generator in (torch.default_generator, *generators)]
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        self.result = work()
        for generator, state in states:  # recording does nothing by itself
            generator.set_state(state)
        for buffer, before in buffers:
            buffer.copy_(before)
        self.gradients = [parameter.grad for parameter in self.parameters]
        FakeGraph.made += 1

    def pool(self) -> object:
        return self

    def replay(self) -> None:
        fresh = self.work()
        for ours, theirs in zip(flat(self.result), flat(fresh), strict=True):
            ours.copy_(theirs)
        for ours, parameter in zip(self.gradients, self.parameters, strict=True):
            assert (ours is None) == (parameter.grad is None)
            if ours is not None and parameter.grad is not None:
                ours.copy_(parameter.grad)


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in flat(part)]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pretend that the CPU records graphs; the list gets the number of warm-ups of each recording."""
    warm_ups: list[int] = []

    def aside(device: torch.device, work: Callable[[], object]) -> None:
        for _ in range(3):
            work()
        warm_ups.append(3)

    def capture(
        work: Callable[[], Any], stream: object, generators: Iterable[torch.Generator], pool: object
    ) -> tuple[FakeGraph, Any]:
        made = FakeGraph(work, NETS[-1], generators)
        return made, made.result

    monkeypatch.setattr(graph, "_records", lambda device: True)
    monkeypatch.setattr(graph, "_new_stream", lambda device: object())
    monkeypatch.setattr(graph, "_aside", aside)
    monkeypatch.setattr(graph, "_capture", capture)
    monkeypatch.setattr(FakeGraph, "made", 0)
    return warm_ups


def net(device: torch.device = CPU) -> Net:
    torch.manual_seed(3)
    made = Net().to(device)
    NETS.append(made)
    return made


def batches(device: torch.device = CPU) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Two shapes and two choices, in turn."""
    generator = torch.Generator().manual_seed(0)
    for number in range(8):
        x = torch.randn(6 if number % 3 else 4, 5, generator=generator)
        yield x.to(device), x.sum(1, keepdim=True).sin().to(device), 1 + number % 2


def learn(model: Net, device: torch.device, step: Callable[..., Any], draws: torch.Generator) -> list[Tensor]:
    """Train; what was logged at each step, and the weights and buffers at the end."""
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(5)
    logged = []
    for number, (x, y, times) in enumerate(batches(device)):
        loss, extra = step(x, y, times=times)
        logged += [loss, extra["norm"], torch.rand(2, generator=draws, device=device)]
        assert model.unused.grad is None
        optimiser.step()
        if number % 2:  # whether they are set to None, filled with zeros or left as they are
            optimiser.zero_grad(set_to_none=number % 4 == 1)
    return [*logged, *model.state_dict().values()]


def loss_of(model: Net, draws: torch.Generator) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    def loss_function(x: Tensor, y: Tensor, *, times: int) -> tuple[Tensor, dict[str, Tensor]]:
        noise = torch.randn(x.shape, generator=draws, device=x.device)
        found = model(x + 0.1 * noise, times)
        return F.mse_loss(found, y), {"norm": found.norm()}

    return loss_function


def plainly(device: torch.device) -> list[Tensor]:
    """The same by hand."""
    model, draws = net(device), torch.Generator(device).manual_seed(1)
    function = loss_of(model, draws)

    def step(x: Tensor, y: Tensor, times: int) -> tuple[Tensor, dict[str, Tensor]]:
        model.zero_grad()
        loss, extra = function(x, y, times=times)
        loss.backward()
        return loss.detach(), {name: value.detach() for name, value in extra.items()}

    return learn(model, device, step, draws)


def through_graphs(device: torch.device) -> tuple[list[Tensor], GraphedStep[Any]]:
    model, draws = net(device), torch.Generator(device).manual_seed(1)
    step = graphed(loss_of(model, draws), model, generators=[draws])
    return learn(model, device, step, draws), step


def test_on_the_cpu_it_is_the_plain_step() -> None:
    got, step = through_graphs(CPU)
    assert step.graphs == 0
    for ours, theirs in zip(got, plainly(CPU), strict=True):
        assert torch.equal(ours, theirs)


def test_warm_up_and_replays_change_no_number(pretended: list[int]) -> None:
    got, step = through_graphs(CPU)
    assert step.graphs == FakeGraph.made == len(pretended) == 4  # two shapes, two choices
    for ours, theirs in zip(got, plainly(CPU), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_are_of_one_call_and_stay_in_one_place(pretended: list[int]) -> None:
    model = net()
    step = graphed(lambda x: model(x).square().mean(), model)
    x = torch.randn(6, 5)
    model.first.weight.grad = torch.ones_like(model.first.weight)  # somebody's own: not added to, not written into
    kept = model.first.weight.grad
    step(x)
    first = model.first.weight.grad
    assert first is not None
    assert torch.equal(kept, torch.ones_like(kept))
    copy_of_first = first.clone()
    model.eval()
    model.train()
    step(2 * x)
    assert model.first.weight.grad is first
    assert not torch.equal(first, copy_of_first)
    model.zero_grad(set_to_none=True)
    step(x)
    assert model.first.weight.grad is first


def test_what_is_returned_stays_as_it_was(pretended: list[int]) -> None:
    model = net()
    step = graphed(lambda x: model(x).square().mean(), model)
    first = step(torch.ones(6, 5))
    before = first.clone()
    step(torch.zeros(6, 5))
    assert torch.equal(first, before)
    assert not first.requires_grad


def test_what_graphs_cannot_follow_is_recorded_anew(pretended: list[int]) -> None:
    model = net()
    step = graphed(lambda x: model(x).square().mean(), model)
    x = torch.randn(6, 5)
    step(x)
    step(x)
    assert FakeGraph.made == 1
    model.eval()  # other operations
    step(x)
    assert (FakeGraph.made, step.graphs) == (2, 2)
    model.train()
    step(x)
    assert FakeGraph.made == 2
    model.first.weight.data = model.first.weight.data.clone()  # another place in memory
    step(x)
    assert (FakeGraph.made, step.graphs) == (3, 1)
    with torch.autocast("cpu", torch.bfloat16):
        step(x)
    assert step.graphs == 2
    step.reset()
    assert step.graphs == 0
    step(x)
    assert FakeGraph.made == 5


class Found(NamedTuple):
    loss: Tensor
    parts: list[Tensor]


@pytest.mark.parametrize("recorded", [False, True])
def test_results_keep_their_shape(request: pytest.FixtureRequest, recorded: bool) -> None:
    if recorded:
        request.getfixturevalue("pretended")
    model = net()

    def loss_function(x: Tensor) -> Found:
        y = model(x)
        return Found(y.square().mean(), [y, x])

    found = graphed(loss_function, model)(torch.ones(6, 5))
    assert isinstance(found, Found)
    assert isinstance(found.parts, list)
    assert found.parts[0].shape == (6, 1)
    assert not found.parts[0].requires_grad


def test_raw_parameters_and_several_modules() -> None:
    scale, head, frozen = torch.ones(3, requires_grad=True), nn.Linear(3, 1), nn.Linear(3, 3).requires_grad_(False)
    step = graphed(lambda x: head(frozen(x) * scale).sum(), head, frozen, parameters=[scale, *head.parameters()])
    assert len(step.parameters) == 3
    step(torch.ones(2, 3))
    assert scale.grad is not None
    assert frozen.weight.grad is None


def test_any_layer_of_ours_can_be_in_it() -> None:
    layer = akorn.nn.KuramotoLayer(8, 4, coupling=akorn.nn.AttentionCoupling(8, heads=2, grid=(3, 3)))
    step = akorn.execution.graphed(lambda x, c, *, steps: layer(x, c, steps=steps).square().mean(), layer)
    x, c = torch.randn(2, 9, 8), torch.randn(2, 9, 8)
    step(x, c, steps=2)
    ours = {name: parameter.grad for name, parameter in layer.named_parameters()}
    again = copy.deepcopy(layer)
    again.zero_grad()
    again(x, c, steps=2).square().mean().backward()
    for name, parameter in again.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=0, atol=0)


def test_mistakes_are_told_on_every_device() -> None:
    model = net()
    step = graphed(lambda x, **choices: model(x).mean(), model)
    x = torch.ones(6, 5)
    with pytest.raises(ValueError, match="no parameter requires a gradient"):
        graphed(lambda x: x.sum())
    with pytest.raises(TypeError, match="expected modules after the loss function, got a generator"):
        graphed(lambda x: x.sum(), model.parameters())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="argument 2 is a int, expected a tensor; pass what the host"):
        step(x, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="argument 1 is on meta, the parameters on cpu"):
        step(x.to("meta"))
    with pytest.raises(ValueError, match="argument 1 requires a gradient"):
        step(x.clone().requires_grad_())
    with pytest.raises(ValueError, match=r"returned \[6, 1\], expected a scalar"):
        graphed(model.forward, model)(x)
    with pytest.raises(ValueError, match="returned a float, expected a scalar"):
        graphed(lambda x: model(x).mean().item(), model)(x)
    with pytest.raises(TypeError, match="returned a float, expected tensors"):
        graphed(lambda x: (model(x).mean(), {"a": 1.0}), model)(x)


def test_a_choice_that_cannot_be_a_key(pretended: list[int]) -> None:
    model = net()
    step = graphed(lambda x, **choices: model(x).mean(), model)
    with pytest.raises(TypeError, match="the choice 'steps' is a list, expected a hashable"):
        step(torch.ones(6, 5), steps=[1])


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@GPU
def test_on_a_gpu_it_learns_as_without_graphs() -> None:
    device = torch.device("cuda", 0)
    got, step = through_graphs(device)
    assert step.graphs == 4
    for ours, theirs in zip(got, plainly(device), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@GPU
def test_on_a_gpu_under_autocast_weights_are_cast_anew() -> None:
    """A cast cached before the recording would hold old weights for ever."""
    device = torch.device("cuda", 0)
    model = nn.Linear(4, 1, bias=False).to(device)
    step = graphed(lambda x: model(x).float().sum(), model)
    x = torch.ones(2, 4, device=device)
    with torch.autocast("cuda", torch.bfloat16):
        step(x)
        with torch.no_grad():
            model.weight.fill_(2.0)
        assert float(step(x)) == 16.0


WAITING = """
import torch, akorn
from akorn.errors import AkornError
model = torch.nn.Linear(4, 1, device="cuda")
def loss_function(x):
    loss = model(x).square().mean()
    return loss * 2 if loss.item() > 1 else loss
step = akorn.execution.graphed(loss_function, model)
try:
    step(torch.ones(2, 4, device="cuda"))
except AkornError as error:
    print(error)
print("goes on", float((torch.ones(2, device="cuda") + 1).sum()))
"""


@pytest.mark.gpu
@GPU
def test_a_loss_that_waits_for_the_gpu_is_told_what_to_do() -> None:
    """In a separate process: a failed recording leaves torch's random numbers unusable."""
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert "cannot be recorded as a CUDA graph: it waits for the GPU (.item()" in done.stdout, done.stderr
    assert "goes on 4.0" in done.stdout


def test_what_fails_in_the_recording_alone_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    stream = type("Stream", (), {"device": CPU})()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Broken)
    monkeypatch.setattr(torch.cuda, "graph", Broken)
    monkeypatch.setattr(torch.cuda, "device", Broken)
    left: list[object] = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "here")
    monkeypatch.setattr(torch.cuda, "set_stream", left.append)
    with pytest.raises(AkornError, match=r"waits for the GPU .* when stream is capturing\)$"):
        graph._capture(lambda: None, stream, (), None)
    assert left == ["here"]  # where the process worked before
