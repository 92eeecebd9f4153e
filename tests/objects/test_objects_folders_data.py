"""Sets made of folders: VOC, COCO, CLEVRTex, ImageNet and plain pictures, real ones and tiny ones written here."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.errors import AkornError
from akorn.objects.data import Pictures, PictureSet, load, open_picture
from akorn.objects.data.picture_files import FileSet, open_mask

SHARED = Path(__file__).parents[3] / "shared" / "data"
RNG = np.random.default_rng(2)

needs_data = pytest.mark.skipif(not (SHARED / "coco").is_dir(), reason="the shared data are not there")


def save(path: Path, pixels: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path, **options)
    return path


def noise(height: int, width: int) -> np.ndarray:
    return RNG.integers(256, size=(height, width, 3))


def palette_png(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(np.uint8), mode=None).convert("L").convert("P")
    image.putdata(values.ravel().tolist())
    image.putpalette(RNG.integers(256, size=768).tolist())
    image.save(path)


@needs_data
def test_real_voc() -> None:
    pictures: PictureSet = load(SHARED / "voc", "test")
    assert (len(pictures), pictures.name, pictures.clusters) == (3, "voc", 4)
    whole = pictures.load(range(3))
    assert whole.images.shape == (3, 3, 256, 256)
    objects = [sorted(set(np.unique(labels)) - {-1, 0}) for labels in whole.labels]
    classes = [sorted(set(np.unique(found)) - {-1, 0}) for found in whole.classes]
    assert classes == [[5, 15], [9, 15, 18], [6, 7]]  # bottle, person; chair, person, sofa; bus, car
    assert all(objects)
    for labels, found in zip(whole.labels, whole.classes, strict=True):
        assert np.array_equal(labels == -1, found == -1)
        assert np.array_equal(labels > 0, found > 0)
        for label in set(np.unique(labels)) - {-1, 0}:
            assert len(np.unique(found[labels == label])) == 1  # an object is of one class
    assert (whole.labels[0] == -1).any()
    for place in ("VOCdevkit", "VOCdevkit/VOC2012"):
        assert load(SHARED / "voc" / place, "test").fingerprint() == pictures.fingerprint()
        with pytest.raises(AkornError, match=r"train\.txt does not exist"):  # val is for tests alone
            load(SHARED / "voc" / place, "valid")
    with pytest.raises(AkornError, match=r"no split 'train': .*train.txt does not exist"):
        load(SHARED / "voc")


@needs_data
def test_real_coco() -> None:
    pictures = load(SHARED / "coco", "test", size=64)
    assert isinstance(pictures, FileSet)
    assert (len(pictures), pictures.name, pictures.clusters) == (6, "coco", 7)
    whole = pictures.load([5, 0])
    assert whole.images.shape == (2, 3, 64, 64)
    assert np.array_equal(pictures[0].labels, whole.labels[1])
    content = json.loads((SHARED / "coco/annotations/instances_val2017.json").read_text())
    crowds = {one["image_id"] for one in content["annotations"] if one["iscrowd"]}
    for index, image in enumerate(pictures.images):
        labels, classes = pictures.masks(index)
        mine = [one for one in content["annotations"] if one["image_id"] == image["id"] and not one["iscrowd"]]
        assert labels.shape == (image["height"], image["width"])
        assert labels.max() <= len(mine)
        assert np.array_equal(labels == -1, classes == -1)
        assert np.array_equal(labels > 0, classes > 0)
        for number, annotation in enumerate(mine, 1):
            assert set(classes[labels == number]) <= {annotation["category_id"]}
            rows, columns = np.nonzero(labels == number)
            x, y, width, height = annotation["bbox"]
            if len(rows):
                assert columns.min() >= x - 1
                assert rows.min() >= y - 1
                assert columns.max() <= x + width + 1
                assert rows.max() <= y + height + 1
        if image["id"] in crowds:
            assert (labels == -1).sum() > 100
    with pytest.raises(AkornError, match=r"no split 'train': .*instances_train2017.json does not exist"):
        load(SHARED / "coco", "train")


def tiny_coco(folder: Path, annotations: list[dict[str, object]], size: tuple[int, int] = (6, 8)) -> Path:
    save(folder / "val2017/a.png", noise(*size))
    content = {
        "images": [{"id": 7, "file_name": "a.png", "height": 6, "width": 8}],
        "annotations": [{"id": at, "image_id": 7, "iscrowd": 0, **one} for at, one in enumerate(annotations)],
    }
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations/instances_val2017.json").write_text(json.dumps(content))
    return folder


def test_coco_ignores_overlaps_and_crowds(tmp_path: Path) -> None:
    box = [[0, 0, 4, 0, 4, 4, 0, 4]]
    crowd = {"size": [6, 8], "counts": [47, 1]}
    tiny_coco(
        tmp_path,
        [
            {"segmentation": box, "category_id": 3},
            {"segmentation": [[2, 2, 6, 2, 6, 6, 2, 6], [7, 0, 8, 0, 8, 1, 7, 1]], "category_id": 90},
            {"segmentation": crowd, "category_id": 3, "iscrowd": 1},
        ],
    )
    labels, classes = load(tmp_path, "test").masks(0)
    wanted = np.zeros((6, 8), dtype=int)
    wanted[:4, :4] = 1
    wanted[2:, 2:6] = 2
    wanted[0, 7] = 2
    wanted[2:4, 2:4] = wanted[5, 7] = -1
    assert np.array_equal(labels, wanted)
    assert np.array_equal(classes, np.array([0, 3, 90, -1])[wanted])


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ({"segmentation": [[0, 0, 1, 1]], "category_id": 1}, "a polygon of 2 corners"),
        ({"segmentation": [[0, 0, 1]], "category_id": 1}, "not a list of numbers"),
        ({"segmentation": "all", "category_id": 1}, "a segmentation is a str"),
        ({"segmentation": {"size": [6, 8], "counts": [50]}, "category_id": 1}, "50 pixels in all, expected 48"),
        ({"segmentation": {"size": [8, 6], "counts": [48]}, "category_id": 1}, r"size \[8, 6\]"),
        ({"segmentation": {"size": [6, 8], "counts": "P"}, "category_id": 1}, "end in the middle of a number"),
        ({"segmentation": {"size": [6, 8], "counts": [10**20]}, "category_id": 1}, "must be whole numbers"),
        ({"segmentation": [[0, 0, 10**400, 1, 2, 2]], "category_id": 1}, "not a list of numbers"),
        ({"segmentation": []}, "does not have the layout of COCO's instances .*category_id"),
    ],
)
def test_bad_coco_is_refused(tmp_path: Path, annotation: dict[str, object], said: str) -> None:
    tiny_coco(tmp_path, [annotation])
    with pytest.raises(AkornError, match=said):
        load(tmp_path, "test")[0]


def test_coco_files_that_are_not_whole(tmp_path: Path) -> None:
    tiny_coco(tmp_path, [], size=(6, 9))
    with pytest.raises(AkornError, match=r"a.png is 9×6, but its mask is 8×6"):
        load(tmp_path, "test")[0]
    path = tmp_path / "annotations/instances_val2017.json"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(AkornError, match="damaged, not readable as JSON"):
        load(tmp_path, "test")
    for name in ("a\0.png", "../a.png", 3):
        tiny_coco(tmp_path, [])
        path.write_text(path.read_text().replace('"a.png"', json.dumps(name)))
        with pytest.raises(AkornError, match=r"has the file_name .*, expected a name without a folder"):
            load(tmp_path, "test")
    path.write_text('{"a":' * 100_000)
    with pytest.raises(AkornError, match="nested deeper than 100 levels"):
        load(tmp_path, "test")
    tiny_coco(tmp_path, [])
    (tmp_path / "val2017/a.png").unlink()
    with pytest.raises(AkornError, match=r"a.png does not exist"):
        load(tmp_path, "test")


def tiny_voc(folder: Path, mask_size: tuple[int, int] = (10, 12)) -> tuple[np.ndarray, np.ndarray]:
    labels, classes = RNG.integers(3, size=(2, *mask_size))
    labels[0, 0] = classes[1, 1] = 255
    save(folder / "JPEGImages/x.jpg", noise(10, 12))
    palette_png(folder / "SegmentationObject/x.png", labels)
    palette_png(folder / "SegmentationClass/x.png", classes)
    (folder / "ImageSets/Segmentation").mkdir(parents=True, exist_ok=True)
    (folder / "ImageSets/Segmentation/train.txt").write_text("x\n")
    return labels, classes


def test_voc_masks_come_as_their_palette_numbers(tmp_path: Path) -> None:
    labels, classes = tiny_voc(tmp_path / "VOC2012")
    ignored = (labels == 255) | (classes == 255)
    picture = load(tmp_path, size=10)[0]
    for found, wanted in ((picture.labels, labels), (picture.classes, classes)):
        assert np.array_equal(found, np.where(ignored, -1, wanted)[:, 1:11])  # the square in the middle
    stretched = load(tmp_path, size=20, fit="stretch")[0]
    columns = ((np.arange(20) + 0.5) * 12 / 20).astype(int)
    assert np.array_equal(stretched.classes, np.where(ignored, -1, classes).repeat(2, 0)[:, columns])
    with pytest.raises(AkornError, match=r"x.jpg: the picture is 12×10, expected 10×10"):
        load(tmp_path, size=10, fit="refuse")[0]


def test_bad_voc_is_refused(tmp_path: Path) -> None:
    tiny_voc(tmp_path, mask_size=(9, 12))
    with pytest.raises(AkornError, match=r"x.jpg is 12×10, but its mask is 12×9"):
        load(tmp_path)[0]
    (tmp_path / "SegmentationObject/x.png").write_bytes(b"no picture")
    with pytest.raises(AkornError, match=r"x.png is not a readable mask"):
        load(tmp_path)[0]
    (tmp_path / "SegmentationObject/x.png").unlink()
    with pytest.raises(AkornError, match=r"x.png does not exist: expected the masks"):
        load(tmp_path)[0]
    (tmp_path / "ImageSets/Segmentation/train.txt").write_text("x\ny\n")
    with pytest.raises(AkornError, match=r"y.jpg does not exist, but train.txt names it"):
        load(tmp_path)


def tiny_clevrtex(folder: Path, variant: str, count: int = 20) -> np.ndarray:
    labels = RNG.integers(5, size=(count, 24, 32))
    for number in range(count):
        stem = folder / str(number % 3) / f"CLEVRTEX_{variant}_{number:06}"
        save(stem.with_name(f"{stem.name}.png"), np.full((24, 32, 3), number))
        palette_png(stem.with_name(f"{stem.name}_flat.png"), labels[number])
    return labels


def test_clevrtex_splits_crops_and_variants(tmp_path: Path) -> None:
    labels = tiny_clevrtex(tmp_path / "clevrtex_full", "full")
    for split, numbers in (("test", range(2)), ("valid", range(2, 4)), ("train", range(4, 20))):
        pictures = load(tmp_path / "clevrtex_full", split, size=19)
        assert (pictures.name, pictures.clusters) == ("clevrtex", 11)
        assert [int(pictures[at].image.max()) for at in range(len(pictures))] == list(numbers)
    # 0.8 of 24 pixels, from row 2.4 and column 6.4 on, pixel for pixel
    assert np.array_equal(load(tmp_path, "test", size=19)[1].labels[4:9, 4:9], labels[1, 6:11, 10:15])
    assert load(tmp_path / "clevrtex_full", "test")[0].image.shape == (3, 128, 128)
    assert len(load(tmp_path, "train", limit=3)) == 3
    tiny_clevrtex(tmp_path / "clevrtex_outd", "outd", 3)
    assert len(load(tmp_path / "clevrtex_outd", "test")) == 3
    assert load(tmp_path / "clevrtex_outd", "test").name == "clevrtex-ood"
    with pytest.raises(AkornError, match="no split 'train': its 3 scenes of 'outd'"):
        load(tmp_path / "clevrtex_outd")
    with pytest.raises(AkornError, match="scenes of full, outd: expected one of"):
        load(tmp_path, "test")
    tiny_clevrtex(tmp_path / "clevrtex_camo", "camo", 10)
    assert len(load(tmp_path / "clevrtex_camo", "test")) == 1
    next((tmp_path / "clevrtex_camo").rglob("*_000000_flat.png")).unlink()
    with pytest.raises(AkornError, match=r"_flat.png does not exist"):
        load(tmp_path / "clevrtex_camo", "test")[0]


def test_imagenet_and_plain_folders(tmp_path: Path) -> None:
    for name in (
        "train/n01/a.JPEG",
        "train/n02/b.JPEG",
        "val/n01/c.JPEG",
        "train/.hidden/d.png",
        "train/n01/notes.txt",
    ):
        save(tmp_path / name, noise(20, 30), format="PNG")
    pictures = load(tmp_path, size=8)
    assert [path.name for path in pictures.paths] == ["a.JPEG", "b.JPEG"]
    assert len(load(tmp_path, "valid")) == 1
    with pytest.raises(AkornError, match="no split 'test': found train, val"):
        load(tmp_path, "test")
    nested = tmp_path / "copy"
    (nested / "ILSVRC/Data").mkdir(parents=True)
    (nested / "ILSVRC/Data/CLS-LOC").symlink_to(tmp_path)
    assert len(load(nested)) == 2
    plain = load(tmp_path / "train" / "n01", "test", size=8)
    assert len(plain) == 1
    assert plain[0].labels is None
    whole = plain.load([0])
    assert isinstance(whole, Pictures)
    assert whole.images.shape == (1, 3, 8, 8)
    assert len(load(tmp_path / "val/n01/c.JPEG")) == 1
    assert plain.fingerprint() != load(tmp_path / "train" / "n01", "test", size=9).fingerprint()


def test_every_kind_of_picture_becomes_rgb(tmp_path: Path) -> None:
    pixels = noise(9, 7).astype(np.uint8)
    image = Image.fromarray(pixels)
    for mode in ("L", "LA", "P", "RGBA", "1", "CMYK"):
        path = tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}"
        image.convert(mode).save(path)
        assert open_picture(path).mode == "RGB"
        assert load(path, size=4)[0].image.shape == (3, 4, 4)
    big = save(tmp_path / "big.jpg", np.broadcast_to(np.linspace(0, 255, 640), (3, 480, 640)).transpose(1, 2, 0))
    small = load(big, size=16)[0].image  # decoded at a fraction of its size
    expected = np.asarray(open_picture(big).resize((16, 16), Image.Resampling.BOX, box=(80, 0, 560, 480)))
    assert abs(small.transpose(1, 2, 0).astype(int) - expected).max() <= 3


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    whole = save(tmp_path / "b.png", noise(40, 40)).read_bytes()
    (tmp_path / "a.png").write_bytes(b"text")
    (tmp_path / "b.png").write_bytes(whole[:2000])
    pictures = load(tmp_path)
    with pytest.raises(AkornError, match=r"a.png: not a picture, expected"):
        pictures[0]
    with pytest.raises(AkornError, match=r"b.png: cannot be read as a picture"):
        pictures[1]
    with pytest.raises(AkornError, match=r"a.png: not a picture"):
        pictures.load(range(2))
    with pytest.raises(AkornError, match="at least 1, got -3"):
        load(tmp_path, size=-3)


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    save(tmp_path / "in/a.png", noise(4, 4))
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    assert len(load(tmp_path)) == 1


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = save(tmp_path / "ä.png", noise(4, 4))
    size = path.stat().st_size
    known = hashlib.sha256(f"imagenet 4 crop\nä.png {size}".encode())
    assert load(tmp_path, size=4).fingerprint() == known.hexdigest()  # checkpoints hold it: it must never change
    try:
        path.rename(tmp_path / os.fsdecode(b"\xff.png"))
    except OSError:
        pytest.skip("this file system takes names of UTF-8 only")
    known = hashlib.sha256(b"imagenet 4 crop\n\xff.png %d" % size)
    assert load(tmp_path, size=4).fingerprint() == known.hexdigest()


def test_huge_masks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "huge.png", np.zeros((10, 21)))
    assert open_mask(path).shape == (10, 21)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow refuses more than twice that
    with pytest.raises(AkornError, match=r"huge.png cannot be read as a mask \(Image size \(210 pixels\)"):
        open_mask(path)
