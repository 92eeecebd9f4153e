"""Start the toy in separate processes, and compare what runs have left behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from akorn.engine import checkpoint, scalars

TOY = Path(__file__).with_name("engine_toy.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
STEPS = 60
PATIENCE = 120.0  # seconds
PRELOAD = ["akorn.engine.loop", "torch._dynamo"]
"""What a fork server imports once for all its children; an optimiser imports the last, which takes a second."""


def environment(gpu: str = "") -> dict[str, str]:
    """One thread, and one GPU, of that number, or none."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": gpu}


def launch(processes: int, out: Path, *options: str, gpu: str = "") -> list[int]:
    """Run the toy in several processes; when one ends badly, kill the others, as a launcher does."""
    # The store where the processes meet lives here, as in torch's launcher: it binds a port and keeps it. A port that
    # is looked up, closed and handed on may be somebody else's by the time a process gets to it.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {
        **{
            "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
        },
        **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"},
    }
    running: list[subprocess.Popen[bytes]] = []
    logs = [out.parent / f"{out.name}-{rank}.log" for rank in range(processes)]
    try:
        for rank, log in enumerate(logs):
            own = {**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
            command = [sys.executable, str(TOY), str(out), *options]
            with log.open("ab") as handle:  # into a file: a full pipe would block the process
                running.append(subprocess.Popen(command, env={**environment(gpu), **own}, stdout=handle, stderr=handle))
        deadline = time.monotonic() + PATIENCE
        while any(process.poll() is None for process in running):
            # Those that were asked to stop end together, with a signal's status.
            if any(process.returncode not in (None, 0, 130, 143) for process in running):
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        codes = [process.wait() for process in running]
    if any(codes):
        print(*(f"{log.name}: {code}\n{log.read_text()}" for log, code in zip(logs, codes, strict=True)), sep="\n")
    return codes


def everything(out: Path, steps: int = STEPS) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint: weights, average, optimiser, random states of every process."""
    found = checkpoint.load(checkpoint.newest(out / checkpoint.FOLDER))
    assert found.step == steps
    return {f"{group}:{name}": t for group, tensors in found.groups.items() for name, t in tensors.items()}


def curve(out: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in scalars.read(out)]


def assert_same_run(a: Path, b: Path, processes: int = 1, steps: int = STEPS) -> None:
    first, second = everything(a, steps), everything(b, steps)
    assert first.keys() == second.keys()
    assert {n.split("/")[0] for n in first if n.endswith("/generator")} == {
        f"processes:{rank}" for rank in range(processes)
    }
    assert {"model:0.weight", "ema:0.weight", "optimiser:exp_avg/0.weight"} <= first.keys()
    different = [n for n in first if first[n].numpy().tobytes() != second[n].numpy().tobytes()]
    assert not different
    assert curve(a) == curve(b)
