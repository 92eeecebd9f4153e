"""`akorn segment` for photographs: the model, masks in COCO's format, the page, large pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn import models
from akorn.cli import parse
from akorn.errors import AkornError
from akorn.objects.coco_json import annotate, encode_counts
from akorn.objects.commands import segment
from akorn.objects.commands.known_pictures import choose_model
from akorn.objects.data.fitting import stretch_mask
from akorn.objects.data.regions import decode_counts, region
from akorn.objects.features import as_masks


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two photographs and a text, and small weights of the name `photos` that ship."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    pixels = np.zeros((200, 260, 3), np.uint8)
    pixels[40:120, 50:180] = (250, 120, 20)
    Image.fromarray(pixels).save("in/one.png")
    Image.fromarray(pixels[::-1].copy()).save("in/two.jpg")
    Path("in/bad.jpg").write_text("not a picture")
    model = models.create_model("photos_akorn", seed=0, channels=16, heads=2, blocks=1, steps=1)
    weights = tmp_path / "weights"
    for name in ("shapes", "dsprites"):  # only their names matter here
        model.save_pretrained(weights / name)
    model.save_pretrained(weights / "photos")
    monkeypatch.setattr(models, "WEIGHTS", weights)
    return tmp_path


def run(*words: object) -> int:
    return segment.run(parse(segment.Options, [*map(str, words), "--device", "cpu", "--out", "out"], "segment"))


def test_photographs_get_the_model_of_photographs(here: Path) -> None:
    Image.new("RGB", (40, 40), (9, 200, 9)).save("small.png")
    assert choose_model(["in/bad.jpg", "in/one.png"]) == "photos"
    assert choose_model(["small.png"]) == "dsprites"
    assert choose_model(["small.png", "in/one.png"]) == "photos"  # a tie
    assert choose_model(["small.png", "in/one.png", "in/two.jpg"]) == "photos"  # whichever comes first
    assert choose_model(["in/one.png", "small.png", "small.png"]) == "dsprites"
    for path in (models.WEIGHTS / "photos").iterdir():
        path.unlink()
    (models.WEIGHTS / "photos").rmdir()
    assert choose_model(["in/one.png"]) == "dsprites"


def test_a_folder_becomes_a_page_with_all_its_pictures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("in", "--format", "png,overlay,coco", "--clusters", "auto") == 2  # one of them is no picture
    told = capsys.readouterr()
    assert "wrote out/index.html" in told.err
    assert "2 pictures segmented, 1 failed" in told.err.splitlines()
    page = Path("out/index.html").read_text()
    assert page.count("<li>") == 3
    assert page.count("data:image/jpeg;base64,") == 4
    assert "bad.jpg: not a picture" in page
    with Image.open("out/two-overlay.png") as shown:
        assert shown.size == (260, 200)
    content = json.loads(Path("out/masks.coco.json").read_text())
    assert [image["file_name"] for image in content["images"]] == ["one.png", "two.jpg"]
    for image, name in zip(content["images"], ("one", "two"), strict=True):
        with Image.open(f"out/{name}-mask.png") as mask:
            labels = np.asarray(mask)
        mine = [one for one in content["annotations"] if one["image_id"] == image["id"]]
        assert len(mine) == len(np.unique(labels)) - 1
        for number, one in enumerate(mine, 1):
            found = region(one["segmentation"], 200, 260, name)
            np.testing.assert_array_equal(found, labels == number)
            assert one["area"] == found.sum()
    assert len({one["id"] for one in content["annotations"]}) == len(content["annotations"])


def test_a_picture_alone_has_no_page_unless_asked_for(here: Path) -> None:
    assert run("in/one.png", "--clusters", 3) == 0
    assert not Path("out/index.html").exists()
    assert run("in/one.png", "--clusters", 3, "--page", "yes") == 0
    assert "3 clusters" in Path("out/index.html").read_text()


def test_pictures_whose_names_differ_in_the_suffix(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one.bmp", "three.png"):
        Image.new("RGB", (200, 200)).save(f"in/{name}")
    Path("in/two.png").write_text("not a picture, so it takes no name")
    assert run("in", "--format", "png", "--clusters", 1) == 2
    assert sorted(path.name for path in Path("out").glob("*.png")) == [
        "one-bmp-mask.png", "one-png-mask.png", "three-mask.png", "two-mask.png",
    ]  # fmt: skip
    told = capsys.readouterr()
    assert "4 pictures segmented, 2 failed" in told.err
    assert "three.png: 1 cluster →" in told.out
    assert "1 cluster, 200 × 200 pixels" in Path("out/index.html").read_text()


def test_a_picture_of_one_colour_is_one_cluster(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = np.random.default_rng(0).integers(90, 93, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("plain.png")
    for edges in (0, 3):
        assert run("plain.png", "--clusters", "auto", "--edges", edges) == 0
        assert "plain.png: 1 cluster →" in capsys.readouterr().out
    assert run("in/one.png", "--clusters", "auto") == 0
    assert "1 cluster →" not in capsys.readouterr().out


def test_run_lengths_are_read_back() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        counts = generator.integers(0, 2 ** generator.integers(1, 20), generator.integers(1, 30)).tolist()
        assert decode_counts(encode_counts(counts)) == counts
    labels = generator.integers(0, 3, (7, 9))
    labels[0, 0] = labels[-1, -1] = 2  # both ends inside
    for one in annotate(labels, 1, 1):
        np.testing.assert_array_equal(region(one["segmentation"], 7, 9, "x"), labels == one["id"])
        left, top, wide, high = one["bbox"]
        rows, columns = (labels == one["id"]).nonzero()
        assert (left, top, wide, high) == (
            columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1,
        )  # fmt: skip


@pytest.mark.parametrize("size", [(5, 9), (64, 64), (131, 70)])
def test_masks_are_stretched_like_those_that_are_scored(size: tuple[int, int]) -> None:
    import torch

    mask = torch.randint(5, (16, 16), generator=torch.Generator().manual_seed(0))
    expected = as_masks(mask.flatten()[None], (16, 16), size)[0].numpy()
    np.testing.assert_array_equal(stretch_mask(mask.numpy(), *size), expected)


def test_photographs_are_cut_at_their_own_pixels(here: Path) -> None:
    """A rectangle whose sides lie inside patches: with edges, the mask changes in the very row of the picture."""
    assert run("in/one.png", "--format", "npz", "--clusters", 2) == 0
    ends = np.load("out/one-mask.npz")["labels"]
    assert run("in/one.png", "--format", "npz", "--clusters", 2, "--edges", 0) == 0
    blocks = np.load("out/one-mask.npz")["labels"]
    assert ends.shape == blocks.shape == (200, 260)
    rows = {int(row) for row in np.nonzero(ends[1:, 115] != ends[:-1, 115])[0] + 1}
    assert rows
    assert all(min(abs(row - side) for side in (40, 120)) <= 2 for row in rows)
    assert not np.array_equal(ends, blocks)


def test_an_impossible_weight_of_edges_is_said_in_a_line(here: Path) -> None:
    with pytest.raises(AkornError, match=r"^the weight of edges is -2, expected 0 or more$"):
        run("in/one.png", "--edges", -2)
