"""The loop as a whole: one step by hand, hooks, refusals, what it leaves behind."""

import copy
import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import CONFIG, SAMPLES, ToyTask
from torch import nn

from akorn.engine import EmaConfig, OptimiserConfig, ScheduleConfig, checkpoint, scalars, train
from akorn.engine.config import Compile
from akorn.engine.order import Order
from akorn.errors import AkornError
from akorn.ledger import read_records
from akorn.rooms import part, recipes, room_of_recipe
from akorn.runtime.lock import only_run

PLAIN = replace(CONFIG, ema=EmaConfig(), schedule=ScheduleConfig(), log_every=1, eval_every=0)


def sgd(**options: float) -> OptimiserConfig:
    return OptimiserConfig(name="sgd", learning_rate=0.5, momentum=0.0, **options)


def first_gradients(model: nn.Module, task: ToyTask) -> list[torch.Tensor]:
    indices = Order(SAMPLES, PLAIN.batch_size, PLAIN.seed, torch.device("cpu")).indices(0)
    loss = (model(task.data.x[indices]) - task.data.y[indices]).square().mean()
    return list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize("clip", [0.0, 0.125])
def test_one_step_of_clipped_gradient_descent(tmp_path: Path, clip: float) -> None:
    starts: list[nn.Module] = []

    class Watched(ToyTask):
        def build_model(self) -> nn.Module:
            model = super().build_model()
            starts.append(copy.deepcopy(model))
            return model

    task = Watched(random=False)
    result = train(task, replace(PLAIN, steps=1, optimiser=sgd(clip=clip)), tmp_path / "a")
    gradients = first_gradients(starts[0], task)
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
    assert norm > 0.125  # so that clipping matters
    shrink = clip / norm if clip else 1.0
    for before, after, gradient in zip(starts[0].parameters(), result.model.parameters(), gradients, strict=True):
        torch.testing.assert_close(after, before - 0.5 * shrink * gradient, rtol=1e-5, atol=1e-6)
    row = scalars.read(tmp_path / "a")[0]
    assert ("gradient_norm" in row) == bool(clip)
    if clip:
        assert row["gradient_norm"] == pytest.approx(norm, rel=1e-5)


def test_graphs_change_nothing_without_cuda(tmp_path: Path) -> None:
    config = replace(PLAIN, steps=2, device="cpu")
    plain = train(ToyTask(random=False), config, tmp_path / "a")
    asked = train(ToyTask(random=False), replace(config, graph=True), tmp_path / "b")
    assert asked.loss == plain.loss


def test_without_a_compiler_a_run_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("akorn.runtime.devices.shutil.which", lambda program: None)
    plain = train(ToyTask(random=False), replace(PLAIN, steps=2), tmp_path / "a")
    asked = train(ToyTask(random=False), replace(PLAIN, steps=2, compile="yes"), tmp_path / "b")
    assert [record.message for record in caplog.records if "slower" in record.message] == [
        "there is no C++ compiler (g++ or clang++): the model runs uncompiled, which is slower"
    ]
    assert asked.loss == plain.loss


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_every_optimiser_learns_and_resumes(tmp_path: Path, name: str) -> None:
    optimiser = OptimiserConfig(name=name, learning_rate=0.02, weight_decay=0.01)  # type: ignore[arg-type]
    config = replace(PLAIN, optimiser=optimiser, epochs=10)
    whole = train(ToyTask(random=False), config, tmp_path / "whole")
    losses = [row["loss"] for row in scalars.read(tmp_path / "whole") if "loss" in row]
    assert sum(losses[-12:]) < 0.6 * sum(losses[:12])
    train(ToyTask(random=False), replace(config, epochs=4), tmp_path / "piece")
    resumed = train(ToyTask(random=False), config, tmp_path / "piece", resume=True)  # constant rate: may grow longer
    assert resumed.seconds > 0
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_evaluation_sees_the_average_and_disturbs_nothing(tmp_path: Path) -> None:
    often, never = ToyTask(), ToyTask()
    a = train(often, replace(CONFIG, eval_every=4), tmp_path / "often")
    b = train(never, replace(CONFIG, eval_every=0), tmp_path / "never")
    assert len(often.evaluated) == 15
    assert len(never.evaluated) == 1
    assert often.evaluated[-1] is a.model
    assert all(torch.equal(x, y) for x, y in zip(a.model.parameters(), b.model.parameters(), strict=True))
    assert a.metrics == b.metrics
    first, *_, last = often.evaluated
    assert first is not last  # step 4: the average starts at 7
    steps = [row["step"] for row in scalars.read(tmp_path / "often") if "eval/error" in row]
    assert steps == list(range(4, 61, 4))


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    runs = [train(ToyTask(), replace(CONFIG, seed=s), tmp_path / f"{i}") for i, s in enumerate([0, 0, 1])]
    weights = [next(r.model.parameters()) for r in runs]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_logged_rate_follows_the_schedule(tmp_path: Path) -> None:
    config = replace(PLAIN, steps=6, schedule=ScheduleConfig("linear", warmup=2), optimiser=sgd())
    train(ToyTask(random=False), config, tmp_path)
    rates = [row["learning_rate"] for row in scalars.read(tmp_path) if "learning_rate" in row]
    assert rates == pytest.approx([0.25, 0.5, 0.5, 0.375, 0.25, 0.125])


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="loss is nan at step 14"):
        train(ToyTask(nan_at=9), replace(CONFIG, checkpoint_every=0), tmp_path / "a")
    with pytest.raises(AkornError, match="no longer finite after step 10"):
        train(ToyTask(nan_at=9), replace(CONFIG, checkpoint_every=5), tmp_path / "b")
    assert checkpoint.newest(tmp_path / "b" / checkpoint.FOLDER).name == "step-00000005"


def test_another_run_is_not_written_over(tmp_path: Path) -> None:
    train(ToyTask(), replace(CONFIG, steps=5), tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(AkornError, match="already has a run"):
        train(ToyTask(), replace(CONFIG, steps=5), tmp_path)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    train(ToyTask(), replace(PLAIN, steps=5), tmp_path)
    with (
        only_run(tmp_path),
        pytest.raises(AkornError, match=rf"another run \(process {os.getpid()}\) is writing into it"),
    ):
        train(ToyTask(), replace(PLAIN, steps=6), tmp_path, resume=True)
    assert train(ToyTask(), replace(PLAIN, steps=6), tmp_path, resume=True).steps == 6  # the lock is free again


def test_a_run_cannot_become_shorter_than_it_is(tmp_path: Path) -> None:
    train(ToyTask(), replace(PLAIN, steps=5), tmp_path)
    with pytest.raises(AkornError, match="has 5 steps, more than the 3 requested"):
        train(ToyTask(), replace(PLAIN, steps=3), tmp_path, resume=True)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AkornError, match="cannot be created"):
        train(ToyTask(), CONFIG, tmp_path / "file" / "run")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_devices_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="no CUDA device"):
        train(ToyTask(), replace(CONFIG, device="cuda"), tmp_path / "a")
    with pytest.raises(AkornError, match=r"fp16.*needs a GPU"):
        train(ToyTask(), replace(CONFIG, precision="fp16"), tmp_path / "b")
    with pytest.raises(AkornError, match=r"graph cannot be combined with precision 'fp16'"):
        train(ToyTask(), replace(CONFIG, graph=True, precision="fp16"), tmp_path / "d")


def test_precisions_in_one_process_and_nothing_leaks(tmp_path: Path) -> None:
    before = (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    seen: dict[str, tuple[torch.dtype, str]] = {}

    class Peek(ToyTask):
        def loss(self, model, batch, generator, choice):  # type: ignore[no-untyped-def]
            seen[precision] = (model(batch[0]).dtype, torch.get_float32_matmul_precision())
            return super().loss(model, batch, generator, choice)

    for precision in ("float32", "bf16", "tf32"):
        result = train(Peek(), replace(CONFIG, precision=precision, steps=8), tmp_path / precision)  # type: ignore[arg-type]
        assert math.isfinite(result.loss)
        assert {p.dtype for p in result.model.parameters()} == {torch.float32}
    assert seen == {
        "float32": (torch.float32, "highest"),
        "bf16": (torch.bfloat16, "high"),
        "tf32": (torch.float32, "high"),
    }
    assert before == (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)


def test_compile_is_left_to_the_task(tmp_path: Path) -> None:
    compiled: list[nn.Module] = []

    class Compiling(ToyTask):
        def compile(self, model: nn.Module) -> None:
            compiled.append(model)
            model.compile(backend="eager")

    result = train(Compiling(), replace(CONFIG, compile="yes", steps=8), tmp_path / "a")
    plain = train(ToyTask(), replace(CONFIG, steps=8), tmp_path / "b")
    assert len(compiled) == 2  # the model and its average
    assert all(torch.equal(x, y) for x, y in zip(result.model.parameters(), plain.model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("compile", "worth", "steps", "models"),
    [("auto", True, 4, 2), ("auto", True, 3, 0), ("auto", False, 4, 0), ("no", True, 4, 0), ("yes", False, 3, 2)],
)
def test_long_runs_on_a_cpu_compile_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compile: Compile, worth: bool, steps: int, models: int
) -> None:
    monkeypatch.setattr("akorn.engine.state.LONG", 4)
    compiled: list[nn.Module] = []

    class Compiling(ToyTask):
        compiles_on_cpu = worth

        def compile(self, model: nn.Module) -> None:
            compiled.append(model)

    train(Compiling(), replace(CONFIG, compile=compile, steps=steps, device="cpu"), tmp_path)
    assert len(compiled) == models


OURS = ("sudoku_best", "sudoku_hard", "sudoku_quick")  # AKOrN, though their names do not say so


@pytest.mark.parametrize("name", ["sudoku", "shapes", "cifar10"])
def test_kuramoto_steps_are_what_is_worth_it_on_a_cpu(name: str) -> None:
    for recipe, make in recipes().items():
        if recipe.startswith(name):
            task = part(room_of_recipe(recipe), "task").make_task(make())
            assert task.compiles_on_cpu == ("akorn" in recipe or recipe in OURS), recipe


def test_record_and_tensorboard(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=14, tensorboard=True)
    out, results = tmp_path / "run", tmp_path / "results"
    result = train(ToyTask(), config, out, results=results, overrides={"steps": 14})
    (record,) = read_records(results)
    assert record["file"] == result.record.name
    assert (record["kind"], record["name"], record["seed"]) == ("train", "toy", 0)
    assert record["metrics"] == {"error": result.metrics["error"], "loss": result.loss}
    assert record["overrides"] == {"steps": 14}
    assert record["config"]["task"] == {"random": True}
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(out / "tensorboard")).Reload()
    assert [e.step for e in events.Scalars("loss")] == [7, 14]
    assert events.Scalars("eval/error")[0].value == pytest.approx(result.metrics["error"])


def test_a_finished_run_is_recorded_once(tmp_path: Path) -> None:
    run, results, config = tmp_path / "run", tmp_path / "results", replace(PLAIN, steps=5)
    first = train(ToyTask(), config, run, results=results)
    written = (first.folder / "training.json").stat().st_mtime_ns
    again = train(ToyTask(), config, run, resume=True, results=results)
    assert (again.record, again.loss, again.metrics) == (first.record, first.loss, first.metrics)
    assert (again.folder / "training.json").stat().st_mtime_ns == written
    shutil.rmtree(run / "model")
    assert train(ToyTask(), config, run, resume=True, results=results).folder.is_dir()
    assert [record["extra"]["steps"] for record in read_records(results)] == [5]
    train(ToyTask(), replace(config, steps=8), run, resume=True, results=results)
    assert sorted(record["extra"]["steps"] for record in read_records(results)) == [5, 8]
    other = train(ToyTask(), replace(config, steps=8, weights="last"), run, resume=True, results=results)
    assert json.loads(other.record.read_text())["config"]["weights"] == "last"
    assert json.loads((other.folder / "training.json").read_text())["weights"] == "last"


@pytest.mark.parametrize("last", ["_leave_model", "write_record", "own_record.share"])
@pytest.mark.parametrize("longer", [False, True])
def test_a_run_that_was_stopped_at_its_end_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, longer: bool
) -> None:
    run, results, config = tmp_path / "run", tmp_path / "results", replace(PLAIN, steps=5)
    if longer:
        train(ToyTask(), replace(config, steps=3), run, results=results)
    with monkeypatch.context() as patch:
        patch.setattr(f"akorn.engine.loop.{last}", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(ToyTask(), config, run, resume=True, results=results)
    for _ in range(2):
        result = train(ToyTask(), config, run, resume=True, results=results)
        assert json.loads((result.folder / "training.json").read_text())["steps"] == 5
        assert json.loads(result.record.read_text())["extra"]["steps"] == 5
        assert len(read_records(results)) == 1 + longer


def raising(error: type[BaseException]) -> Callable[..., None]:
    def fail(*words: object, **options: object) -> None:
        raise error

    return fail


def test_a_record_keeps_the_curves_that_were_logged_also_of_a_resumed_run(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=30)
    whole = train(ToyTask(), config, tmp_path / "whole", results=tmp_path / "results")
    with pytest.raises(AkornError, match="the loss is nan at step 28"):
        train(ToyTask(nan_at=24), config, tmp_path / "parts")
    parts = train(ToyTask(), config, tmp_path / "parts", resume=True, results=tmp_path / "results")
    curve, again = (json.loads(result.record.read_text())["extra"]["curve"] for result in (whole, parts))
    assert curve == again
    rows = [row for row in scalars.read(tmp_path / "whole") if "loss" in row]
    assert curve["loss"]["steps"] == [row["step"] for row in rows] == [7, 14, 21, 28, 30]
    assert curve["loss"]["values"] == pytest.approx([row["loss"] for row in rows], rel=1e-5)
    assert curve["eval/error"]["steps"] == [15, 30]


def test_a_run_that_logs_nothing_on_the_way_has_no_curve(tmp_path: Path) -> None:
    train(ToyTask(), replace(CONFIG, steps=5), tmp_path / "run", results=tmp_path / "results")
    (record,) = read_records(tmp_path / "results")
    assert record["extra"] == {"steps": 5, "processes": 1}


def test_every_run_tells_how_its_model_was_trained(tmp_path: Path) -> None:
    """From Python too, and for a model that cannot save itself."""
    config = replace(CONFIG, steps=3, seed=2, weights="last")
    result = train(ToyTask(), config, tmp_path, overrides={"data.path": Path("boards.csv")})
    assert result.folder == tmp_path / "model"
    assert [path.name for path in result.folder.iterdir()] == ["training.json"]
    assert json.loads((result.folder / "training.json").read_text()) == {
        **{"recipe": "toy", "seed": 2, "precision": "float32", "weights": "last"},
        **{"overrides": {"data.path": "boards.csv"}, "steps": 3},
        "ema": {"decay": 0.9, "every": 2, "after": 7, "warmup": True, "final": None},
    }


def test_a_model_that_can_save_itself_is_saved(tmp_path: Path) -> None:
    class Saving(nn.Sequential):
        def save_pretrained(self, folder: Path) -> None:
            folder.mkdir(exist_ok=True)
            torch.save(self.state_dict(), folder / "weights.pt")

    class SavingTask(ToyTask):
        def build_model(self) -> nn.Module:
            return Saving(*super().build_model())  # type: ignore[misc]

    result = train(SavingTask(), replace(CONFIG, steps=20), tmp_path)
    saved = torch.load(result.folder / "weights.pt", weights_only=True)
    for name, tensor in result.model.state_dict().items():  # the average, not the last weights
        assert torch.equal(saved[name], tensor)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_graphs_train_as_without_and_resume(tmp_path: Path, precision: str) -> None:
    config = replace(CONFIG, device="cuda", precision=precision, schedule=ScheduleConfig())  # type: ignore[arg-type]
    plain = train(ToyTask(), config, tmp_path / "plain")
    config = replace(config, graph=True)
    whole = train(ToyTask(), config, tmp_path / "whole")
    train(ToyTask(), replace(config, steps=25), tmp_path / "piece")
    resumed = train(ToyTask(), config, tmp_path / "piece", resume=True)
    for a, b, c in zip(*(run.model.parameters() for run in (whole, resumed, plain)), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c, atol=1e-4 if precision == "float32" else 1e-2, rtol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16", "fp16"])
def test_resuming_on_a_gpu(tmp_path: Path, precision: str) -> None:
    config = replace(CONFIG, device="cuda", precision=precision, schedule=ScheduleConfig())  # type: ignore[arg-type]
    whole = train(ToyTask(), config, tmp_path / "whole")
    train(ToyTask(), replace(config, steps=25), tmp_path / "piece")
    resumed = train(ToyTask(), config, tmp_path / "piece", resume=True)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)
