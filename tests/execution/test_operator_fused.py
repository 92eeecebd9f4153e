"""T steps as one operator, with fused kernels inside, and in the CUDA graphs of the compiler."""

from functools import partial

import pytest
import torch
from compiled_layers import F32, F64, Graphs, a_layer, arrays, last, results
from torch import Tensor

from akorn import kernels
from akorn import nn as ann
from akorn import oscillators as osc

pytestmark = pytest.mark.usefixtures("forget_compiled")


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are used, in Triton's interpreter on a CPU; a list that grows with every fused update."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from akorn.execution import fused_step

    calls: list[str] = []

    def counted(name: str) -> None:
        run = getattr(fused_step, name)
        monkeypatch.setattr(fused_step, name, lambda *a, **k: (calls.append(name), run(*a, **k))[1])

    for name in ("update", "update_twice", "launch_backward"):
        counted(name)
    monkeypatch.setattr(kernels, "_interpreted", True)
    return calls


@pytest.mark.parametrize("last_in_memory", [False, True])
@pytest.mark.parametrize("rule", [ann.Kuramoto(), ann.WithoutProjection()])
@pytest.mark.parametrize("kind", ["own", "conv", "attention"])
def test_kernels_run_inside(
    kind: str, rule: ann.UpdateRule, last_in_memory: bool, fused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward, with the values of the plain form; switching them off takes effect at once."""
    dtype = F32 if kind == "attention" else F64
    layer, graphs = a_layer(kind, dtype, omega=ann.PairwiseFrequency(4), rule=rule), Graphs()
    x, c = arrays(kind, dtype)
    if last_in_memory:
        if kind != "conv":
            pytest.skip("no pictures")
        x, c = (array.contiguous(memory_format=torch.channels_last) for array in (x, c))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer, x, c = layer.to(device), x.to(device), c.to(device)
    compiled = torch.compile(partial(last, layer, 3), fullgraph=True, backend=graphs)
    found = results(layer, compiled, x, c)
    assert fused == ["update"] * 3 + ["launch_backward"] * 3
    monkeypatch.setattr(kernels, "_enabled", False)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == F32 else {"rtol": 1e-9, "atol": 1e-10}
    expected = results(layer, partial(last, layer, 3), x, c)
    torch.testing.assert_close(found, expected, **near)
    assert found[0].stride() == x.stride()
    torch.testing.assert_close(results(layer, compiled, x, c), expected, **near)
    assert len(fused) == 6


def test_states_are_handed_on_inside(fused: list[str]) -> None:
    """Under autocast the fused update also writes the state in the type that the next step multiplies."""
    layer, (x, c) = a_layer("dense", F32, omega=None), arrays(dtype=F32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer, x, c = layer.to(device), x.to(device), c.to(device)

    def call(x: Tensor, c: Tensor) -> tuple[Tensor]:
        with torch.autocast(device, torch.float16):
            return (layer(x, c, 3),)

    expected = results(layer, call, x, c)
    fused.clear()
    found = results(layer, torch.compile(call, fullgraph=True, backend="aot_eager"), x, c)
    assert fused == ["update_twice"] * 2 + ["update"] + ["launch_backward"] * 3
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["conv", "attention", "own"])
@pytest.mark.parametrize("gradients", [ann.Store(), ann.Recompute(2), ann.LastSteps(2)])
@pytest.mark.parametrize("autocast", [False, True])
def test_in_cuda_graphs_of_the_compiler(kind: str, gradients: ann.Gradients, autocast: bool) -> None:
    """mode="reduce-overhead": training is the same as without the compiler, with other values in every replay."""
    losses = []
    for compiled in (False, True):
        layer = a_layer(kind, F32, gradients=gradients).cuda()

        def call(x: Tensor, c: Tensor, layer: ann.KuramotoLayer = layer) -> Tensor:
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                evolution = layer.evolve(x, c, 5, energy=osc.energy)
            return evolution.x.square().cumsum(-1).mean() + evolution.energies.float().mean()

        run = torch.compile(call, mode="reduce-overhead", fullgraph=True) if compiled else call
        optimiser = torch.optim.SGD(layer.parameters(), 1e-2)
        found = []
        for step in range(6):
            x, c = (array.cuda() * (1 + step) for array in arrays(kind, F32))
            loss = run(x, c)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            found.append(float(loss.detach()))
        losses.append(found)
    largest = max(map(abs, losses[0]))  # energies of both signs cancel, bf16's rounding does not
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=3e-2 * largest if autocast else 0.0)
    assert len(set(losses[0])) == 6
