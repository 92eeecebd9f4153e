"""Memory against the number of steps: solving must not need more with more steps, nor training with recomputation.

    python benchmarks/memory.py [--device cuda] [--record results]

prints the table of `akorn bench` for T = 16, 64 and 512: look down the column "peak MiB". The state is small, since
only the growth counts, and on a CPU torch's profiler lists every allocation of every step.
"""

import argparse
from pathlib import Path

from akorn.cli.bench import Options, run

STEPS = (16, 64, 512)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    couplings = ("conv2d-5", "attention-gta")
    run(Options(device=words.device, couplings=couplings, batch=1, channels=(32,), steps=STEPS, repeats=1,
                record=words.record))  # fmt: skip
