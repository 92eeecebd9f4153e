"""`akorn data pack` with what real folders contain, and the packs as data sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.cli import main
from akorn.errors import AkornError
from akorn.objects.data import load
from akorn.objects.data.picture_files import FileSet

RED = (200, 30, 30)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["data", "pack", *map(str, words)])
    return int(end.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as people have them: grey, CMYK, rotated, truncated, and not a picture at all."""
    root = tmp_path / "in"
    root.mkdir()
    Image.new("RGB", (40, 30), RED).save(root / "a.jpg")
    Image.new("L", (30, 30), 90).save(root / "grey.jpg")
    Image.new("CMYK", (30, 30), (0, 255, 255, 0)).save(root / "print.jpg")
    lying = Image.new("RGB", (64, 32), (0, 0, 255))
    lying.paste(RED, (0, 0, 32, 32))  # red on the left; held upright, red is on top
    lying.save(root / "lying.jpg", exif=_orientation(6), quality=95)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "cut.jpg")
    (root / "cut.jpg").write_bytes((root / "cut.jpg").read_bytes()[:3000])  # the header and a part of the pixels
    (root / "text.jpg").write_text("not a picture")
    return root


def _orientation(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def test_real_folders_are_packed_and_what_is_bad_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.pack"
    assert run(folder, file, "--size", 16, "--quality", 100, "--json") == 0
    told = capsys.readouterr()
    said = json.loads(told.out)
    assert (said["pictures"], said["skipped"]) == (4, 2)
    assert "cut.jpg" in told.err
    assert "text.jpg" in told.err
    data = load(file, "train")
    assert isinstance(data, FileSet)
    assert [path.name for path in data.paths] == ["a.jpg", "grey.jpg", "lying.jpg", "print.jpg"]
    colours = {path.name: data.image(n) for n, path in enumerate(data.paths)}
    assert colours["a.jpg"].shape == (3, 16, 16)
    np.testing.assert_allclose(colours["a.jpg"].mean((1, 2)), RED, atol=4)
    np.testing.assert_allclose(colours["grey.jpg"].mean((1, 2)), (90, 90, 90), atol=2)
    np.testing.assert_allclose(colours["print.jpg"].mean((1, 2)), (255, 0, 0), atol=8)  # ink that leaves red
    upper, lower = colours["lying.jpg"][:, :7].mean((1, 2)), colours["lying.jpg"][:, 9:].mean((1, 2))
    np.testing.assert_allclose(upper, RED, atol=12)
    np.testing.assert_allclose(lower, (0, 0, 255), atol=12)


def test_bad_pictures_can_be_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, tmp_path / "a.pack", "--bad", "refuse") == 2
    assert "cut.jpg: cannot be read as a picture" in capsys.readouterr().err
    assert not (tmp_path / "a.pack").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.zip"], "must end in .pack"),
        (["a.pack", "--quality", 0], "--quality must be from 1 to 100, got 0"),
        (["a.pack", "--size", 0], "--size must be from 1 to 4096, got 0"),
        (["a.pack", "--part-mb", 0], "--part-mb must be at least 0.01, got 0"),
        (["none/a.pack"], "the folder none does not exist"),
    ],
)
def test_impossible_options(
    folder: Path, words: list[object], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert run(folder, *words) == 2
    assert said in capsys.readouterr().err


def test_training_skips_damaged_files_if_told_to(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = load(folder, "train", 8)
    assert isinstance(data, FileSet)
    bad = [path.name for path in data.paths].index("cut.jpg")
    with pytest.raises(AkornError, match=r"cut\.jpg"):
        data.image(bad)
    data.bad = "skip"
    data.look()
    for _ in range(2):
        np.testing.assert_array_equal(data.image(bad), data.image(bad + 1))
    assert len(data.skipped) == 2
    lines = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert len(lines) == 2  # each is named once
    assert "text.jpg" in lines[0]
    assert "cut.jpg" in lines[1]


def test_vocs_photographs_leave_out_those_for_testing(voc: Path, tmp_path: Path) -> None:
    assert run(voc, tmp_path / "all.pack", "--size", 32) == 0
    data = load(tmp_path / "all.pack")
    assert isinstance(data, FileSet)
    assert [path.stem for path in data.paths] == ["p0", "p1", "p4"]
    assert data[0].labels is None


def test_masks_are_packed_with_their_void(voc: Path, tmp_path: Path) -> None:
    assert run(voc, tmp_path / "val.pack", "--size", 32, "--split", "test", "--masks") == 0
    data, original = load(tmp_path / "val.pack", "test"), load(voc, "test", 32)
    assert (len(data), data.name, data.clusters) == (2, "voc", 4)
    for index in range(2):
        for kind in ("labels", "classes"):
            np.testing.assert_array_equal(getattr(data[index], kind), getattr(original[index], kind))
        assert (data[index].labels == -1).sum() == 16
    with pytest.raises(AkornError, match="a pack of the part 'test', expected training pictures"):
        load(tmp_path / "val.pack", "train", labels=False)
    with pytest.raises(AkornError, match="a pack of the part 'test', expected pictures for validation"):
        load(tmp_path / "val.pack", "valid")


def test_training_is_not_scored_on_a_pack_for_testing(
    voc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "val.pack"
    assert run(voc, file, "--size", 32, "--split", "test", "--masks") == 0
    words = ["train", "tetrominoes_akorn", "--data.count", "8", "--valid", str(file), "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "val.pack: a pack of the part 'test', expected pictures for validation" in capsys.readouterr().err


def test_pictures_without_masks_are_named(voc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (voc / "VOCdevkit/VOC2012/SegmentationClass/p3.png").unlink()
    assert run(voc, tmp_path / "val.pack", "--size", 32, "--split", "test", "--masks", "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["skipped"] == 1
    assert "p3.png does not exist" in told.err


def test_a_folder_of_packs_is_one_set(voc: Path, folder: Path, tmp_path: Path) -> None:
    packs = tmp_path / "packs"
    packs.mkdir()
    assert run(voc, packs / "voc.pack", "--size", 32, "--part-mb", 0.01) == 0
    assert run(folder, packs / "more.pack", "--size", 16) == 0
    data = load(packs, "train", 24)
    assert len(data) == 7
    assert all(data.image(index).shape == (3, 24, 24) for index in range(7))
    other = load(packs, "train", 16)
    assert data.fingerprint() != other.fingerprint()


def test_what_a_killed_command_left_is_no_pack(folder: Path, tmp_path: Path) -> None:
    packs = tmp_path / "packs"
    packs.mkdir()
    assert run(folder, packs / "a.pack", "--size", 16) == 0
    (packs / ".tmp-0-0.pack").write_bytes(b"half")
    assert len(load(packs, "train")) == 4
