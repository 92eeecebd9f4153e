"""`python tests/fuzz/run.py --inputs 3000 --seed 0`: bad input for every reader and command; prints what broke."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.cases import Generator
from fuzz.harness import Finding, Runner
from fuzz.seeds import write_seeds


def fuzz(inputs: int, seed: int, seconds: float = 60.0, skip: int = 0) -> tuple[Counter[str], list[Finding]]:
    """Run this many cases; returns how many there were of each kind, and what was found."""
    kinds: Counter[str] = Counter()
    found = []
    with tempfile.TemporaryDirectory() as name:
        seeds = Path(name, "seeds")
        write_seeds(seeds)
        runner = Runner(seeds, seconds)
        for case in islice(Generator(seeds, seed), skip, inputs):
            kinds[case.kind.split()[0]] += 1
            finding = runner.run(case)
            if finding is not None:
                found.append(finding)
                print(finding, flush=True)
        runner.close()
    return kinds, found


def main() -> None:
    """Fuzz, and exit with status 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
    parser.add_argument("--seconds", type=float, default=60.0, help="what takes longer hangs")
    options = parser.parse_args()
    start = time.monotonic()
    kinds, found = fuzz(options.inputs, options.seed, options.seconds, options.skip)
    print(f"{kinds.total()} inputs in {time.monotonic() - start:.0f} s: {dict(kinds)}")
    print(f"{len(found)} findings: {dict(Counter(finding.what for finding in found))}")
    print(dict(Counter(f"{finding.what}, {finding.case.kind}" for finding in found)))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
