"""NT-Xent: against the plain formula, whatever autocast says, and the same in one process and in two."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed

from akorn.engine.contrastive import nt_xent


def formula(first: Tensor, second: Tensor, temperature: float) -> float:
    """The definition, pair by pair, in float64."""
    views = [v / v.norm() for v in torch.cat((first, second)).double()]
    count = len(first)
    total = 0.0
    for i, view in enumerate(views):
        others = [math.exp(float(view @ other) / temperature) for k, other in enumerate(views) if k != i]
        partner = math.exp(float(view @ views[(i + count) % (2 * count)]) / temperature)
        total -= math.log(partner / sum(others))
    return total / (2 * count)


def views(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(count, 6, generator=generator)
    return first, first + 0.5 * torch.randn(count, 6, generator=generator)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_it_is_the_formula(count: int, temperature: float) -> None:
    first, second = views(count)
    loss = nt_xent(first, second, temperature=temperature)
    assert loss.item() == pytest.approx(formula(first, second, temperature), rel=1e-5, abs=1e-6)
    exact = nt_xent(first.double(), second.double(), temperature=temperature)
    assert exact.item() == pytest.approx(formula(first, second, temperature), rel=1e-12, abs=1e-12)


def test_views_alike_cost_less_and_lengths_do_not_matter() -> None:
    first, second = views(8)
    assert nt_xent(first, first) < nt_xent(first, second) < nt_xent(first, second.flip(0))
    torch.testing.assert_close(nt_xent(3 * first, 0.1 * second), nt_xent(first, second))


def test_similarities_are_float32_under_autocast() -> None:
    first, second = views(16)
    with torch.autocast("cpu", torch.bfloat16):
        inside = nt_xent(first, second)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, nt_xent(first, second))
    narrow = nt_xent(first.bfloat16(), second.bfloat16())
    assert narrow.dtype == torch.float32


def test_gradients_are_finite_for_equal_views() -> None:
    first = torch.ones(4, 3, requires_grad=True)
    nt_xent(first, first).backward()
    assert first.grad is not None
    assert first.grad.isfinite().all()


def test_what_cannot_be_is_refused() -> None:
    first, second = views(4)
    with pytest.raises(ValueError, match=r"\[B, D\]"):
        nt_xent(first, second[:3])
    with pytest.raises(ValueError, match="temperature"):
        nt_xent(first, second, temperature=0)


def loss_and_gradient(images: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of a small network on these pictures [B, 2, 5] (two views each), and its weights' gradient."""
    torch.manual_seed(1)
    weight = torch.randn(5, 4, requires_grad=True)
    first, second = (torch.tanh(images[:, view] @ weight) for view in (0, 1))
    loss = nt_xent(first, second)
    loss.backward()
    assert weight.grad is not None
    return loss.detach(), weight.grad


def batch() -> Tensor:
    return torch.randn(12, 2, 5, generator=torch.Generator().manual_seed(2))


@pytest.mark.slow
def test_two_processes_and_one_agree(tmp_path: Path) -> None:
    alone = loss_and_gradient(batch())
    # The store where the processes meet lives here and keeps its port, as in torch's launcher.
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {
        **{"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "OMP_NUM_THREADS": "1"},
        **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0", "CUDA_VISIBLE_DEVICES": ""},
    }
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, str(tmp_path)],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
    for rank in range(2):
        loss, gradient = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(loss, alone[0], rtol=1e-6, atol=0)
        torch.testing.assert_close(gradient, alone[1], rtol=1e-5, atol=1e-7)


def main() -> None:
    """One of two processes: half of the batch, then the gradients' mean as the engine takes it."""
    from akorn.engine import TrainConfig
    from akorn.engine.accelerator import start
    from akorn.runtime.processes import average_gradients

    torch.set_num_threads(1)
    accelerator = start(TrainConfig(device="cpu"))
    assert accelerator.num_processes == 2
    rank = accelerator.process_index
    loss, gradient = loss_and_gradient(batch().chunk(2)[rank])
    weight = torch.nn.Parameter(torch.zeros_like(gradient))
    weight.grad = gradient
    average_gradients([weight])
    torch.save((loss, weight.grad), Path(sys.argv[1]) / f"{rank}.pt")


if __name__ == "__main__":
    main()
