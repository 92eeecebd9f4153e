"""Time and memory of a Sudoku training step (batch 100, T = 16, TF32) on a GPU: plain, and with a compiled step.

python benchmarks/train_gpu.py [--record results]
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from akorn.bench.measure import measure
from akorn.ledger import write_record
from akorn.sudoku.model import SudokuModel

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--steps", type=int, default=16)
    words = parser.parse_args()
    started = time.monotonic()
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = SudokuModel().to(device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=device.type == "cuda")
    puzzle = torch.randint(0, 10, (words.batch, 81), device=device)
    solution = torch.randint(0, 9, (words.batch, 81), device=device)

    def step() -> None:
        logits = model(puzzle, words.steps)
        F.cross_entropy(logits.flatten(0, 1), solution.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    plain = measure({"plain": step}, device, 10)["plain"]
    print(f"plain: {plain.seconds * 1e3:.1f} ms, {plain.peak_bytes / 2**30:.2f} GiB", flush=True)
    model.compile_step()
    began = time.monotonic()
    step()
    compile_seconds = time.monotonic() - began
    compiled = measure({"compiled": step}, device, 20)["compiled"]
    print(
        f"compiled: {compiled.seconds * 1e3:.1f} ms, {compiled.peak_bytes / 2**30:.2f} GiB,"
        f" first call {compile_seconds:.1f} s"
    )
    if words.record is not None:
        metrics = {
            "plain_ms": plain.seconds * 1e3,
            "compiled_ms": compiled.seconds * 1e3,
            "plain_gib": plain.peak_bytes / 2**30,
            "compiled_gib": compiled.peak_bytes / 2**30,
            "compile_seconds": compile_seconds,
        }
        config = {"batch": words.batch, "steps": words.steps, "precision": "tf32"}
        path = write_record(
            "bench", "sudoku-training-step", metrics, config=config, seed=0, data_fingerprint="none",
            wall_time=time.monotonic() - started, device=str(device), folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")
