"""The training loop: `train` takes a task and a config, and writes checkpoints, curves and a model.

    out/
        checkpoints/step-…/     where `resume` continues
        scalars.jsonl           the curves
        tensorboard/            the same for TensorBoard
        model/                  the finished model, and how it was trained (training.json)
        record/                 the record of the finished run, if one was requested

The same call runs on one device or, under `accelerate launch`, on many. On several machines `out` must be on a disk
that they share.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from akorn.engine import checkpoint, own_record, scalars, schedule
from akorn.engine.accelerator import start
from akorn.engine.config import TrainConfig, check
from akorn.engine.order import Order
from akorn.engine.report import Report
from akorn.engine.state import TrainState
from akorn.engine.stopping import Interrupted, Stopping
from akorn.engine.task import Batch, Data, Foreseeing, Task
from akorn.errors import AkornError
from akorn.ledger import write_record, write_training
from akorn.nn.checks import NotFiniteError
from akorn.runtime import processes, randomness
from akorn.runtime.lock import only_run
from akorn.runtime.nested import flatten
from akorn.runtime.precision import numerics

MODEL = "model"  # in a run's folder
_AHEAD = 2  # batches that are read ahead, if data comes from files


@dataclass(frozen=True)
class TrainResult:
    """The result of a finished run."""

    model: nn.Module
    """In eval mode, with the averaged weights if there is an average."""
    steps: int
    loss: float
    """The last logged loss."""
    metrics: dict[str, float]
    """The last evaluation."""
    seconds: float
    """Wall time, over all parts of a resumed run."""
    checkpoint: Path
    folder: Path
    """The finished model's folder: `training.json`, and what the model's `save_pretrained` writes, if it has one."""
    record: Path | None = None
    """The path of the record, if one was requested."""


def train(
    task: Task,
    config: TrainConfig,
    out: Path,
    resume: bool = False,
    *,
    results: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> TrainResult:
    """Train the task's model and return it with its scores.

    Args:
        task: the model, its data and its loss.
        config: everything else about the run.
        out: the run's folder.
        resume: continue from the newest checkpoint in `out`, or start from scratch if there is none.
        results: a folder for a record of the finished run; None for no record.
        overrides: how the recipe was changed, by dotted names, for the record and the model's `training.json`.

    Raises:
        Interrupted: after Ctrl-C or SIGTERM; the current step was finished and a checkpoint was written.

    """
    check(config)
    accelerator = start(config)
    with numerics(config.precision, deterministic=config.deterministic, search=True), ExitStack() as held:
        started = time.monotonic()
        randomness.seed_everything(config.seed, "data")
        data = task.build_data(accelerator.device)
        fingerprint = task.fingerprint()
        order = Order(
            len(data),
            config.batch_size,
            config.seed,
            home_of_order(data, accelerator.device),
            drop_last=config.drop_last,
            process=accelerator.process_index,
            processes=accelerator.num_processes,
        )
        total = config.steps or config.epochs * order.steps_per_epoch
        state = TrainState(task, config, accelerator, total)
        _open_folder(out, resume, accelerator, held)
        folder = out / checkpoint.FOLDER
        last = checkpoint.newest(folder)
        if last:
            state.load(last, fingerprint)
        if state.step > total:
            raise AkornError(f"{last}: has {state.step} steps, more than the {total} requested")
        loss = _last_loss(out, state.step)
        metrics: dict[str, float] = {}

        def seconds() -> float:
            return state.elapsed + time.monotonic() - started

        main: bool = accelerator.is_main_process
        processes.wait()  # all processes must have read the folder before anything is written
        if main and state.step < total:
            own_record.forget(out)  # of an end that this run now goes beyond
        waits = state.device.type == "cpu"
        with (
            Report(
                task.name,
                out,
                state.step,
                total,
                tensorboard=config.tensorboard,
                main=main,
                waits=waits,
                quick=task.quick_recipe,
            ) as report,
            Stopping(config.checkpoint_minutes) as stopping,
        ):

            def score() -> dict[str, float]:
                with _diverging(state.step, folder):
                    scores = evaluate(state)
                report.scalars(state.step, seconds(), {f"eval/{n}": v for n, v in scores.items()})
                found = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
                if found:
                    report.note(f"{task.name}: scores after step {state.step}: {found}")
                return scores

            if resume:
                report.note(
                    f"{task.name}: resuming from {last}"
                    if last
                    else f"{task.name}: no checkpoint to resume from, starting from scratch"
                )
            if last and _due(state.step, config.eval_every, total):
                metrics = score()  # the checkpoint is written before its step's evaluation, which may be missing
            while state.step < total:
                rate = config.optimiser.learning_rate * schedule.factor(config.schedule, state.step, total)
                batch = data.batch(order.indices(state.step), state.generator)
                if isinstance(data, Foreseeing):
                    for later in range(state.step + 1, min(state.step + _AHEAD + 1, total)):
                        data.expect(order.indices(later))
                with _diverging(state.step + 1, folder):
                    train_step(state, batch, rate)
                step = state.step

                seen = state.meters.mean("loss") if waits else None
                logged = _due(step, config.log_every, total)
                if logged:
                    means = {**state.meters.flush(), "learning_rate": rate}
                    loss = seen = means["loss"]
                    report.scalars(step, seconds(), means)
                    if not math.isfinite(loss):
                        raise AkornError(f"the loss is {loss} at step {step}{_stopped(folder)}")
                report.step(step, seen)
                before = time.monotonic()
                save, stop = stopping.asked(logged)
                if save or _due(step, config.checkpoint_every, total):
                    state.save(folder, fingerprint, seconds())
                    stopping.saved()
                if stop:
                    raise Interrupted(stop, step, checkpoint.newest(folder) or folder)
                if _due(step, config.eval_every, total):
                    metrics = score()
                report.leave_out(time.monotonic() - before)

        model = state.best_model().eval()
        record = None
        if main:
            own = own_record.find(out, config.weights)  # of a run that had finished
            if own is None:
                own_record.forget(out)  # that of other weights
            if own is None or not (out / MODEL).is_dir():
                _leave_model(model, task, config, out / MODEL, total, overrides)
            if own is None and results is not None:
                curve = scalars.curves(scalars.read(out))
                extra = {"steps": total, "processes": accelerator.num_processes, **({"curve": curve} if curve else {})}
                own = write_record(
                    kind="train",
                    name=task.name,
                    metrics={**metrics, "loss": loss},
                    config={**asdict(config), "task": dict(task.settings())},
                    seed=config.seed,
                    data_fingerprint=fingerprint,
                    wall_time=seconds(),
                    device=str(accelerator.device),
                    overrides=overrides or {},
                    extra=extra,
                    folder=out / own_record.FOLDER,
                )  # after the model: a run that could not leave its model has not ended, and will be resumed
            if own is not None and results is not None:
                record = own_record.share(own, results)
        final = checkpoint.newest(folder)
        if final is None:  # the main process has written one
            raise AkornError(f"{folder}: there is no checkpoint; is it on a disk that all machines share?")
        return TrainResult(model, total, loss, metrics, seconds(), final, out / MODEL, record)


def train_step(state: TrainState, batch: Batch, learning_rate: float) -> None:
    """Take one step of the optimiser.

    Nothing here waits for the device, except where one of several processes leaves a parameter without a gradient.
    """
    accelerator, config = state.accelerator, state.config
    loss, extra = state.backward(batch, state.task.choose())
    processes.average_gradients(state.parameters)
    logged: dict[str, Tensor] = {"loss": loss, **extra}
    if config.optimiser.clip:
        logged["gradient_norm"] = accelerator.clip_grad_norm_(state.parameters, config.optimiser.clip)
    for group in state.optimiser.param_groups:
        group["lr"] = learning_rate
    state.optimiser.step()
    state.optimiser.zero_grad()
    state.step += 1
    # Running statistics are copied from the main process, as in DDP, so that all processes have the same model.
    processes.copy_from_main(state.buffers)
    if state.ema:
        state.ema.update(state.model, state.step)
    state.meters.add(logged)


@torch.no_grad()
def evaluate(state: TrainState) -> dict[str, float]:
    """Return the task's scores of the averaged model, without an effect on training."""
    model = state.best_model()
    with randomness.undisturbed(state.device):
        model.eval()
        metrics = {name: float(value) for name, value in state.task.evaluate(model).items()}
    state.model.train()
    return metrics


def _leave_model(
    model: nn.Module, task: Task, config: TrainConfig, folder: Path, steps: int, overrides: Mapping[str, Any] | None
) -> None:
    """Write the finished model, if it can save itself, and how it was trained."""
    save: Callable[[Path], object] | None = getattr(model, "save_pretrained", None)
    if save is not None:
        save(folder)
    write_training(
        folder, recipe=task.name, seed=config.seed, precision=config.precision, weights=config.weights, steps=steps,
        overrides=overrides, ema=asdict(config.ema) if config.ema.decay else None,
        data=flatten(task.settings().get("data") or {}),
    )  # fmt: skip


def home_of_order(data: Data, device: torch.device) -> torch.device:
    """The device for the samples' indices: that of the data, or the CPU if the data is read from files."""
    return torch.device("cpu") if isinstance(data, Foreseeing) else device


@contextmanager
def _diverging(step: int, folder: Path) -> Iterator[None]:
    """Report NaN in a layer like a loss that is NaN."""
    try:
        yield
    except NotFiniteError as error:
        raise AkornError(f"the loss is nan at step {step}{_stopped(folder)} ({error})") from error


def _stopped(folder: Path) -> str:
    last = checkpoint.newest(folder)
    kept = f"the last checkpoint is {last}" if last else "there is no checkpoint yet"
    return f": training stopped, {kept}; a lower learning rate may help"


def _due(step: int, every: int, total: int) -> bool:
    return step == total or (every > 0 and step % every == 0)


def _open_folder(out: Path, resume: bool, accelerator: Any, held: ExitStack) -> None:
    """Create the run's folder and hold its lock, or refuse to overwrite another run."""
    if not resume and ((out / scalars.FILE).exists() or checkpoint.newest(out / checkpoint.FOLDER)):
        raise AkornError(f"{out}: this folder already has a run; continue it with --resume or choose another folder")
    processes.wait()  # all processes must have looked before one creates the folder
    if accelerator.is_main_process:
        try:
            (out / checkpoint.FOLDER).mkdir(parents=True, exist_ok=True)
            held.enter_context(only_run(out))
            checkpoint.sweep(out / checkpoint.FOLDER)
        except OSError as error:
            raise AkornError(f"{out}: the run's folder cannot be created ({error.strerror or error})") from error
    processes.wait()


def _last_loss(out: Path, step: int) -> float:
    """Return the last loss logged up to a step, if any."""
    if not step or not (out / scalars.FILE).exists():
        return math.nan
    losses = [row["loss"] for row in scalars.read(out) if row["step"] <= step and "loss" in row]
    return float(losses[-1]) if losses else math.nan
