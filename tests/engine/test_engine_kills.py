"""Twenty kills at random moments, by SIGKILL, SIGTERM and Ctrl-C: the run that is resumed each time ends as if nothing
had happened.
"""

import multiprocessing
import os
import random
import signal
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from engine_launch import PATIENCE, assert_same_run, environment
from engine_toy import CONFIG, ToyTask

from akorn.engine import Interrupted, TrainConfig, checkpoint, train

KILLS = 20
LONG = replace(CONFIG, epochs=60, checkpoint_every=3)  # with pauses longer than all the times to the kills together
STEPS = 720


def attempt(out: Path, config: TrainConfig, started: Connection) -> None:
    """Train in a separate process, as `akorn train` does; exits with the signal's status if it was asked to stop."""
    torch.set_num_threads(1)
    started.send("importing is over")
    try:
        train(ToyTask(pause=0.003), config, out, resume=True)
    except Interrupted as stopped:
        sys.exit(stopped.status)
    except KeyboardInterrupt:  # before the loop, or a second time
        sys.exit(130)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs a fork server")
def test_twenty_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(ToyTask(), LONG, tmp_path / "whole")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["akorn.engine.loop", "torch._dynamo"])  # which torch imports late
    draw = random.Random(0)
    folder = tmp_path / "killed" / checkpoint.FOLDER
    steps = [0]
    for number in range(KILLS + 1):
        by = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number % 3]
        listen, started = server.Pipe(duplex=False)
        child = server.Process(target=attempt, args=(tmp_path / "killed", LONG, started))
        child.start()
        try:
            assert listen.poll(PATIENCE)
            if number < KILLS:
                time.sleep(draw.uniform(0, 0.1))
                assert child.pid is not None
                os.kill(child.pid, by)
            child.join(PATIENCE)
        finally:
            child.kill()
            child.join()
        if number < KILLS:
            assert child.exitcode in (-by, 128 + by)
        else:
            assert child.exitcode == 0
        last = checkpoint.newest(folder)
        steps.append(0 if last is None else checkpoint.load(last).step)  # what is there is whole
        print(f"{by.name}: ended after step {steps[-1]}")
    assert steps == sorted(steps)  # nothing that was there is lost
    assert 0 < steps[KILLS] < STEPS
    assert_same_run(tmp_path / "whole", tmp_path / "killed", steps=STEPS)
    assert not [path for path in folder.iterdir() if path.name.startswith(".tmp")]
