"""A run that is really killed (SIGKILL) and resumed ends exactly where an undisturbed one ends."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import CONFIG, ToyTask

from akorn.engine import checkpoint, scalars, train

TOY = Path(__file__).with_name("engine_toy.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
STEPS = 60


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def launch(processes: int, out: Path, *options: str) -> list[int]:
    """Run the toy in several processes; when one ends badly, kill the others, as a launcher does."""
    world = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    running = []
    for rank in range(processes):
        own = {**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        command = [sys.executable, str(TOY), str(out), *options]
        # output into a file: a full pipe would block the process
        with (out.parent / f"{out.name}-{rank}.log").open("ab") as log:
            running.append(subprocess.Popen(command, env={**environment(), **own}, stdout=log, stderr=log))
    codes = []
    for process in reversed(running):  # the one that kills itself is the last
        codes.append(process.wait(timeout=120))
        if codes[-1]:
            for other in running:
                if other.poll() is None:
                    other.kill()
    return codes[::-1]


def everything(out: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint: weights, average, optimiser, random states of every process."""
    found = checkpoint.load(checkpoint.newest(out / checkpoint.FOLDER))
    assert found.step == STEPS
    return {f"{group}:{name}": t for group, tensors in found.groups.items() for name, t in tensors.items()}


def curve(out: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in scalars.read(out)]


def assert_same_run(a: Path, b: Path, processes: int = 1) -> None:
    first, second = everything(a), everything(b)
    assert first.keys() == second.keys()
    assert {n.split("/")[0] for n in first if n.endswith("/generator")} == {
        f"processes:{rank}" for rank in range(processes)
    }
    assert {"model:0.weight", "ema:0.weight", "optimiser:exp_avg/0.weight"} <= first.keys()
    different = [n for n in first if first[n].numpy().tobytes() != second[n].numpy().tobytes()]
    assert not different
    assert curve(a) == curve(b)


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_and_resumed_is_bit_identical(tmp_path: Path, processes: int) -> None:
    kill_at = random.SystemRandom().randint(11, STEPS)
    print(f"killed at step {kill_at}")
    if processes == 1:
        train(ToyTask(), CONFIG, tmp_path / "whole")
    else:
        assert launch(processes, tmp_path / "whole") == [0] * processes

    options = [f"kill_at={kill_at}", f"kill_rank={processes - 1}"]
    codes = launch(processes, tmp_path / "killed", *options)
    assert codes[-1] == -signal.SIGKILL
    assert checkpoint.newest(tmp_path / "killed" / checkpoint.FOLDER).name != f"step-{STEPS:08d}"
    assert launch(processes, tmp_path / "killed", "resume=1") == [0] * processes
    assert_same_run(tmp_path / "whole", tmp_path / "killed", processes)
    models = {line for log in tmp_path.glob("*.log") for line in log.read_text().splitlines() if "model " in line}
    assert len(models) == 1  # every process ends with the same weights and running statistics


@pytest.mark.skipif(sys.platform != "linux", reason="forks a process that has torch loaded")
def test_killed_from_outside_at_any_moment(tmp_path: Path) -> None:
    """Forked children (quick to start) are killed after random times: while training, writing, sweeping up."""
    config = replace(CONFIG, checkpoint_every=2)
    train(ToyTask(), config, tmp_path / "whole")
    draw = random.SystemRandom()
    for kill in (True, True, True, True, True, False):
        child = os.fork()
        if child == 0:
            try:
                train(ToyTask(pause=0.003), config, tmp_path / "killed", resume=True)
                os._exit(0)
            finally:
                os._exit(1)  # not into pytest
        if kill:
            time.sleep(draw.uniform(0, 0.15))  # a whole run pauses for 0.18 s
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) if kill else os.WEXITSTATUS(status) == 0
        print(f"killed after {checkpoint.newest(tmp_path / 'killed' / checkpoint.FOLDER)}")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    leftovers = [p.name for p in (tmp_path / "killed" / checkpoint.FOLDER).iterdir() if p.name.startswith(".tmp")]
    assert not leftovers


def test_two_processes_under_a_launcher_learn_as_one(tmp_path: Path) -> None:
    assert launch(1, tmp_path / "one", "random=0", "log_every=1") == [0]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
        *("--master_addr", "127.0.0.1", "--master_port", str(free_port())),
        *(str(TOY), str(tmp_path / "two"), "random=0", "log_every=1"),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    one = [row["loss"] for row in scalars.read(tmp_path / "one") if "loss" in row]
    two = [row["loss"] for row in scalars.read(tmp_path / "two") if "loss" in row]
    assert len(one) == STEPS
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=1e-4, atol=1e-6)
    sizes = [row["size"] for row in scalars.read(tmp_path / "two") if "size" in row]
    assert set(sizes) == {CONFIG.batch_size / 2}  # it really was shared
