"""How long `torch.compile` takes for a training step of the Sudoku model, for several numbers of Kuramoto steps T.

    python benchmarks/compile_time.py [--record results]

Two forms are timed: T steps as one operator, as layers are compiled by default, and unrolled (`layer.one_operator =
False`). Each is compiled in a separate process with empty caches, and its first call, forward and backward, is timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMS = {"one operator": (4, 16, 64, 256), "unrolled": (4, 16)}


def compile_once(steps: int, one_operator: bool, channels: int) -> float:
    """Seconds of the first call, less those of a call without the compiler."""
    import torch
    import torch.nn.functional as F

    from akorn.nn import KuramotoLayer
    from akorn.sudoku.config import SudokuConfig
    from akorn.sudoku.model import SudokuModel

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SudokuModel(SudokuConfig(channels=channels, heads=8)).to(device)
    for layer in model.modules():
        if isinstance(layer, KuramotoLayer):
            layer.one_operator = one_operator
    puzzle = torch.randint(0, 10, (4, 81), device=device)
    target = torch.randint(0, 9, (4, 81), device=device)
    start = torch.randn(4, 81, channels, device=device)

    def call(network: torch.nn.Module) -> float:
        began = time.perf_counter()
        logits = network(puzzle, steps, x0=start)
        F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    call(model)
    eager = call(model)
    return call(torch.compile(model, fullgraph=True)) - eager


def measured(form: str, steps: int, channels: int) -> float:
    """Run `compile_once` in a separate process with empty caches."""
    with tempfile.TemporaryDirectory() as cache:
        caches = {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache, "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
        words = [sys.executable, __file__, "--one", form, str(steps), str(channels)]
        done = subprocess.run(words, env=os.environ | caches, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure all forms, print the times, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--one", nargs=3, metavar=("FORM", "T", "CHANNELS"), help="one measurement, in this process")
    words = parser.parse_args()
    if words.one is not None:
        form, steps, channels = words.one
        print(compile_once(int(steps), form == "one operator", int(channels)))
        return
    began = time.monotonic()
    metrics = {}
    for form, counts in FORMS.items():
        for steps in counts:
            metrics[f"{form}/T{steps}/s"] = measured(form, steps, words.channels)
            print(f"{form}, T = {steps}: {metrics[f'{form}/T{steps}/s']:.1f} s", flush=True)
    if words.record is not None:
        import torch

        from akorn.ledger import write_record

        path = write_record(
            "bench", "compile-time", metrics, config={"channels": words.channels, "batch": 4}, seed=0,
            data_fingerprint="none", wall_time=time.monotonic() - began,
            device="cuda" if torch.cuda.is_available() else "cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


if __name__ == "__main__":
    main()
