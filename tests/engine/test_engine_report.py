"""What a run reports: the bar moves at every step, and soon there is an estimate of the time and advice."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from engine_toy import CONFIG, ToyTask
from rich.console import Console

from akorn.engine import train
from akorn.engine.report import Report
from akorn.engine.speed import Speed
from akorn.runtime.progress import Bar


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("akorn.engine.speed.monotonic", made)
    monkeypatch.setattr("akorn.engine.report.monotonic", made)
    return made


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []

    def move(bar: Bar, done: int, total: int | None = None, *, remark: str = "") -> None:
        seen.append((done, remark))

    monkeypatch.setattr(Bar, "__call__", move)
    return seen


def said(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, out: Path, seconds: list[float], **options: object
) -> list[str]:
    """The lines of a run whose steps take this long, if stderr is not a terminal."""
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    monkeypatch.setattr("akorn.engine.report.Console", lambda stderr: console)
    settings = {"total": len(seconds), "waits": True, "quick": "toy_quick", **options}
    with Report("toy", out, 0, tensorboard=False, main=True, **settings) as report:  # type: ignore[arg-type]
        for step, duration in enumerate(seconds, start=1):
            clock.now += duration
            report.step(step, 0.5)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_bar_moves_at_every_step(tmp_path: Path, moves: list[tuple[int, str]]) -> None:
    train(ToyTask(pause=0.11), replace(CONFIG, steps=6, log_every=50), tmp_path)
    assert [done for done, _ in moves] == [0, 1, 2, 3, 4, 5, 6]
    assert "loss" in moves[1][1]  # on a CPU it is known at once
    assert "left" in moves[-1][1]


def test_a_quick_run_does_not_wait_for_the_bar(tmp_path: Path, clock: Clock, moves: list[tuple[int, str]]) -> None:
    with Report("toy", tmp_path, 0, 100, tensorboard=False, main=True, waits=True) as report:
        for step in range(1, 101):
            clock.now += 0.01
            report.step(step, None)
    assert moves[-1][0] == 100
    assert 8 <= len(moves) <= 13


def test_without_a_terminal_a_line_comes_soon_and_then_every_half_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    lines = said(monkeypatch, clock, tmp_path, [30.0] + [1.0] * 69)
    steps = [int(line.split()[2].split("/")[0]) for line in lines]
    assert steps == [2, 33, 64, 70]  # the first step, which compiles, has taken long enough
    assert lines[0] == "toy: step 2/70  loss 0.5  1 steps/s  0:01:08 left"


def test_runs_of_hours_on_a_cpu_get_advice_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    lines = said(monkeypatch, clock, tmp_path, [20.0, *[7.0] * 8], total=9000)
    (advice,) = [line for line in lines if "step " not in line]
    assert advice.startswith("toy: about 17 hours for 8998 steps of 7 s on this CPU: use a GPU, or try")
    assert "`akorn train toy_quick`" in advice
    assert "Ctrl-C" in advice


@pytest.mark.parametrize(
    ("left", "waits", "words"),
    [(10, True, None), (700, True, "about 12 minutes"), (400_000, False, "about 5 days"), (700, False, "about 12")],
)
def test_what_is_not_hours_on_a_cpu_gets_none(clock: Clock, left: int, waits: bool, words: str | None) -> None:
    speed = Speed(0, waits=waits)
    for step in range(1, 8):
        clock.now += 1.0
        speed.measure(step)
    told = speed.estimate(left, "toy_quick")
    assert (told is None) == (words is None)
    if told and words:
        assert words in told
        assert "GPU" not in told


def test_speed_leaves_out_the_first_step_and_what_is_not_training(clock: Clock) -> None:
    speed = Speed(5, waits=True)
    assert speed.remark(3) == "… steps/s"
    clock.now += 50.0
    speed.measure(6)
    assert not speed.known  # one step, and it has compiled
    for step in range(7, 12):
        clock.now += 1.0  # an evaluation, say
        speed.leave_out(1.0)
        clock.now += 2.0
        speed.measure(step)
    assert speed.known
    assert speed.seconds == pytest.approx(2.0)
    assert speed.remark(30) == "0.5 steps/s  0:01:00 left"
