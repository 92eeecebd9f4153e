"""`akorn segment` for someone who names nothing but pictures: the model, folders, and overlays that can be seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.cli import parse
from akorn.models import load_model
from akorn.objects import model_input
from akorn.objects.colouring import background_first, overlay, palette, shown_overlay
from akorn.objects.commands import segment
from akorn.objects.commands.known_pictures import choose_model, doubts, what_it_knows
from akorn.runtime.picture_folders import expand_folders


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    pixels = np.zeros((40, 40, 3), np.uint8)
    pixels[8:20, 8:30] = (250, 20, 20)
    Image.fromarray(pixels).save("in/colour.png")
    Image.fromarray(pixels).convert("L").save("in/grey.png")
    return tmp_path


def run(*words: object) -> int:
    return segment.run(parse(segment.Options, [*map(str, words), "--device", "cpu", "--out", "out"], "segment"))


@pytest.mark.parametrize(
    ("picture", "model", "knows"),
    [
        ("in/colour.png", "dsprites", "dsprites, trained only on coloured drawings of 64 × 64 pixels"),
        ("in/grey.png", "shapes", "shapes, trained only on grey drawings of 40 × 40 pixels"),
    ],
)
def test_the_model_that_is_taken_says_what_it_knows(
    here: Path, picture: str, model: str, knows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(picture, picture.replace("/", "/../in/")) == 2  # the same picture twice: the second is refused
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"using the model {knows} (--model chooses another)"
    assert not any("using the model" in line for line in told[1:])
    assert run(picture, "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["model"] == model
    assert told.err == ""


def test_grey_is_seen_also_where_it_is_stored_as_colours(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.open("in/grey.png").convert("RGB").save("in/grey-rgb.png")
    Path("text.png").write_text("not a picture")
    assert choose_model(["text.png", "absent.png", "in/grey-rgb.png"]) == "shapes"
    assert choose_model(["text.png"]) == "dsprites"  # what is wrong with the picture is said later
    assert run("text.png") == 2
    assert "using the model" not in capsys.readouterr().err  # nothing was segmented


def test_a_large_picture_is_a_warning(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (900, 600), (90, 80, 70)).save("photo.jpg")
    assert run("photo.jpg") == 0
    told = capsys.readouterr().err
    assert told.startswith("using the model photos, for photographs (--model chooses another)\n")
    assert "was trained on drawings" not in told
    assert run("photo.jpg", "--model", "dsprites") == 0
    assert "900 × 600 pixels, and dsprites was trained on drawings of 64 × 64" in capsys.readouterr().err
    assert run("photo.jpg", "in/colour.png", "--json", "--model", "tetrominoes") == 0
    large, small = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert len(large["warnings"]) == 1
    assert small["warnings"] == []
    with Image.open("out/photo-overlay.png") as shown:
        assert shown.size == (900, 600)  # large enough as it is


def test_folders(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in/notes.txt").write_text("not looked at")
    Path("in/old-mask.png").write_bytes(Path("in/grey.png").read_bytes())
    Path("in/deeper.png").mkdir()
    assert run("in", "--model", "tetrominoes", "--json") == 0
    told = capsys.readouterr()
    assert [json.loads(line)["image"] for line in told.out.splitlines()] == ["in/colour.png", "in/grey.png"]
    Path("empty").mkdir()
    assert run("empty", "in", "--model", "tetrominoes") == 2
    told = capsys.readouterr()
    assert "akorn: empty: this folder contains no pictures" in told.err
    assert told.out.count("clusters →") == 2


def test_names_of_folders_become_their_pictures(here: Path) -> None:
    assert expand_folders(["a.png", "in", "nowhere"]) == ("a.png", "in/colour.png", "in/grey.png", "nowhere")
    assert expand_folders(["in"], without=("grey.png",)) == ("in/colour.png",)
    for name in ("a.JFIF", "b.jpe", "c.jp2", "d.tga", "e.pdf", "f.eps", "g.mpg", "h.svg"):
        Path("in", name).write_bytes(b"")
    Path("in/i.png").symlink_to("gone.png")
    assert [name[3:] for name in expand_folders(["in"])] == [
        "a.JFIF", "b.jpe", "c.jp2", "colour.png", "d.tga", "grey.png", "i.png",
    ]  # fmt: skip
    Path("in/.hidden.png").write_bytes(b"")
    assert "in/.hidden.png" not in expand_folders(["in"])
    assert expand_folders(["x" * 300, "a\0b"]) == ("x" * 300, "a\0b")


def test_the_background_is_the_largest_cluster_at_the_border() -> None:
    labels = np.zeros((6, 6), int)  # a corner of 0, 1 around, 2 large inside
    labels[:] = 1
    labels[0, 0] = 0
    labels[1:5, 1:5] = 2
    found = background_first(labels)
    assert (found[0, 1], found[0, 0], found[3, 3]) == (0, 1, 2)
    labels[1:5, 1:5] = 1
    labels[2, 2] = 3  # number 2 has no pixel, and keeps its place
    assert background_first(labels)[2, 2] == 3
    np.testing.assert_array_equal(background_first(np.zeros((0, 4), int)), np.zeros((0, 4), int))
    np.testing.assert_array_equal(background_first(np.full((2, 2), 5)), np.zeros((2, 2)))


def test_the_background_has_the_same_colour_in_every_overlay(here: Path) -> None:
    assert run("in", "--model", "tetrominoes") == 0
    for name in ("colour", "grey"):
        with Image.open(f"out/{name}-mask.png") as mask, Image.open(f"out/{name}-overlay.png") as shown:
            labels, pixels = np.asarray(mask), np.asarray(shown)
            corner = np.asarray(mask.convert("RGB"))[labels == 0][0]
        border = np.concatenate((labels[0], labels[-1], labels[:, 0], labels[:, -1]))
        assert all((labels == 0).sum() >= (labels == other).sum() for other in np.unique(border))
        np.testing.assert_array_equal(corner, palette(1)[0])
        black = np.asarray(Image.open(f"in/{name}.png").convert("L")) == 0
        seen = pixels[3::7, 3::7][(labels == 0) & black]  # the middle of each enlarged pixel
        np.testing.assert_array_equal(np.unique(seen, axis=0), [(palette(1)[0] / 2).round()])


def test_small_overlays_are_enlarged_and_their_borders_stay_thin() -> None:
    image, labels = np.full((3, 10, 7), 100, np.uint8), np.zeros((10, 7), int)
    labels[:, 4:] = 1
    shown = shown_overlay(image, labels)
    assert shown.shape == (260, 182, 3)
    white = (shown == 255).all(2)
    assert white.any(0).sum() == 1  # one column of pixels
    np.testing.assert_array_equal(shown_overlay(*(a.repeat(300, -1) for a in (image, labels))).shape[:2], (10, 2100))


def test_an_overlay_of_many_rows_is_that_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    image, labels = rng.integers(0, 256, (3, 600, 5), dtype=np.uint8), np.zeros((600, 5), int)
    whole = overlay(image, labels)
    np.testing.assert_array_equal(whole, np.concatenate([overlay(image[:, k:k + 100], labels[k:k + 100])
                                                         for k in range(0, 600, 100)]))  # fmt: skip


def test_a_large_picture_is_reduced_and_its_mask_is_as_small(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_input, "MOST_PIXELS", 20 * 20)
    assert run("in/colour.png", "--model", "dsprites") == 0
    assert "in/colour.png: reduced from 40 × 40 to 20 × 20, like its mask" in capsys.readouterr().err
    assert Image.open("out/colour-mask.png").size == (20, 20)


def test_a_model_of_rendered_scenes_says_so_and_up_tiles(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_model("clevr").config
    assert what_it_knows("clevr", config) == "clevr, trained only on rendered scenes of 128 × 128 pixels"
    assert doubts("clevr", config, (240, 320)) == []
    assert "clevr was trained on rendered scenes of 128 × 128" in doubts("clevr", config, (600, 900))[0]
    assert run("in/colour.png", "--model", "clevr", "--format", "npz") == 0
    with np.load("out/colour-mask.npz") as masks:
        fine = masks["labels"]
    assert run("in/colour.png", "--model", "clevr", "--format", "npz", "--uptile", "4") == 0
    with np.load("out/colour-mask.npz") as masks:
        assert (masks["labels"] == fine).all()
