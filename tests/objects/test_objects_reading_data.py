"""Pictures in folders, whatever lies beside them: read as `akorn segment` reads them; resizing is reported."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.errors import AkornError
from akorn.objects.data import load, picture_files
from akorn.objects.data.picture_files import FileSet
from akorn.objects.model_input import read_picture
from akorn.runtime.pictures import open_picture, open_reduced, picture_size

RNG = np.random.default_rng(8)


def noise(path: Path, width: int = 8, height: int = 8, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(256, size=(height, width, 3), dtype=np.uint8)).save(path, **options)
    return path


def held(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def looked(folder: Path, **options: object) -> FileSet:
    found = load(folder, **options)  # type: ignore[arg-type]
    assert isinstance(found, FileSet)
    found.look()
    return found


def test_training_sees_what_segment_sees(tmp_path: Path) -> None:
    """16 bits, transparency and turned cameras; at the model's own size, so that nothing is resized."""
    deep = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    clear = Image.fromarray(RNG.integers(256, size=(8, 8, 4), dtype=np.uint8))
    clear.save(tmp_path / "clear.png")
    clear.quantize(20).save(tmp_path / "palette.png")
    clear.convert("LA").save(tmp_path / "la.png")
    noise(tmp_path / "turned.jpg", exif=held(6))
    noise(tmp_path / "flipped.png", exif=held(3))
    noise(tmp_path / "plain.png")
    names = [path.name for path in sorted(tmp_path.iterdir())]
    seen = load(tmp_path, size=8)
    for index, name in enumerate(names):
        assert np.array_equal(seen.image(index), read_picture(tmp_path / name, 8, 3).pixels.numpy()), name
    grey = seen.image(names.index("deep.png"))
    assert abs(grey[0].astype(int) - deep / 257).max() <= 1
    nothing = Image.new("RGBA", (8, 8), (9, 9, 9, 0))
    nothing.save(tmp_path / "clear.png")
    assert (seen.image(names.index("clear.png")) == 255).all()


def test_sizes_from_the_first_bytes(tmp_path: Path) -> None:
    lying = noise(tmp_path / "lying.jpg", 40, 24, exif=held(6))
    assert picture_size(lying) == (40, 24) == open_picture(lying).size[::-1]
    assert picture_size(lying, turn=False) == (24, 40)
    for path in (noise(tmp_path / "a.png", 5, 9, exif=held(8)), noise(tmp_path / "a.tif", 5, 9, exif=held(8))):
        assert picture_size(path) == open_picture(path).size[::-1] == (5, 9)
    image, real = open_reduced(lying, 6)
    assert (real, image.size) == ((40, 24), (6, 10))  # decoded at a quarter, and turned
    image, real = open_reduced(lying, 6, turn=False)
    assert (real, image.size) == ((24, 40), (10, 6))
    (tmp_path / "text.jpg").write_text("no picture")
    with pytest.raises(AkornError, match=r"text.jpg: not a picture"):
        picture_size(tmp_path / "text.jpg")


def test_masks_lie_on_pixels_as_they_are_stored(tmp_path: Path) -> None:
    stem = tmp_path / "CLEVRTEX_outd_000000"
    noise(stem.with_suffix(".png"), 6, 9, exif=held(6))
    labels = Image.fromarray(np.arange(54, dtype=np.uint8).reshape(9, 6))
    labels.save(f"{stem}_flat.png")
    assert load(tmp_path, "test", size=4)[0].labels.shape == (4, 4)


def test_resizing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        noise(tmp_path / f"{number}.png")
    looked(tmp_path, size=8)
    assert not caplog.records
    noise(tmp_path / "3.png", 12, 9)
    looked(tmp_path, size=8)
    assert caplog.messages == [
        f"{tmp_path}: 1 of 4 pictures resized from 12×9 to 8×8, the largest square in the middle of each"
    ]
    caplog.clear()
    looked(tmp_path, size=6, fit="stretch")
    assert caplog.messages == [f"{tmp_path}: 4 of 4 pictures resized from 8×8 and 1 other size to 6×6, stretched"]
    caplog.clear()
    with pytest.raises(AkornError, match=r"3.png: the picture is 12×9, expected 8×8 \(fit is refuse\)"):
        looked(tmp_path, size=8, fit="refuse")


def test_resized_arrays_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    np.savez(tmp_path / "mine.npz", images=np.zeros((7, 1, 6, 6), np.uint8))
    load(tmp_path / "mine.npz", size=6)
    load(tmp_path / "mine.npz")
    assert not caplog.records
    load(tmp_path / "mine.npz", size=4)
    load("tetrominoes", limit=3, size=16)
    assert caplog.messages == [
        "mine: 7 of 7 pictures resized from 6×6 to 4×4",
        "tetrominoes: 3 of 3 pictures resized from 32×32 to 16×16",
    ]
    with pytest.raises(AkornError, match="expected 4×4"):
        load(tmp_path / "mine.npz", size=4, fit="refuse")


def test_a_set_known_by_its_files_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    noise(tmp_path / "CLEVRTEX_outd_000000.png", 32, 24)
    looked(tmp_path, split="test")
    (line,) = caplog.messages
    assert "read as clevrtex-ood, 11 clusters by default; 1 of 1 pictures resized from 32×24 to 128×128" in line
    assert line.endswith("the middle 0.8 of the largest square in each")


def test_what_is_no_picture_shows_before_any_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        noise(tmp_path / f"{number}.png")
    (tmp_path / "9.png").write_text("no picture")
    with pytest.raises(AkornError, match=r"9.png: not a picture"):
        looked(tmp_path)
    monkeypatch.setattr(picture_files, "_LOOKED_AT", 5)  # of many files some stand for all
    looked(tmp_path)
    (tmp_path / "8.png").write_text("no picture")
    with pytest.raises(AkornError, match=r"8.png: not a picture"):
        looked(tmp_path)


def test_of_very_many_files_some_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(picture_files, "_LOOKED_AT", 2)
    for number in range(5):
        noise(tmp_path / f"{number}.png")
    looked(tmp_path, size=4)
    assert caplog.messages == [f"{tmp_path}: 2 of 2 pictures resized from 8×8 to 4×4 (checked 2 of 5)"]


def test_a_stray_archive_beside_pictures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    noise(tmp_path / "cats/x.png")
    np.savez(tmp_path / "notes.npz", notes=np.zeros(3))
    assert [path.name for path in load(tmp_path).paths] == ["x.png"]
    assert caplog.messages == [f"{tmp_path}: the pictures are read, notes.npz is ignored"]
    np.savez(tmp_path / "notes_test.npz", notes=np.zeros(3))  # the pictures, or the train.npz that is missing?
    with pytest.raises(AkornError, match=r"name the file to read, or a folder with nothing but the pictures"):
        load(tmp_path)


def test_pictures_beside_those_for_testing_are_for_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    noise(tmp_path / "test/z.png")
    with pytest.raises(AkornError, match="no split 'train': found test; name the folder to read"):
        load(tmp_path)
    assert not caplog.records
    for name in ("a.png", "cats/x.png", "cats/test/y.png"):
        noise(tmp_path / name)
    found = load(tmp_path, "train")
    assert isinstance(found, FileSet)
    assert [path.relative_to(tmp_path).as_posix() for path in found.paths] == ["a.png", "cats/x.png", "cats/test/y.png"]
    assert caplog.messages == [f"{tmp_path}: pictures in test are not read"]
    assert [path.name for path in load(tmp_path, "test").paths] == ["z.png"]
    with pytest.raises(AkornError, match="no split 'valid': found test"):
        load(tmp_path, "valid")


def test_a_list_of_voc_that_is_no_text(tmp_path: Path) -> None:
    for name in ("JPEGImages", "SegmentationObject", "ImageSets/Segmentation"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ImageSets/Segmentation/val.txt").write_bytes("x ä".encode("latin-1"))
    with pytest.raises(AkornError, match=r"val.txt is not text, expected names of pictures in UTF-8"):
        load(tmp_path, "test")
