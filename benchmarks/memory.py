"""Memory and the number of steps: more steps must not need more memory in solving, nor in training with recomputation.

    python benchmarks/memory.py [--device cuda] [--record results]

This prints the table of `akorn bench` for T = 16, 64 and 512: look down the column "peak MiB". State and coupling are
small, since only the growth matters, and that comes from the loop. On a CPU torch's profiler lists every operation of
every step, which takes about 1 GB for T = 512.
"""

import argparse
from pathlib import Path

from akorn.bench.commands.bench import Options, run

STEPS = (16, 64, 512)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    run(Options(device=words.device, couplings=("dense",), batch=1, channels=(32,), steps=STEPS, repeats=1,
                record=words.record))  # fmt: skip
