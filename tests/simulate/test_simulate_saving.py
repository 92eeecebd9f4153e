"""What the simulator shows and writes: colours, figures, animations that can be read, and its command line."""

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from PIL import Image

import akorn.simulate as sim
from akorn import theory
from akorn.errors import AkornError
from akorn.simulate.commands.simulate import Options, run
from akorn.simulate.figure import figure_of
from akorn.simulate.frames import colours
from akorn.simulate.saving import write_animation

SMALL = {"size": 16, "steps": 12, "kernel_size": 5}


def test_similar_directions_have_similar_colours() -> None:
    for n in (2, 3, 4):
        x = torch.nn.functional.normalize(torch.randn(500, n, dtype=torch.float64), dim=1)
        near = torch.nn.functional.normalize(x + 0.01 * torch.randn(500, n), dim=1)
        difference = colours(x.numpy()).astype(int) - colours(near.numpy()).astype(int)
        assert np.abs(difference).max() < 16
        assert colours(x.numpy()).std() > 30
    along = np.full((1, 4), 0.5)
    assert colours(along).min() > 235
    assert colours(-along).max() < 20


def test_the_figure_says_what_is_violated() -> None:
    assert _title(sim.simulate("waves", **SMALL)) == "conditions violated: J is not symmetric"
    assert _title(sim.simulate("fish", **SMALL)) == "conditions hold"


def _title(result: sim.Simulation) -> str:
    return next(axes.get_title() for axes in figure_of(result).axes if axes.get_ylabel() == "energy E")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("fish.avi", "must end in .gif or .mp4, not in '.avi'"),
        ("fish", "must end in .gif or .mp4"),
        ("nowhere/fish.gif", "does not exist"),
        ("folder.gif", "is a folder"),
    ],
)
def test_bad_outputs_are_refused_before_the_work(
    tmp_path: Path, out: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.gif").mkdir()
    monkeypatch.setattr("akorn.simulate.run.simulate", lambda *_, **__: pytest.fail("the work has begun"))
    with pytest.raises(AkornError, match=message):
        run(Options(out=tmp_path / out))
    assert sorted(os.listdir(tmp_path)) == ["folder.gif"]


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        ("akorn.simulate.run.simulate", ValueError("x has 3 NaN values"), "x has 3 NaN values"),  # a layer's refusal
        # A folder that cannot be written: the tests may run as root, whom nothing stops.
        (
            "tempfile.TemporaryFile",
            PermissionError(13, "Permission denied"),
            r"cannot be written \(Permission denied\)",
        ),
    ],
)
def test_what_others_refuse_is_one_line(
    tmp_path: Path, part: str, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(part, refuse)
    with pytest.raises(AkornError, match=message):
        run(Options(out=tmp_path / "fish.gif"))


def decoded(path: Path) -> np.ndarray:
    """All frames of a video, by ffmpeg: [frames, height, width, 3]."""
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    return np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader])


@pytest.mark.parametrize("preset", ["fish", "classic"])
@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_files_can_be_read(tmp_path: Path, preset: str, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"oscillators": 40, "k_count": 4} if preset == "classic" else {"size": 17, "kernel_size": 5}
    out = tmp_path / f"a.{ending}"
    out.write_bytes(b"old")  # is replaced
    assert run(Options(preset=preset, out=out, overwrite=True, steps=12, frames=6, **sizes)) == 0
    assert sorted(os.listdir(tmp_path)) == sorted([out.name, "a.png"])
    if ending == "gif":
        with Image.open(out) as gif:
            assert gif.n_frames == 7
            frames = np.stack([_frame(gif, i) for i in range(7)])
    else:
        frames = decoded(out)
        assert len(frames) == 7
    assert min(frames.shape[1:3]) >= 300
    assert (frames[0] != frames[-1]).mean() > 0.01
    with Image.open(tmp_path / "a.png") as figure:
        figure.load()
        assert figure.size[0] > 900
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    assert "the energy fell from" in printed.out
    assert "12 steps" in printed.out
    assert f"wrote {out} and {tmp_path / 'a.png'}\n" in printed.err


@pytest.mark.parametrize("there", ["a.gif", "a.png"])
def test_files_are_left_alone_unless_overwriting_is_asked_for(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / there).write_bytes(b"mine")
    options = Options(out=tmp_path / "a.gif", steps=2, frames=2, size=16, kernel_size=5)
    with monkeypatch.context() as no_work:
        no_work.setattr("akorn.simulate.run.simulate", lambda *_, **__: pytest.fail("the work has begun"))
        with pytest.raises(AkornError, match=f"{there} already exists: --overwrite replaces it, --out"):
            run(options)
    assert (tmp_path / there).read_bytes() == b"mine"
    assert os.listdir(tmp_path) == [there]
    assert run(replace(options, overwrite=True)) == 0
    assert (tmp_path / there).read_bytes() != b"mine"
    assert sorted(os.listdir(tmp_path)) == ["a.gif", "a.png"]


@pytest.mark.parametrize("settings", [{}, {"frequencies": "gaussian"}, {"k_min": 3.0, "k_max": 9.0}])
def test_no_legend_lies_over_a_curve(settings: dict[str, object]) -> None:
    figure = figure_of(sim.simulate("classic", oscillators=40, k_count=6, steps=20, **settings))
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        frame = legend.get_window_extent()
        assert frame.y1 <= axes.get_window_extent().y0  # below the axes, and inside the picture
        assert frame.y0 >= 0
        assert frame.x0 >= 0
        assert frame.x1 <= figure.bbox.x1
        labels = [axes.xaxis.label, *axes.get_xticklabels()]
        assert not any(frame.overlaps(label.get_window_extent()) for label in labels if label.get_text())


def _frame(gif: Image.Image, index: int) -> np.ndarray:
    gif.seek(index)
    return np.asarray(gif.convert("RGB"))


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Options(preset="waves", out=tmp_path / "w.gif", steps=5, size=16, json=True, seed=2))
    record = json.loads(capsys.readouterr().out)
    expected = sim.simulate("waves", steps=5, size=16, seed=2)
    assert record["energy_last"] == pytest.approx(expected.energies[-1])
    assert record["conditions_failed"] == [theory.SYMMETRIC]
    assert record["animation"].endswith("w.gif")


def test_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.gif"
    out.write_bytes(b"old")
    result = sim.simulate("fish", **SMALL)

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_animation(result, out, stops)
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.gif"]
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: sys.executable)  # fails on the options
    with pytest.raises(AkornError, match="ffmpeg could not write"):
        write_animation(result, tmp_path / "a.mp4")
    assert os.listdir(tmp_path) == ["a.gif"]


def test_help_names_every_preset_and_needs_no_torch() -> None:
    code = (
        "import sys, akorn.simulate.commands.simulate as s\n"
        "assert not {'torch', 'matplotlib', 'PIL'} & set(sys.modules)\n"
        "print(s.__doc__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    names = {field.name for field in fields(Options)}
    for settings in sim.PRESETS.values():
        assert {field.name for field in fields(settings)} - {"kernel"} <= names  # every option has its flag
