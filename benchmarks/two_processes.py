"""The five tasks that `akorn bench` times, in two processes and in one, with and without CUDA graphs.

    python benchmarks/two_processes.py [--precision bf16] [--record results]

Each of two processes has half of the batch, or of the boards. If there is only one GPU, they share it and exchange
gradients by gloo; then this says what graphs gain with several processes, not how two GPUs scale. If there are two,
each process takes one.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from akorn.bench import nets
from akorn.bench.nets import Setup
from akorn.bench.work import Form, Piece
from akorn.execution import graphed
from akorn.ledger import write_record
from akorn.runtime.devices import leave_at_exit
from akorn.runtime.precision import numerics
from akorn.runtime.processes import average_gradients

WORKS = ("sudoku", "shapes", "clevrtex", "cifar", "vote")


def main() -> None:
    """Measure in one process, then in two, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--precision", choices=("tf32", "bf16"), default="bf16")
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    started = time.monotonic()
    metrics: dict[str, float] = {}
    for count in (1, 2):
        found = _start(count, words)
        metrics |= {f"{key}/{_named(count)}/ms": value for key, value in found.items()}
    for key, value in metrics.items():
        print(f"{value:10.2f} ms  {key.removesuffix('/ms')}")
    if words.record is not None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        path = write_record(
            "bench", "two-processes", metrics, config={"precision": words.precision, "size": words.size}, seed=0,
            data_fingerprint="none", wall_time=time.monotonic() - started, device=device, folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


def _named(count: int) -> str:
    return "one process" if count == 1 else "two processes"


def _start(count: int, words: argparse.Namespace) -> dict[str, float]:
    """Run `count` processes; returns what the first of them measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    manager = mp.Manager()
    found = manager.dict()
    mp.spawn(_process, (count, port, vars(words), found), nprocs=count)
    return dict(found)


def _process(rank: int, count: int, port: int, words: dict[str, Any], found: Any) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(count)}
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if count > 1:
        leave_at_exit()
        dist.init_process_group("nccl" if gpus >= count else "gloo", rank=rank, world_size=count)
    setup = Setup(words["size"], device, 4, False, False, words["precision"])
    with numerics(words["precision"], search=True):
        for name in words["works"]:
            torch.manual_seed(0)
            (piece,) = getattr(nets, name)(setup)
            for label, seconds in _times(piece, setup, rank, count).items():
                found[f"{name}/{label}"] = 1e3 * seconds
    if count > 1:
        dist.barrier()


def _times(piece: Piece, setup: Setup, rank: int, count: int) -> dict[str, float]:
    """Seconds per step, or per board of the vote, with kernels: eager, and as a graph."""
    form = piece.forms.get("fused") or Form(next(iter(piece.forms.values())).forward)
    if piece.whole is not None:  # the vote divides the boards among processes by itself
        whole = piece.whole
        with torch.no_grad():
            return {"eager": _median(lambda: whole(form), setup.device) / piece.per}
    inputs = tuple(part.chunk(count)[rank].detach() for part in piece.inputs)
    parameters = list(piece.net.parameters())
    on_gpu = setup.device.type == "cuda"
    optimiser = torch.optim.Adam(parameters, 1e-4, fused=on_gpu)

    def loss(*inputs: torch.Tensor) -> torch.Tensor:
        narrow = torch.autocast(setup.device.type, torch.bfloat16) if setup.precision == "bf16" else nullcontext()
        with narrow:
            out = form.forward(piece.net, inputs, piece.steps)
            assert piece.loss is not None
            return piece.loss(out, inputs)

    step = graphed(loss, piece.net)

    def eager() -> None:
        optimiser.zero_grad()
        loss(*inputs).backward()
        finish()

    def graph() -> None:
        step(*inputs)
        finish()

    def finish() -> None:
        average_gradients(parameters)
        optimiser.step()

    return {"eager": _median(eager, setup.device), "graph": _median(graph, setup.device)}


def _median(work: Any, device: torch.device, repeats: int = 10) -> float:
    """The median wall time, since processes exchange gradients through the host."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
