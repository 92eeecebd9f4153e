"""`akorn segment`: masks in the picture's own size, changes are reported, and one bad picture spoils no other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.cli import parse
from akorn.errors import AkornError
from akorn.objects.animation import write_animation
from akorn.objects.colouring import colour_labels, write_mask
from akorn.objects.commands import segment
from akorn.objects.config import AkornConfig
from akorn.objects.model import build
from akorn.objects.model_input import read_picture


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and pictures, where the commands run."""
    monkeypatch.setattr("akorn.rooms.ROOMS", ("sudoku", "objects"))
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2, blocks=2)).save_pretrained("tiny")
    pixels = np.full((16, 16, 3), 30, np.uint8)
    pixels[4:8, 4:12] = (250, 20, 20)
    Image.fromarray(pixels).save("good.png")
    Image.fromarray(pixels).resize((30, 20)).convert("L").save("grey.png")
    Path("text.png").write_text("not a picture")
    return tmp_path


def run(*words: object) -> int:
    options = parse(segment.Options, [*map(str, words), "--model", "tiny", "--device", "cpu"], "segment")
    return segment.run(options)


def test_masks_of_every_format(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["good.png", "grey.png", "--clusters", 3, "--uptile", 2, "--out", "out", "--format", "png,npz,overlay"]
    assert run(*words, "--gif", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["image"] for line in lines] == ["good.png", "grey.png"]
    assert lines[0]["changes"] == []
    assert lines[1]["changes"] == ["converted from L to RGB", "resized from 30 × 20 to 16 × 16"]
    assert {path.name for path in Path("out").iterdir()} == {
        f"{name}{end}" for name in ("good", "grey") for end in ("-mask.png", "-mask.npz", "-overlay.png", ".gif")
    }
    for name, size, shown in (("good", (16, 16), (256, 256)), ("grey", (30, 20), (270, 180))):
        labels = np.load(f"out/{name}-mask.npz")["labels"]
        with Image.open(f"out/{name}-mask.png") as mask:
            assert (mask.mode, mask.size) == ("P", size)
            np.testing.assert_array_equal(np.asarray(mask), labels)  # the numbers, not the colours
        assert labels.min() == 0
        assert labels.max() == 2
        with Image.open(f"out/{name}-overlay.png") as image:
            assert (image.mode, image.size) == ("RGB", shown)
    with Image.open("out/good.gif") as film:
        assert film.n_frames == 2 * (2 + 1)  # two blocks, each at its start and after each step
    assert lines[0]["pixels"] == np.bincount(np.load("out/good-mask.npz")["labels"].ravel()).tolist()


def test_the_same_seed_gives_the_same_mask(here: Path) -> None:
    assert run("good.png", "--clusters", 3, "--out", "a", "--format", "npz") == 0
    assert run("grey.png", "good.png", "--clusters", 3, "--out", "b", "--format", "npz") == 0  # whatever else is there
    np.testing.assert_array_equal(np.load("a/good-mask.npz")["labels"], np.load("b/good-mask.npz")["labels"])


def test_one_bad_picture_spoils_no_other(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sub").mkdir()
    Path("sub/good.png").write_bytes(Path("good.png").read_bytes())
    Path("empty").mkdir()
    Path("cut.png").write_bytes(Path("good.png").read_bytes()[:60])
    words = ["good.png", "text.png", "absent.png", "sub/good.png", "cut.png", "empty", "--clusters", 2, "--out", "out"]
    assert run(*words) == 2
    told = capsys.readouterr()
    assert told.out.startswith("good.png: 2 clusters → ")
    lines = told.err.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("akorn: ") for line in lines)
    for part in ("text.png: not a picture", "absent.png: there is no such file", "sub/good.png: its files would",
                 "cut.png: cannot be read", "empty: this folder contains no pictures"):  # fmt: skip
        assert part in told.err
    assert {path.name for path in Path("out").iterdir()} == {"good-mask.png", "good-overlay.png"}


def test_what_is_no_picture_takes_no_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`akorn segment *` in a folder where notes lie beside pictures."""
    Path("good.json").write_text("{}")
    assert run("good.json", "good.png", "--clusters", 2, "--out", "out") == 2
    told = capsys.readouterr()
    assert told.out.startswith("good.png: 2 clusters → ")
    assert told.err.splitlines() == ["akorn: good.json: not a picture, expected PNG, JPEG or similar"]


def test_every_cluster_counts_even_where_a_picture_has_fewer_pixels(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (1, 1)).save("dot.png")
    assert run("dot.png", "--clusters", 5, "--out", "out", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["clusters"], len(found["pixels"]), sum(found["pixels"])) == (5, 5, 1)


def test_a_larger_size_finds_smaller_things(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("grey.png", "--clusters", 20, "--size", 32, "--gif", "--format", "npz", "--out", "out", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["changes"] == ["converted from L to RGB", "resized from 30 × 20 to 32 × 32"]
    labels = np.load("out/grey-mask.npz")["labels"]
    assert labels.shape == (20, 30)
    assert len(np.unique(labels)) == 20  # of 64 patches: at its own size the model has 16
    assert run("good.png", "--clusters", 2, "--size", 32, "--no-resize", "--out", "out") == 2
    assert "16 × 16 pixels, expected 32 × 32" in capsys.readouterr().err
    for size in ((), ("--size", 16)):  # the model's own is the default
        assert run("good.png", "--clusters", 3, *size, "--format", "npz", "--out", f"own{len(size)}") == 0
    np.testing.assert_array_equal(*(np.load(f"own{n}/good-mask.npz")["labels"] for n in (0, 2)))


def test_more_patches_than_the_memory_holds(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.runtime.devices.machine_memory", lambda: 4 * 1024.0**2 - 1)
    words = ["good.png", "--clusters", 2, "--size", 32, "--uptile", 4]
    with pytest.raises(
        AkornError, match=r"1,024 patches per picture are too many .* smaller --uptile or --size, or --method"
    ):
        run(*words)
    assert run(*words, "--method", "kmeans") == 0


def test_models_of_other_tasks_are_refused(here: Path) -> None:
    options = parse(segment.Options, ["good.png", "--model", "sudoku", "--device", "cpu"], "segment")
    with pytest.raises(AkornError, match="sudoku: this is a model for sudoku, expected one for objects"):
        segment.run(options)


def test_other_sizes_are_refused_where_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("grey.png", "--clusters", 2, "--out", "out", "--no-resize", "--json") == 2
    assert "30 × 20 pixels, expected 16 × 16" in json.loads(capsys.readouterr().out)["error"]
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs a picture"),
        (["good.png"], "--clusters is missing"),
        (["good.png", "--clusters", 0], "--clusters must be at least 1"),
        (["good.png", "--clusters", 17], "17 clusters .* 16 patches"),
        (["good.png", "--clusters", 2, "--uptile", 3], "must divide the patch size, 4"),
        (["good.png", "--clusters", 2, "--size", 0], "--size must be at least 1"),
        (["good.png", "--clusters", 2, "--size", 30], "multiple of the patch size, 4: got 30, try 28 or 32"),
        (["good.png", "--clusters", 2, "--size", 3], "multiple of the patch size, 4: got 3, try 4"),
        (["good.png", "--clusters", 5, "--size", 8], "5 clusters .* 4 patches"),
        (["good.png", "--clusters", 2, "--format", "jpg"], "jpg"),
        (["good.png", "--clusters", 2, "--format", ""], "nothing to write"),
        (["good.png", "--clusters", 300], "at most 256"),
        (["good.png", "--clusters", 2, "--method", "ward"], "--method"),
        (["good.png", "--clusters", 2, "--seed", -1], "--seed"),
    ],
)
def test_mistakes(here: Path, words: list[object], message: str) -> None:
    before = sorted(here.iterdir())
    with pytest.raises(AkornError, match=message):
        run(*words)
    assert sorted(here.iterdir()) == before


def test_a_folder_that_cannot_be(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("good.png", "--clusters", 2, "--out", "text.png") == 2
    assert "text.png: the folder cannot be created" in capsys.readouterr().err


def test_no_picture_is_replaced_by_the_mask_of_another(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = Path("good.png").read_bytes()
    for name in ("x.png", "x-mask.png"):
        Path(name).write_bytes(content)
    for images in (("x.png", "x-mask.png"), ("x-mask.png", "x.png")):
        assert run(*images, "a" * 5000, "--clusters", 2, "--format", "png") == 2
        told = capsys.readouterr()
        assert "x-mask.png: that is another input, which x.png must not replace" in told.err
        assert "x-mask.png: 2 clusters → x-mask-mask.png" in told.out
        assert Path("x-mask.png").read_bytes() == content


def test_the_picture_itself_is_never_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = Path("good.png").read_bytes()
    Path("x.png").write_bytes(content)
    Path("x-mask.png").symlink_to("x.png")
    assert run("x.png", "--clusters", 2) == 2
    assert "that is the picture itself" in capsys.readouterr().err
    assert Path("x.png").read_bytes() == content


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_every_mode(tmp_path: Path, mode: str, channels: int) -> None:
    grey = np.zeros((8, 8), np.uint8)
    grey[2:6, 2:6] = 255
    deep = mode == "I;16"
    image = Image.fromarray(grey.astype(np.uint16) * 257) if deep else Image.fromarray(grey).convert(mode)
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    image.save(path)
    read = read_picture(path, 8, channels)
    assert read.pixels.shape == (channels, 8, 8)
    np.testing.assert_allclose(read.pixels.numpy(), np.broadcast_to(grey, (channels, 8, 8)), atol=1)


def test_animations_and_masks_that_cannot_be(tmp_path: Path) -> None:
    image = np.zeros((3, 4, 4), np.uint8)
    with pytest.raises(ValueError, match="states"):
        write_animation(tmp_path / "x.gif", image, [torch.zeros(2, 3)], np.zeros((4, 4), int))
    with pytest.raises(ValueError, match="20 ms"):
        write_animation(tmp_path / "x.gif", image, [torch.zeros(2, 4, 2, 2)], np.zeros((4, 4), int), milliseconds=1)
    with pytest.raises(ValueError, match="0 to 255"):
        write_mask(tmp_path / "x.png", np.full((2, 2), 256))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("size", "panel"),
    [
        ((30000, 10), (480, 1)),
        ((3, 70000), (1, 480)),
        ((960, 600), (480, 300)),
        ((480, 7), (480, 7)),
        ((8, 16), (96, 192)),
    ],
)
def test_animations_have_a_size_that_can_be_shown(
    tmp_path: Path, size: tuple[int, int], panel: tuple[int, int]
) -> None:
    width, height = size
    image = np.full((3, height, width), 200, np.uint8)
    image[:, :, ::2] = 0  # stripes
    clusters = np.zeros((height, width), int)
    clusters[height // 2 :, width // 2 :] = 1
    write_animation(tmp_path / "x.gif", image, [torch.randn(2, 4, 2, 2)], clusters)
    with Image.open(tmp_path / "x.gif") as film:
        assert film.size == (8 + 3 * (panel[0] + 8), 26 + panel[1] + 8)
        page = np.asarray(film.convert("RGB")).astype(int)[26:-8]
    first = page[:, 8 : 8 + panel[0]]
    last = page[:, 3 * 8 + 2 * panel[0] : -8]
    if max(size) > 480 and width > 3:
        assert abs(first - 100).max() < 30  # stripes too fine to be shown become grey, none is left out
    wanted = np.zeros(panel[::-1], int)
    wanted[panel[1] // 2 :, panel[0] // 2 :] = 1
    assert abs(last - colour_labels(wanted)).max() < 30  # no colours but those of the clusters
