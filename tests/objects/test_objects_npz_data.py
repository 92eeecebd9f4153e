"""Arrays of pictures, and the npz files that hold them: what is written comes back, what is wrong is refused."""

import os
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.objects.data import SETS, Pictures, PictureSet, generate, load, read_npz, resized, write_npz
from akorn.objects.data.layouts import load_generated
from akorn.objects.data.picture_sets import count_clusters

RNG = np.random.default_rng(5)
IMAGES = RNG.integers(256, size=(7, 3, 8, 10), dtype=np.uint8)
LABELS = RNG.integers(-1, 4, size=(7, 8, 10)).astype(np.int16)


def test_pictures_by_index_and_by_list() -> None:
    pictures: PictureSet = Pictures(IMAGES, LABELS, None, 4, "some")
    assert len(pictures) == 7
    assert np.array_equal(pictures[2].image, IMAGES[2])
    assert pictures[2].classes is None
    some = pictures.load([5, 0])
    assert np.array_equal(some.images, IMAGES[[5, 0]])
    assert np.array_equal(some.labels, LABELS[[5, 0]])
    prints = {pictures.fingerprint(), some.fingerprint(), Pictures(IMAGES, None, None, 4, "some").fingerprint()}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (IMAGES[0], None, r"expected bytes \[N, 1 or 3, H, W\]"),
        (IMAGES.astype(np.float32), None, "float32"),
        (IMAGES[:, :2], None, r"\[7, 2, 8, 10\]"),
        (IMAGES, LABELS[:, :7], r"labels are \[7, 7, 10\]"),
        (IMAGES, LABELS[:6], "expected a mask"),
        (IMAGES, LABELS.astype(np.int64), "int64, expected int16"),
        (IMAGES, LABELS - 1, "labels of -2"),
    ],
)
def test_bad_arrays_are_refused(images: np.ndarray, labels: np.ndarray | None, said: str) -> None:
    with pytest.raises(AkornError, match=said):
        Pictures(images, labels, None, 4, "some")


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "float16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_bytes_and_floats_read_the_same(tmp_path: Path, dtype: str, order: str) -> None:
    images = IMAGES if dtype == "uint8" else (IMAGES / 255).astype(dtype)
    np.savez(tmp_path / "a.npz", images=np.asarray(images, order=order), labels=np.asarray(LABELS, "i4", order=order))
    for limit in (None, 3, 100):
        pictures = read_npz(tmp_path / "a.npz", limit)
        assert np.array_equal(pictures.images, IMAGES[:limit])
        assert np.array_equal(pictures.labels, LABELS[:limit])
    assert pictures.clusters == 4  # three objects and the background
    assert pictures.name == "a"


def test_long_files_are_read_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.objects.data.npz._STRETCH", 500)
    np.savez_compressed(tmp_path / "a.npz", images=IMAGES / np.float32(255), labels=LABELS)
    pictures = read_npz(tmp_path / "a.npz")
    assert np.array_equal(pictures.images, IMAGES)
    assert np.array_equal(pictures.labels, LABELS)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    made = generate("dsprites", "test", 5)
    write_npz(tmp_path / "x.npz", made)
    back = load(tmp_path / "x.npz")
    assert isinstance(back, Pictures)
    assert (back.name, back.clusters) == ("dsprites", 7)
    assert back.fingerprint() == made.fingerprint()
    assert read_npz(tmp_path / "x.npz", labels=False).labels is None
    with_classes = Pictures(IMAGES, LABELS, LABELS, 9, "mine")
    write_npz(tmp_path / "x.npz", with_classes)
    assert read_npz(tmp_path / "x.npz").fingerprint() == with_classes.fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize(
    ("name", "data_set"),
    [
        ("Tetrominoes", "tetrominoes"),
        ("multi_dsprites-train", "dsprites"),
        ("clevrtex_ood_2", "clevrtex-ood"),
        ("clevr with masks", "clevr"),
        ("avocado", None),
        ("my-shapeshifters", None),
        ("shapes_and_coco", None),
        ("voc/test", None),
    ],
)
def test_names_tell_the_set(tmp_path: Path, name: str, data_set: str | None, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "dsprites" / f"{name}.npz"  # the folder's name does not matter
    path.parent.mkdir(parents=True)
    np.savez(path, images=IMAGES, labels=LABELS)
    pictures = load(path)
    if data_set is None:
        assert (pictures.name, pictures.clusters) == (path.stem, 4)
        assert not caplog.records
    else:
        assert (pictures.name, pictures.clusters) == (data_set, SETS[data_set].clusters)
        assert f"read as {data_set} because of its name: {pictures.clusters} clusters" in caplog.text
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("labels", "clusters"),
    [
        ([[[0, 1], [2, 3]]], 4),
        ([[[0, 60], [120, 180]]], 4),  # three objects, whatever their numbers are
        ([[[0, 1], [2, 2]], [[3, 4], [5, -1]]], 4),  # the most in one picture, not in all of them
        ([[[0, 0], [0, -1]]], 2),
    ],
)
def test_clusters_are_the_objects_of_a_picture_and_its_background(
    tmp_path: Path, labels: list[list[list[int]]], clusters: int
) -> None:
    masks = np.array(labels)
    np.savez(tmp_path / "a.npz", images=np.zeros((len(masks), 1, 2, 2), np.uint8), labels=masks)
    assert read_npz(tmp_path / "a.npz").clusters == clusters


def test_clusters_of_sets_that_number_their_objects_are_the_largest_number() -> None:
    for name in ("shapes", "tetrominoes", "dsprites"):
        labels = generate(name, "test", 50).labels
        assert labels is not None
        assert count_clusters(labels, 0) == labels.max() + 1


def test_arrays_larger_than_their_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((10**9, 3, 4096, 4096), (10**18, 3, 4096, 4096)):
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("images.npy", header.getvalue())
        with pytest.raises(AkornError, match=rf"a.npz is truncated: images are \[{shape[0]}, 3, 4096, 4096\]"):
            load(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", images=IMAGES)

    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("akorn.objects.data.npz.np.empty", full)
    with pytest.raises(AkornError, match=r"a.npz: its arrays do not fit into memory"):
        load(tmp_path / "a.npz")


def test_folders_of_splits(tmp_path: Path) -> None:
    for name, count in (("train", 4), ("my_val", 2)):
        np.savez(tmp_path / f"{name}.npz", images=IMAGES[:count], labels=LABELS[:count])
    assert len(load(tmp_path)) == 4
    assert len(load(tmp_path, "valid")) == 2
    assert len(load(tmp_path, limit=1)) == 1
    with pytest.raises(AkornError, match=r"no split 'test': expected test.npz, found my_val.npz, train.npz"):
        load(tmp_path, "test")
    np.savez(tmp_path / "your_val.npz", images=IMAGES)
    with pytest.raises(AkornError, match="several files for valid"):
        load(tmp_path, "valid")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"pictures": IMAGES}, "has the keys pictures, expected images and labels"),
        ({"images": IMAGES[0]}, r"images are \[3, 8, 10\], expected \[N, 1 or 3, H, W\]"),
        ({"images": IMAGES.transpose(0, 2, 3, 1)}, r"\[7, 8, 10, 3\]"),
        ({"images": IMAGES[:0]}, "contains no picture"),
        ({"images": IMAGES.astype(np.int64)}, "images are int64, expected bytes"),
        ({"images": IMAGES.astype(np.float32)}, "floats from 0 to 255, expected 0–1"),
        ({"images": np.full((1, 1, 4, 4), np.nan)}, "floats from nan"),
        ({"images": IMAGES, "labels": LABELS[:, 1:]}, r"labels are \[7, 7, 10\], expected masks"),
        ({"images": IMAGES, "labels": LABELS[:5]}, r"labels are \[5, 8, 10\]"),
        ({"images": IMAGES[:3], "labels": LABELS}, r"labels are \[7, 8, 10\], .*number and size, \[3, 8, 10\]"),
        ({"images": IMAGES[:3], "labels": LABELS[:3], "classes": LABELS}, r"classes are \[7, 8, 10\]"),
        ({"images": IMAGES, "labels": LABELS + 0.5}, "float64, expected whole numbers"),
        ({"images": IMAGES, "labels": LABELS - 4}, "labels from -5 to"),
        ({"images": IMAGES, "labels": LABELS.astype(int) + 40_000}, "expected −1 to 32767"),
        ({"images": np.array([[[[None]]]])}, "Python objects"),
        ({"images": IMAGES, "clusters": np.array(3.5)}, r"clusters is float64 \[\], expected one whole number"),
        ({"images": IMAGES, "clusters": np.array([3, 4])}, r"clusters is int64 \[2\], expected one whole number"),
        ({"images": IMAGES, "name": np.array(3)}, r"name is int64 \[\], expected one text"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    for limit in (None, 2):
        with pytest.raises(AkornError, match=said):
            load(tmp_path / "a.npz", limit=limit)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_truncated_and_damaged_archives_are_refused(tmp_path: Path, save: object) -> None:
    path = tmp_path / "a.npz"
    save(path, images=np.repeat(IMAGES, 20, 0), labels=np.repeat(LABELS, 20, 0))
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        with pytest.raises(AkornError, match=r"a.npz is not a valid npz file"):
            load(path)
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0x55
    path.write_bytes(damaged)
    with pytest.raises(AkornError, match=r"a.npz"):
        load(path)


def test_an_array_that_ends_too_soon_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", (tmp_path / "images.npy").read_bytes()[:-30])
    with pytest.raises(AkornError, match="truncated: 30 bytes"):
        load(tmp_path / "a.npz")


def test_sizes_by_crop_stretch_or_not_at_all() -> None:
    ramp = np.broadcast_to(np.arange(0, 240, 20, dtype=np.uint8), (2, 1, 6, 12))
    labels = np.broadcast_to(np.arange(12, dtype=np.int16), (2, 6, 12))
    pictures = Pictures(ramp.copy(), labels.copy(), None, 2, "ramp")
    cropped, stretched = resized(pictures, 3), resized(pictures, 3, "stretch")
    assert cropped.labels[0, 0].tolist() == [4, 6, 8]  # columns 3 to 8, two in one
    assert stretched.labels[0, 0].tolist() == [2, 6, 10]
    assert abs(cropped.images[0, 0, 0].astype(int) - [70, 110, 150]).max() <= 8  # means, edges lean inwards
    assert resized(cropped, 3, "refuse") is cropped
    with pytest.raises(AkornError, match="the picture is 12×6, expected 3×3"):
        resized(pictures, 3, "refuse")
    with pytest.raises(AkornError, match="at least 1, got 0"):
        resized(pictures, 0)


def test_generated_sets_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pictures = load("tetrominoes", "test", size=16, limit=9, seed=4)
    assert isinstance(pictures, Pictures)
    assert pictures.images.shape == (9, 3, 16, 16)
    assert len(load("shapes", "valid", labels=False)) == 1000
    for source, said in (("voc", "voc does not exist"), (tmp_path, "contains nothing that can be read")):
        with pytest.raises(AkornError, match=said):
            load(source)
    with pytest.raises(AkornError, match="at least 1, got 0"):
        load("shapes", limit=0)
    (tmp_path / "a.txt").write_text("no pictures")
    with pytest.raises(AkornError, match="of an unknown kind"):
        load(tmp_path / "a.txt")


def test_what_is_neither_a_file_nor_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("train.npz", images=IMAGES)
    assert len(load(".")) == len(IMAGES)
    with pytest.raises(AkornError, match="the data's name is empty: expected a file, a folder, or one of shapes"):
        load("")  # and not the current folder
    os.mkfifo("pipe.npz")
    for source in (os.devnull, "pipe.npz"):
        with pytest.raises(AkornError, match=f"{source} is neither a file nor a folder"):
            load(source)


def test_a_generated_set_whatever_the_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = load("shapes", "test", limit=5)
    Path("shapes").mkdir()
    np.savez("shapes/test.npz", images=IMAGES)
    assert len(load("shapes", "test")) == len(IMAGES)
    assert np.array_equal(load_generated("shapes", "test", limit=5).images, made.images)
    assert load_generated("shapes", "valid", 20, labels=False).images.shape == (1000, 1, 20, 20)
    with pytest.raises(AkornError, match="at least 1, got 0"):
        load_generated("shapes", limit=0)
    with pytest.raises(AkornError, match="'voc' cannot be generated"):
        load_generated("voc", limit=3)
