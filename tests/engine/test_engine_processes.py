"""Several processes: the same with graphs and without, also if they share a GPU; and what the loss itself exchanges."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_launch import assert_same_run, everything, launch
from engine_toy import CONFIG, ToyTask

from akorn.engine import scalars, train
from akorn.execution import GraphedStep


@pytest.mark.slow
def test_two_processes_learn_the_same_through_the_graphed_call(tmp_path: Path) -> None:
    """On a CPU the call runs plainly, but it is the same call, before the same exchange of its gradients."""
    for name, options in (("plain", []), ("graphed", ["graph=1"])):
        assert launch(2, tmp_path / name, "spare=1", "decay=0.1", *options) == [0, 0]
    plain, graphed = everything(tmp_path / "plain"), everything(tmp_path / "graphed")
    assert plain.keys() == graphed.keys()
    assert not [n for n in plain if plain[n].numpy().tobytes() != graphed[n].numpy().tobytes()]
    assert torch.equal(graphed["model:spare"], torch.ones(3))  # no gradient here nor there, and no decay
    models = {line for log in tmp_path.glob("*.log") for line in log.read_text().splitlines() if line[:5] == "model"}
    assert len(models) == 1  # every process ends with the same weights and running statistics


@pytest.mark.slow
def test_a_graphed_run_resumes_in_two_processes(tmp_path: Path, undisturbed: Path) -> None:
    """It ends where one that was not killed ends, which the plain call makes to the bit (above)."""
    assert 0 not in launch(2, tmp_path / "killed", "graph=1", "kill_at=33", "kill_rank=1")
    assert launch(2, tmp_path / "killed", "graph=1", "resume=1") == [0, 0]
    assert_same_run(undisturbed, tmp_path / "killed", processes=2)


@pytest.mark.parametrize(("exchanges", "processes", "recorded"), [(False, 2, True), (True, 2, False), (True, 1, True)])
def test_a_loss_that_talks_to_other_processes_is_recorded_in_one_process_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exchanges: bool, processes: int, recorded: bool
) -> None:
    calls: list[int] = []
    called = GraphedStep.__call__

    def count(step, *inputs, **choices):  # type: ignore[no-untyped-def]
        calls.append(1)
        return called(step, *inputs, **choices)

    class Exchanging(ToyTask):
        @property
        def exchanges(self) -> bool:
            return exchanges

    monkeypatch.setattr(GraphedStep, "__call__", count)
    if processes > 1:
        monkeypatch.setattr("accelerate.Accelerator.num_processes", processes)  # as many as that, in words
    train(Exchanging(), replace(CONFIG, steps=3, graph=True), tmp_path / "run")
    assert len(calls) == (3 if recorded else 0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("graph", [[], ["graph=1"]])
def test_two_processes_on_one_gpu_learn_as_one(tmp_path: Path, graph: list[str]) -> None:
    """They communicate by gloo, since NCCL refuses two processes on one GPU."""
    options = ["random=0", "log_every=1", "spare=1", "device=cuda", *graph]
    assert launch(1, tmp_path / "one", *options, gpu="0") == [0]
    assert launch(2, tmp_path / "two", *options, gpu="0") == [0, 0]
    one, two = (
        [row["loss"] for row in scalars.read(tmp_path / name) if "loss" in row] for name in ("one", "two")
    )  # fmt: skip
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=1e-4, atol=1e-6)
    logs = [(tmp_path / f"two-{rank}.log").read_text().splitlines() for rank in range(2)]
    assert all("backend gloo" in log for log in logs)
    assert len({line for log in logs for line in log if line.startswith("model ")}) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_processes_on_one_gpu_learn_with_graphs_as_without(tmp_path: Path) -> None:
    """With dropout and batch norms: random numbers and running statistics are each process's own until exchanged."""
    for name, options in (("plain", []), ("graphed", ["graph=1"])):
        assert launch(2, tmp_path / name, "device=cuda", "spare=1", *options, gpu="0") == [0, 0]
    plain, graphed = everything(tmp_path / "plain"), everything(tmp_path / "graphed")
    for name in plain:
        if name.startswith(("model:", "ema:")):
            torch.testing.assert_close(graphed[name], plain[name], rtol=0, atol=1e-4)
