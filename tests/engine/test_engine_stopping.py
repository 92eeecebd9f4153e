"""Ctrl-C and SIGTERM: the run stops at a checkpoint, says so by its status, and can be resumed as if nothing had
happened.
"""

import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from engine_launch import PATIENCE, PRELOAD, STEPS, assert_same_run, environment, launch
from engine_toy import CONFIG, ToyTask
from torch import nn

from akorn.engine import Interrupted, TrainConfig, checkpoint, train
from akorn.engine.config import check
from akorn.engine.state import TrainState
from akorn.errors import AkornError

NEVER = replace(CONFIG, checkpoint_every=0, checkpoint_minutes=0)
needs_forkserver = pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="needs a fork server"
)


class Telling(ToyTask):
    """Reports at its first loss that the loop is running."""

    def __init__(self, started: Connection, **options: float) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.started = started

    def loss(self, model: nn.Module, *rest: object) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        if not self.calls:
            self.started.send("the loop runs")
        return super().loss(model, *rest)  # type: ignore[arg-type]


def attempt(out: Path, config: TrainConfig, early: bool, hold_at: int, started: Connection) -> None:
    """Train in a separate process, whose status says how it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    task = ToyTask(pause=0.1) if early else Telling(started, pause=0.03, hold_at=hold_at)
    if early:
        started.send("importing is over")
    try:
        train(task, config, out, resume=True)
    except Interrupted as stopped:
        sys.exit(stopped.status)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> multiprocessing.context.ForkServerContext:
    """A fork server has torch loaded but has run nothing: its children are quick to start and inherit no threads."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


@pytest.mark.slow
@needs_forkserver
def test_stopped_a_dozen_times_and_resumed_is_bit_identical(
    tmp_path: Path, server: multiprocessing.context.ForkServerContext
) -> None:
    """Without checkpoints by steps or by the clock: the run resumes from what the signals left."""
    train(ToyTask(), NEVER, tmp_path / "whole")
    draw = random.SystemRandom()
    # The loop is at work when the first ten are stopped; four more are hit while starting, or soon after.
    plan = [(signal.SIGINT, False), (signal.SIGTERM, False)] * 5 + [(signal.SIGINT, True), (signal.SIGTERM, True)] * 2
    draw.shuffle(plan)
    reached = 0
    for number, early in [*plan, (None, False)]:
        listen, started = server.Pipe(duplex=False)
        child = server.Process(target=attempt, args=(tmp_path / "stopped", NEVER, early, 0, started))
        child.start()
        try:
            assert listen.poll(PATIENCE)
            if number is not None:
                time.sleep(draw.uniform(0, 0.1))
                os.kill(child.pid, number)
            child.join(PATIENCE)
        finally:
            child.kill()
            child.join()
        last = checkpoint.newest(tmp_path / "stopped" / checkpoint.FOLDER)
        step = int(last.name.removeprefix("step-")) if last else 0
        print(f"{number!r} {'early' if early else ''}: status {child.exitcode}, step {reached} → {step}")
        if number is None:
            assert child.exitcode == 0
        elif child.exitcode == 128 + number:
            assert step > reached  # nothing is lost: the checkpoint is that of the step it stopped at
        else:  # before the loop the signal does what it always does, and there was nothing to lose
            assert early
            assert child.exitcode in (-number, 1)
            assert step == reached
        reached = step
    assert reached == STEPS
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_stop_at_the_same_step(tmp_path: Path, number: int, undisturbed: Path) -> None:
    options = ["kill_at=23", f"kill_by={int(number)}", "kill_rank=1"]
    assert launch(2, tmp_path / "stopped", *options) == [128 + number] * 2
    assert checkpoint.newest(tmp_path / "stopped" / checkpoint.FOLDER).name == "step-00000023"
    assert launch(2, tmp_path / "stopped", "resume=1") == [0, 0]
    assert_same_run(undisturbed, tmp_path / "stopped", processes=2)


@pytest.mark.slow
@needs_forkserver
def test_a_second_signal_leaves_at_once(tmp_path: Path, server: multiprocessing.context.ForkServerContext) -> None:
    listen, started = server.Pipe(duplex=False)
    child = server.Process(target=attempt, args=(tmp_path, NEVER, False, 1, started))  # its first step takes minutes
    child.start()
    try:
        assert listen.poll(PATIENCE)
        os.kill(child.pid, signal.SIGINT)
        time.sleep(1.5)  # longer than a repeated signal counts as the same one
        assert child.is_alive()  # it would finish its step
        os.kill(child.pid, signal.SIGINT)
        child.join(60)
        assert child.exitcode == 1  # a KeyboardInterrupt that nobody caught
    finally:
        child.kill()
        child.join()
    assert checkpoint.newest(tmp_path / checkpoint.FOLDER) is None


def test_in_python_it_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt) as caught:
        train(ToyTask(kill_at=12, kill_by=signal.SIGTERM), NEVER, tmp_path)
    stopped = caught.value
    assert isinstance(stopped, Interrupted)
    assert (stopped.step, stopped.status) == (12, 143)
    assert stopped.checkpoint == tmp_path / "checkpoints" / "step-00000012"
    assert "SIGTERM after step 12" in str(stopped)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class Insisting(ToyTask):
    """Gets its signal twice in a row, as from `timeout`, which signals the program and then its whole group."""

    def loss(self, *arguments: object) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        if self.calls + 1 == self.kill_at:
            os.kill(os.getpid(), self.kill_by)
        return super().loss(*arguments)  # type: ignore[arg-type]


def test_a_signal_sent_twice_at_once_is_one(tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as caught:
        train(Insisting(kill_at=12, kill_by=signal.SIGTERM), NEVER, tmp_path)
    assert caught.value.step == 12
    assert checkpoint.newest(tmp_path / checkpoint.FOLDER) is not None


def test_stopped_at_the_last_step_the_rest_is_done_later(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train(ToyTask(kill_at=STEPS, kill_by=signal.SIGTERM), NEVER, tmp_path / "stopped")
    resumed = train(ToyTask(), NEVER, tmp_path / "stopped", resume=True)
    assert resumed.metrics == train(ToyTask(), NEVER, tmp_path / "whole").metrics
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    seen: list[object] = []

    class Peek(ToyTask):
        def evaluate(self, model: nn.Module) -> dict[str, float]:
            seen.append(signal.getsignal(signal.SIGTERM))
            return super().evaluate(model)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: train(Peek(), replace(NEVER, steps=2), tmp_path))
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(("minutes", "steps"), [(1e-9, [1, 2, 3, 4, 5, 6]), (0.0, [6]), (10.0, [6])])
def test_checkpoints_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, steps: list[int]
) -> None:
    saved: list[int] = []
    save = TrainState.save

    def noted(state: TrainState, *rest: object) -> Path | None:
        saved.append(state.step)
        return save(state, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TrainState, "save", noted)
    train(ToyTask(), replace(NEVER, steps=6, checkpoint_minutes=minutes), tmp_path)
    assert saved == steps


@pytest.mark.parametrize("minutes", [-1.0, float("inf"), float("nan")])
def test_impossible_minutes(minutes: float) -> None:
    with pytest.raises(AkornError, match="checkpoint_minutes"):
        check(replace(CONFIG, checkpoint_minutes=minutes))


@pytest.mark.parametrize("size", [float("inf"), float("nan"), 1e303, 0.0])
def test_impossible_sizes_of_files(size: float) -> None:
    with pytest.raises(AkornError, match="shard_mb"):
        check(replace(CONFIG, shard_mb=size))
