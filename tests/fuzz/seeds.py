"""Valid files, as small as they can be: what the fuzzer damages."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
from pathlib import Path

from .seeds_sets import write_sets

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
SUDOKU, OBJECTS, CIFAR = "sudoku-tiny", "objects-tiny", "cifar-tiny"
SMALL_RUN = [
    "--train.steps",
    "1",
    "--train.batch-size",
    "2",
    "--train.compile",
    "no",
    "--model.channels",
    "16",
    "--model.heads",
    "2",
    "--model.steps",
    "1",
]


def write_seeds(folder: Path) -> None:
    """Write one valid file or folder for every reader: models, a run, records, boards, pictures and data sets."""
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        _models()
        _boards()
        _pictures()
        _cifar()
        write_sets()
        _run_and_records()
    finally:
        os.chdir(before)


def _models() -> None:
    import torch

    from akorn.rooms import build

    torch.manual_seed(0)
    build("sudoku", {"architecture": "akorn", "channels": 16, "heads": 2, "steps": 1}).save_pretrained(SUDOKU)
    small = {"architecture": "akorn", "image_size": 16, "channels": 16, "heads": 2, "steps": 1}
    build("objects", small).save_pretrained(OBJECTS)
    narrow = {"architecture": "akorn", "channels": [4, 4, 4], "kernels": [3, 3, 3], "steps": [1, 1, 1]}
    build("robustness", narrow).save_pretrained(CIFAR)
    for name, recipe in ((SUDOKU, "sudoku_akorn"), (OBJECTS, "shapes_akorn_l1"), (CIFAR, "cifar10_akorn_conv")):
        Path(name, "training.json").write_text(json.dumps({"recipe": recipe, "seed": 0, "overrides": {}}))


def _boards() -> None:
    import torch

    Path("boards.csv").write_text(f"puzzle,solution\n{PUZZLE},{SOLUTION}\n{PUZZLE},{SOLUTION}\n")
    Path("satnet").mkdir()
    for name, board in (("features", PUZZLE), ("labels", SOLUTION)):
        digits = torch.tensor([int(letter) for letter in 2 * board]).reshape(2, 9, 9)
        torch.save(torch.nn.functional.one_hot(digits, 10)[..., 1:].float(), f"satnet/{name}.pt")


def _pictures() -> None:
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Path("photos").mkdir()
    for name in ("picture.png", "picture.jpg", "picture.gif", "picture.tif", "photos/one.png", "photos/two.png"):
        Image.fromarray(pixels).save(name)
    labels = np.zeros((2, 16, 16), dtype=np.int8)
    labels[:, :8, :8] = 1
    images = np.stack([pixels.transpose(2, 0, 1)] * 2)
    np.savez_compressed("squares.npz", images=images, labels=labels, clusters=2, name="squares")


def _cifar() -> None:
    import numpy as np

    generator = np.random.default_rng(1)
    Path("cifar").mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        batch = {"data": generator.integers(0, 255, (4, 3072), dtype=np.uint8), "labels": [0, 1, 2, 3]}
        Path("cifar", name).write_bytes(pickle.dumps(batch))
    Path("corrupted").mkdir()
    np.save("corrupted/fog.npy", generator.integers(0, 255, (5, 32, 32, 3), dtype=np.uint8))
    np.save("corrupted/labels.npy", np.arange(5))
    Path("corrupted/README.json").write_text('{"maker": "akorn", "severities": [1, 2, 3, 4, 5]}')


def _run_and_records() -> None:
    from akorn.cli import main

    words = ["train", "sudoku_akorn", "--data", "boards.csv", "--valid", "boards.csv", *SMALL_RUN]
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for more in (["--out", "run"], ["--out", "other", "--train.seed", "1"]):
            with contextlib.suppress(SystemExit):
                main([*words, *more, "--results", "records"])
    for number, path in enumerate(sorted(Path("records").glob("*.json"))):
        path.rename(f"records/record-{number}.json")
