"""`akorn data make cifar10-c`: the published layout, whole or not at all, and honest about what it is."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.robustness.commands import make as make_robustness
from akorn.robustness.commands.make import Options, parse_corruptions, parse_severities, run
from akorn.robustness.corruptions import ALL, COMMON, EXTRA, corrupt
from akorn.robustness.corruptions import store as module
from akorn.robustness.corruptions.store import make_cifar10c
from akorn.robustness.data import load_cifar10c, made_by_us

RNG = np.random.default_rng(1)
IMAGES = RNG.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 12)


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    batch = {b"data": IMAGES.reshape(12, -1), b"labels": LABELS.tolist()}
    (folder / "test_batch").write_bytes(pickle.dumps(batch))
    return folder


def test_all_files_in_the_published_layout(cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "c"
    assert run(Options(folder=out, data=cifar, corruptions=("fog", "spatter"), seed=4, json=True)) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {"fog", "spatter", "labels", "README"}
    assert sorted(path.name for path in out.iterdir()) == ["README.json", "fog.npy", "labels.npy", "spatter.npy"]
    fog = np.load(out / "fog.npy")
    assert fog.shape == (60, 32, 32, 3)
    assert fog.dtype == np.uint8
    for severity in (1, 5):
        wanted = corrupt(IMAGES, "fog", severity, seed=4)
        assert np.array_equal(fog[12 * (severity - 1) : 12 * severity].transpose(0, 3, 1, 2), wanted)
        found = load_cifar10c(out, "fog", severity)
        assert np.array_equal(found.images.numpy(), wanted)
        assert found.labels.tolist() == LABELS.tolist()
    assert made_by_us(out)
    about = json.loads((out / "README.json").read_text(encoding="utf-8"))
    assert about["seed"] == 4
    assert about["pictures"] == 12
    assert len(about["source_fingerprint"]) == 64
    assert "frost" not in about  # nor is there any


def test_fewer_pictures_and_severities(cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Options(folder=tmp_path / "c", data=cifar, corruptions=("contrast",), severities="2,5", limit=3))
    assert "ours, not CIFAR-10-C's" in capsys.readouterr().out
    assert np.load(tmp_path / "c" / "contrast.npy").shape == (6, 32, 32, 3)
    assert np.array_equal(load_cifar10c(tmp_path / "c", "contrast", 5).images, corrupt(IMAGES[:3], "contrast", 5))


def test_nothing_is_overwritten(cifar: Path, tmp_path: Path) -> None:
    out = tmp_path / "c"
    out.mkdir()
    (out / "fog.npy").write_bytes(b"mine")
    with pytest.raises(AkornError, match=r"fog.npy already exists"):
        run(Options(folder=out, data=cifar, corruptions=("contrast", "fog")))
    assert [path.name for path in out.iterdir()] == ["fog.npy"]
    assert (out / "fog.npy").read_bytes() == b"mine"


@pytest.mark.parametrize("there", [True, False])
def test_a_run_that_breaks_leaves_nothing(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "c"
    if there:
        out.mkdir()
    done = []

    def breaks(images: np.ndarray, name: str, *rest: object, **options: object) -> np.ndarray:
        if done:
            raise KeyboardInterrupt
        done.append(name)
        return images

    monkeypatch.setattr(module, "corrupt", breaks)
    with pytest.raises(KeyboardInterrupt):
        make_cifar10c(out, IMAGES, LABELS, ["fog", "snow"])
    assert out.exists() == there
    assert not there or not list(out.iterdir())


def test_bad_requests_are_refused_before_anything_is_made(cifar: Path, tmp_path: Path) -> None:
    out = tmp_path / "c"
    for options, message in (
        (Options(data=cifar), "the folder is missing"),
        (Options(folder=out), "needs --data"),
        (Options(folder=out, data=cifar, limit=0), "--limit must be at least 1, got 0"),
        (Options(folder=out, data=cifar, corruptions=("rain",)), "unknown corruption 'rain'"),
        (Options(folder=out, data=cifar, severities="6"), "--severities must be from 1 to 5"),
        (Options(folder=out, data=cifar, seed=-1), "--seed must be"),
        (Options(folder=out, data=tmp_path / "nowhere"), "does not exist"),
    ):
        with pytest.raises(AkornError, match=message):
            run(options)
    for names, severities in (([], [1]), (["fog"], []), (["fog", "fog"], [1]), (["fog"], [1, 1])):
        with pytest.raises(AkornError, match="expected one or more different"):
            make_cifar10c(out, IMAGES, LABELS, names, severities)
    assert not out.exists()


def test_words_for_corruptions_and_severities() -> None:
    assert parse_corruptions(("common",)) == list(COMMON)
    assert parse_corruptions(("extra", "fog")) == ["fog", *EXTRA]
    assert parse_corruptions(("all",)) == list(ALL)
    assert parse_corruptions(("snow,fog", "fog")) == ["snow", "fog"]
    assert parse_severities("1-5") == [1, 2, 3, 4, 5]
    assert parse_severities("5, 1") == [1, 5]
    assert parse_severities("2-3,5") == [2, 3, 5]
    for text in ("", "0", "1-6", "3-2", "1-", "-", "1_", "a", "12"):
        with pytest.raises(AkornError, match="--severities must be from 1 to 5"):
            parse_severities(text)


def test_the_help_says_what_frost_is_made_of() -> None:
    assert make_robustness.NAMES == ("cifar10-c",)
    assert "procedural texture" in (Options.__doc__ or "")
    assert "pip install --no-deps imagecorruptions" in (Options.__doc__ or "")
