"""`akorn data make` for the generated sets."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.objects.commands.make import NAMES, Options, run
from akorn.objects.data import Pictures, generate, load
from akorn.objects.data.sets import SETS


@pytest.mark.parametrize("name", [name for name in NAMES if SETS[name].draw is not None])
def test_files_are_what_load_generates(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert run(Options(name=name, folder=folder, count=6, valid=5, test=4, seed=2, json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {
        split: str(folder / f"{split}.npz") for split in ("train", "valid", "test")
    }
    for split, count in (("train", 6), ("valid", 5), ("test", 4)):
        written = load(folder, split)
        assert isinstance(written, Pictures)
        assert written.fingerprint() == generate(name, split, count, 2).fingerprint()
        with np.load(folder / f"{split}.npz") as arrays:
            assert arrays["images"].dtype == np.uint8
            assert arrays["labels"].shape == (count, *arrays["images"].shape[2:])
    before = (folder / "test.npz").read_bytes()
    (folder / "train.npz").unlink()
    with pytest.raises(AkornError, match=r"valid.npz already exists"):
        run(Options(name=name, folder=folder, count=1, valid=1, test=1))
    assert (folder / "test.npz").read_bytes() == before
    assert not (folder / "train.npz").exists()


def test_bad_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="the folder is missing"):
        run(Options())
    for option in ("count", "valid", "test"):
        with pytest.raises(AkornError, match=f"--{option} must be at least 1, got 0"):
            run(Options(folder=tmp_path / "a", **{option: 0}))
    assert not (tmp_path / "a").exists()


def test_no_torch_for_what_needs_none() -> None:
    code = (
        "import sys; import akorn.objects.commands.make; from akorn.objects.data import load, generate;"
        "load('shapes', 'test', limit=1); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
