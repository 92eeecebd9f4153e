"""Polygons and run lengths become the masks they describe; sizes and classes that masks cannot have are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.path import Path as Outline
from PIL import Image

from akorn.errors import AkornError
from akorn.objects.data import load
from akorn.objects.data.regions import decode_counts, fill_polygon, region

INSTANCES = Path(__file__).parents[3] / "shared/data/coco/annotations/instances_val2017.json"


def runs(mask: np.ndarray) -> list[int]:
    flat = mask.T.ravel()
    changes = np.flatnonzero(np.diff(np.concatenate([[False], flat, [not flat[-1]]]).astype(int)))
    return np.diff(np.concatenate([[0], changes])).tolist()


def encode_counts(counts: list[int]) -> str:
    """The text form, from its description."""
    text = ""
    for at, count in enumerate(counts):
        value = count - counts[at - 2] if at > 2 else count
        while True:
            bits = value & 31
            value >>= 5
            last = value == (-1 if bits & 16 else 0)
            text += chr(48 + (bits if last else bits | 32))
            if last:
                break
    return text


@pytest.mark.parametrize("seed", range(8))
def test_polygons_hold_the_middles_inside_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-5, 35, size=(rng.integers(3, 5), 2))  # triangles and quadrangles, some beyond the edge
    if len(corners) == 4:  # by angle: an outline that does not cross itself, so that all rules of filling agree
        middle = corners - corners.mean(0)
        corners = corners[np.argsort(np.arctan2(middle[:, 1], middle[:, 0]))]
    y, x = np.mgrid[:24, :30] + 0.5
    inside = Outline(np.vstack([corners, corners[:1]]), closed=True).contains_points(
        np.stack([x.ravel(), y.ravel()], 1)
    )
    assert np.array_equal(fill_polygon(corners.ravel().tolist(), 24, 30), inside.reshape(24, 30))


def test_neighbouring_polygons_share_no_pixel_and_leave_no_gap() -> None:
    left, right = [0, 0, 5, 0, 3.5, 8, 0, 8], [5, 0, 9, 0, 9, 8, 3.5, 8]
    assert (fill_polygon(left, 8, 9).astype(int) + fill_polygon(right, 8, 9) == 1).all()


def test_an_outline_that_crosses_itself_is_filled_by_turns() -> None:
    ring = [0, 0, 9, 0, 9, 9, 0, 9, 0, 0, 3, 3, 6, 3, 6, 6, 3, 6, 3, 3]
    wanted = np.ones((9, 9), dtype=bool)
    wanted[3:6, 3:6] = False
    assert np.array_equal(fill_polygon(ring, 9, 9), wanted)


@pytest.mark.parametrize("seed", range(6))
def test_run_lengths_in_both_forms_give_the_mask_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((37, 53)) < rng.uniform(0.02, 0.98)
    mask[:, 10:40] |= seed % 2 == 0  # long runs
    counts = runs(mask)
    for form in (counts, encode_counts(counts), encode_counts(counts).encode()):
        assert np.array_equal(region({"size": [37, 53], "counts": form}, 37, 53, "here"), mask)


def test_a_text_of_run_lengths_letter_by_letter() -> None:
    # '5' = 5; 'X1' = 8 + 32·1; '2' = 2; 'O' = −1, taken from the 40 two before
    assert decode_counts("5X12O") == [5, 40, 2, 39]
    with pytest.raises(AkornError, match="not one of their 64 characters"):
        decode_counts("5 5")


@pytest.mark.skipif(not INSTANCES.exists(), reason="the shared data are not there")
def test_real_annotations_have_their_areas() -> None:
    content = json.loads(INSTANCES.read_text())
    sizes = {image["id"]: (image["height"], image["width"]) for image in content["images"]}
    for annotation in content["annotations"]:
        mask = region(annotation["segmentation"], *sizes[annotation["image_id"]], "here")
        area, box = annotation["area"], annotation["bbox"]
        assert abs(mask.sum() - area) <= 0.03 * area + 2 * (box[2] + box[3])  # up to a pixel along the outline
        if annotation["iscrowd"]:
            assert mask.sum() == area  # of run lengths the area is a number of pixels


def tiny_coco(folder: Path, image: dict[str, object], annotation: dict[str, object]) -> Path:
    """COCO's layout, with one picture and one object."""
    for name in ("val2017", "annotations"):
        (folder / name).mkdir()
    Image.new("RGB", (8, 6)).save(folder / "val2017/a.png")
    one = {"id": 5, "image_id": 7, "category_id": 3, "segmentation": [[0, 0, 4, 0, 4, 4, 0, 4]], **annotation}
    content = {"images": [{"id": 7, "file_name": "a.png", "height": 6, "width": 8, **image}], "annotations": [one]}
    (folder / "annotations/instances_val2017.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("number", [1, 90, 32767])
def test_classes_are_cocos_numbers(tmp_path: Path, number: int) -> None:
    _, classes = load(tiny_coco(tmp_path, {}, {"category_id": number}), "test").masks(0)
    assert set(np.unique(classes)) == {0, number}


@pytest.mark.parametrize("number", ["cat", None, 0, -1, 32768, 99999, 3.0, True, [3]])
def test_classes_that_masks_cannot_hold(tmp_path: Path, number: object) -> None:
    tiny_coco(tmp_path, {}, {"category_id": number})
    with pytest.raises(AkornError) as found:
        load(tmp_path, "test")
    said = f"annotation 5 has the category_id {number!r}, expected a whole number from 1 to 32767"
    assert str(found.value) == f"{tmp_path / 'annotations/instances_val2017.json'}: {said}"


@pytest.mark.parametrize("side", ["height", "width"])
@pytest.mark.parametrize("value", [-1, 0, 10**9, 2**26 // 6 + 1, "6", None, 6.0, True])
def test_sizes_that_pictures_cannot_have(tmp_path: Path, side: str, value: object) -> None:
    tiny_coco(tmp_path, {side: value}, {})
    with pytest.raises(AkornError, match=rf"instances_val2017.json: image 7 has .*{side} {value!r}.*67,108,864 pixels"):
        load(tmp_path, "test")
