"""A data set is registered once, where it is defined: then it is generated, made, loaded, trained on and scored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from akorn.cli import main
from akorn.errors import AkornError
from akorn.objects.config import AkornConfig, DataConfig, ObjectsRecipe, ValidConfig
from akorn.objects.data import Pictures, generate, load
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import GENERATED, SETS, DataSet
from akorn.objects.recipes import RECIPES
from akorn.objects.segmenter import data_set_of


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    for registry in (SETS, READERS, RECIPES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # type: ignore[attr-defined]


def add_dots() -> None:
    """Grey pictures with one white square each."""

    @SETS.add("dots", clusters=2, size=8, channels=1, counts=(24, 6, 5))
    def block(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.zeros((count, 8, 8), np.int16)
        for mask, (row, column) in zip(labels, rng.integers(5, size=(count, 2)), strict=True):
            mask[row : row + 3, column : column + 3] = 1
        return np.where(labels == 1, 255, 90).astype(np.uint8)[:, None], labels


def leave(argv: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(argv)
    return int(end.value.code or 0)


def test_a_new_set_is_generated_made_loaded_trained_on_and_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "dots" not in GENERATED
    add_dots()
    assert list(GENERATED)[-1] == "dots"

    made = generate("dots", "test")
    assert (made.images.shape, made.clusters, made.name) == ((5, 1, 8, 8), 2, "dots")
    assert load("dots", "test").fingerprint() == made.fingerprint()
    assert not np.array_equal(generate("dots", "valid", 5).images, made.images)

    assert leave(["data", "make", "--help"]) == 0
    assert "  dots\n" in capsys.readouterr().out
    assert leave(["data", "make", "dots", str(tmp_path / "files"), "--count", "7", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)
    assert len(load(files["train"])) == 7
    assert load(tmp_path / "files", "test").fingerprint() == made.fingerprint()

    @RECIPES.add
    def dots_akorn() -> ObjectsRecipe:
        """AKOrN on dots."""
        model = AkornConfig(image_size=8, image_channels=1, patch=2, channels=16, heads=2, steps=2)
        return ObjectsRecipe(model=model, data=DataConfig("dots"), valid=ValidConfig(count=3))

    words = ["--train.steps", "2", "--train.batch-size", "8", "--train.eval-every", "2", "--results", "None"]
    run = str(tmp_path / "run")
    assert leave(["train", "dots_akorn", "--out", run, "--device", "cpu", "--json", *words]) == 0
    trained = json.loads(capsys.readouterr().out)
    assert 0 <= trained["mbo"] <= 100
    assert data_set_of(trained["model"]) == "dots"
    assert leave(["eval", trained["model"], "--device", "cpu", "--json", "--results", "None"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["data"], scored["pictures"], scored["clusters"]) == ("dots", 5, 2)


def test_what_was_registered_for_a_test_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(GENERATED)[:3] == ["shapes", "tetrominoes", "dsprites"]
    assert "dots" not in GENERATED
    with pytest.raises(AkornError, match="'dots' cannot be generated, expected one of shapes, tetrominoes, dsprites"):
        generate("dots")
    with pytest.raises(AkornError, match="dots does not exist"):
        load("dots")
    assert leave(["data", "make", "dots", str(tmp_path / "files")]) == 2
    assert "unknown data set 'dots'" in capsys.readouterr().err
    assert not (tmp_path / "files").exists()


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="the data set 'voc' is already registered"):
        SETS.register("voc", DataSet(clusters=3, size=8))


def test_a_set_draws_what_it_is_registered_with() -> None:
    @SETS.add("wrong", clusters=2, size=8, counts=(9, 9, 9))  # three channels by default
    def block(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((count, 1, 8, 8), np.uint8), np.zeros((count, 8, 8), np.int16)

    with pytest.raises(ValueError, match=r"wrong draws pictures \[256, 1, 8, 8\] and labels .* \[256, 3, 8, 8\]"):
        generate("wrong", count=2)


def test_a_new_layout_is_asked_before_plain_pictures(tmp_path: Path) -> None:
    SETS.register("letters", DataSet(clusters=3, size=4))
    last = READERS._entries.popitem()  # which takes all that is left

    @READERS.add("letters")
    def open_letters(path: Path, asked: Asked) -> Pictures | None:
        if not (path / "letters.bin").is_file():
            return None
        images = np.frombuffer((path / "letters.bin").read_bytes(), np.uint8).reshape(-1, 1, 4, 4)
        return Pictures(images[: asked.limit], None, None, SETS["letters"].clusters, "letters")

    READERS.register(*last)
    (tmp_path / "letters.bin").write_bytes(bytes(range(48)))
    found = load(tmp_path, limit=2)
    assert (found.name, len(found), found.clusters) == ("letters", 2, 3)
    (tmp_path / "letters.bin").rename(tmp_path / "other.bin")
    with pytest.raises(
        AkornError, match="contains nothing that can be read: expected npz files, packs, TFRecord files, VOC"
    ):
        load(tmp_path)


def test_the_registries_are_whole_however_they_are_reached() -> None:
    """In the same order too, whichever module is imported first."""
    code = "import akorn.objects.data.{}; from akorn.objects.data.sets import SETS; print(*SETS)"
    orders: set[str] = set()
    for first in ("dsprites", "sets", "coco"):
        done = subprocess.run([sys.executable, "-c", code.format(first)], capture_output=True, text=True, check=True)
        orders.add(done.stdout.strip())
    (order,) = orders
    papers = ["shapes", "tetrominoes", "dsprites", "clevr", "voc", "coco", "clevrtex", "clevrtex-ood", "clevrtex-camo"]
    assert [name for name in order.split() if name in papers] == papers


def test_the_rooms_commands_are_declared_without_torch() -> None:
    code = (
        "import sys; from akorn.objects.commands import COMMANDS; from importlib import import_module;"
        "[import_module(module).Options for module, _ in COMMANDS.values()];"
        "import akorn.objects.commands.make, akorn.objects.commands.evaluate;"
        "print(*COMMANDS, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["segment", "False"]
