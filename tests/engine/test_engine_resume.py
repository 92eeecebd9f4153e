"""A run that is really killed (SIGKILL) and resumed ends exactly where an undisturbed one ends."""

import multiprocessing
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from engine_launch import PATIENCE, PRELOAD, STEPS, TOY, assert_same_run, environment, launch
from engine_toy import CONFIG, ToyTask

from akorn.engine import TrainConfig, checkpoint, scalars, train


def attempt(out: Path, config: TrainConfig, hold_at: int, started: Connection) -> None:
    """Train in a separate process, at most up to the step before `hold_at`, and wait there for the end."""
    torch.set_num_threads(1)
    started.send("importing is over")
    train(ToyTask(pause=0.003, hold_at=hold_at), config, out, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_and_resumed_is_bit_identical(tmp_path: Path, processes: int, request: pytest.FixtureRequest) -> None:
    kill_at = random.SystemRandom().randint(11, STEPS)
    print(f"killed at step {kill_at}")
    if processes == 1:
        whole = tmp_path / "whole"
        train(ToyTask(), CONFIG, whole)
    else:
        whole = request.getfixturevalue("undisturbed")

    options = [f"kill_at={kill_at}", f"kill_rank={processes - 1}"]
    codes = launch(processes, tmp_path / "killed", *options)
    assert codes[-1] == -signal.SIGKILL
    assert checkpoint.newest(tmp_path / "killed" / checkpoint.FOLDER).name != f"step-{STEPS:08d}"
    assert launch(processes, tmp_path / "killed", "resume=1") == [0] * processes
    assert_same_run(whole, tmp_path / "killed", processes)
    logs = [log.read_text().splitlines() for folder in {tmp_path, whole.parent} for log in folder.glob("*.log")]
    models = {line for lines in logs for line in lines if line.startswith("model ")}
    assert len(models) == 1  # every process ends with the same weights and running statistics
    # Gloo's threads, where they outlive Python, make a process abort now and then.
    assert {lines[-1] for lines in logs} == {"gloo threads at exit: []"}


@pytest.mark.slow
@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="needs a fork server")
def test_killed_from_outside_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are killed after random times: while training, writing, sweeping up."""
    config = replace(CONFIG, checkpoint_every=2)
    train(ToyTask(), config, tmp_path / "whole")
    # A fork server has torch loaded but has run nothing: its children are quick to start and inherit no threads.
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOAD)
    draw = random.SystemRandom()
    kills = 5
    for kill in [True] * kills + [False]:
        # However late the kill, it finds a run at work: five attempts of at most 11 steps do not make 60.
        hold_at = (STEPS - 1) // kills + 1 if kill else 0
        listen, started = server.Pipe(duplex=False)
        child = server.Process(target=attempt, args=(tmp_path / "killed", config, hold_at, started))
        child.start()
        try:
            assert listen.poll(PATIENCE)
            if kill:
                time.sleep(draw.uniform(0, 0.1))
            else:
                child.join(PATIENCE)
        finally:
            child.kill()
            child.join()
        assert child.exitcode == (-signal.SIGKILL if kill else 0)
        print(f"ended after {checkpoint.newest(tmp_path / 'killed' / checkpoint.FOLDER)}")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    leftovers = [p.name for p in (tmp_path / "killed" / checkpoint.FOLDER).iterdir() if p.name.startswith(".tmp")]
    assert not leftovers


@pytest.mark.slow
def test_two_processes_under_a_launcher_learn_as_one(tmp_path: Path) -> None:
    assert launch(1, tmp_path / "one", "random=0", "log_every=1") == [0]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
        *("--standalone", "--local-addr", "127.0.0.1"),  # takes a free port and keeps it
        *(str(TOY), str(tmp_path / "two"), "random=0", "log_every=1"),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    one = [row["loss"] for row in scalars.read(tmp_path / "one") if "loss" in row]
    two = [row["loss"] for row in scalars.read(tmp_path / "two") if "loss" in row]
    assert len(one) == STEPS
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=1e-4, atol=1e-6)
    sizes = [row["size"] for row in scalars.read(tmp_path / "two") if "size" in row]
    assert set(sizes) == {CONFIG.batch_size / 2}  # it really was shared
