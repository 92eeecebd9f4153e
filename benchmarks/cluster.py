"""Our average linkage beside SciPy's, on the same points and the same cores.

    OMP_NUM_THREADS=2 python benchmarks/cluster.py [--pictures 32] [--patches 1600] [--features 128] [--threads 2]
        [--device cuda] [--record results]

The points come from two kinds of pictures: patches of a few objects with noise, and no structure at all. SciPy's
`linkage` runs in a loop, as people usually call it, and in as many threads as ours. The three take turns, so that other
work on the machine slows them all alike. Times are milliseconds per picture, the median of the repeats. The partitions
must be the same at every number of clusters tried.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.cluster.hierarchy import fcluster, linkage

from akorn.ledger.records import write_record
from akorn.objects.cluster import average_linkage
from akorn.objects.features import principal_components

CUTS = (2, 4, 8, 16, 64)
KINDS = {"objects": 0.5, "noise": None}


def points(pictures: int, patches: int, features: int, noise: float | None, seed: int) -> torch.Tensor:
    """Features [B, P, F] as the evaluation clusters them: unit vectors of 2F channels, reduced by PCA."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(pictures, patches, 2 * features, generator=generator, dtype=torch.float64)
    if noise is not None:
        means = torch.randn(pictures, 8, 2 * features, generator=generator, dtype=torch.float64)
        which = torch.randint(8, (pictures, patches), generator=generator)
        y = y * noise + means.gather(1, which[:, :, None].expand_as(y))
    return principal_components(torch.nn.functional.normalize(y, dim=2), features)


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """How many seconds of wall time `work` takes."""
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def same(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> bool:
    pairs = len(np.unique(np.stack((ours, theirs)), axis=1).T)
    return pairs == len(np.unique(ours)) == len(np.unique(theirs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=32)
    parser.add_argument("--patches", type=int, default=1600)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--best", action="store_true", help="take the best of the repeats: for a machine that others use too"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    pick: Callable[[Iterable[float]], float] = min if words.best else median
    torch.set_num_threads(words.threads)
    device = torch.device(words.device)
    began = time.monotonic()
    table = Table(box=None, header_style="bold")
    for heading in ("points", "SciPy, loop", "SciPy, threads", "akorn", "× loop", "× threads", "same"):
        table.add_column(heading, justify="right")
    metrics: dict[str, float] = {}
    for kind, noise in KINDS.items():
        y = points(words.pictures, words.patches, words.features, noise, words.seed)
        arrays, there = list(y.numpy()), y.to(device)
        with ThreadPoolExecutor(words.threads) as pool:
            works: dict[str, Callable[[], object]] = {
                "loop": lambda arrays=arrays: [linkage(one, "average") for one in arrays],
                "threads": lambda arrays=arrays, pool=pool: list(pool.map(partial(linkage, method="average"), arrays)),
                "akorn": lambda there=there: average_linkage(there, threads=words.threads),
            }
            average_linkage(there, threads=words.threads)  # warm
            times: dict[str, list[float]] = {name: [] for name in works}
            for _ in range(words.repeats):
                for name, work in works.items():
                    times[name].append(seconds(work, device))
        tree, trees = average_linkage(there, threads=words.threads), [linkage(one, "average") for one in arrays]
        agree = all(
            same(ours, fcluster(theirs, k, "maxclust"))
            for k in CUTS
            for ours, theirs in zip(tree.cut(k).cpu().numpy(), trees, strict=True)
        )
        ms = {name: 1e3 * pick(values) / words.pictures for name, values in times.items()}
        gain = {name: ms[name] / ms["akorn"] for name in ("loop", "threads")}
        table.add_row(
            kind, *(f"{ms[name]:.1f}" for name in works), *(f"{g:.2f}" for g in gain.values()), str(agree),
        )  # fmt: skip
        metrics |= {f"{kind}/{name}/ms": value for name, value in ms.items()}
        metrics |= {f"{kind}/speedup over {name}": value for name, value in gain.items()}
        metrics[f"{kind}/same partitions"] = float(agree)
    Console().print(table)
    if words.record is not None:
        config = {key: value for key, value in vars(words).items() if key not in ("record", "device", "seed")}
        path = write_record(
            "bench", "clustering", metrics, config=config | {"cuts": list(CUTS)}, seed=words.seed,
            data_fingerprint="none", wall_time=time.monotonic() - began, device=words.device, folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


if __name__ == "__main__":
    main()
