"""Oscillators as an animation: unit vectors as colours, one start for all pictures, and files as requested."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.cli import main
from akorn.errors import AkornError
from akorn.robustness.animation import colour, trajectory, write_animation
from akorn.robustness.config import AkornConfig, ItrConvConfig
from akorn.robustness.model import build

SMALL = AkornConfig(channels=(8, 8, 8), kernels=(3, 3, 3))


def test_states_are_unit_vectors_from_one_start() -> None:
    torch.manual_seed(0)
    model, images = build(SMALL).eval(), torch.rand(2, 3, 32, 32)
    states = trajectory(model, images, 3, seed=5)
    assert states.shape == (4, 2, 4, 2, 32, 32)
    torch.testing.assert_close(states.norm(dim=3), torch.ones(4, 2, 4, 32, 32))
    assert torch.equal(states[0, 0], states[0, 1])
    assert not torch.allclose(states[1, 0], states[1, 1])
    assert torch.equal(states, trajectory(model, images, 3, seed=5))


def test_models_without_oscillators_are_refused() -> None:
    with pytest.raises(AkornError, match="oscillators to show"):
        trajectory(build(ItrConvConfig(channels=(8, 8, 8), kernels=(3, 3, 3))), torch.rand(1, 3, 32, 32), 2)


def test_the_hue_is_the_angle_and_the_brightness_the_length() -> None:
    angles = torch.tensor([0.0, 2 * math.pi / 3, 4 * math.pi / 3, 0.0])
    lengths = torch.tensor([1.0, 1.0, 1.0, 0.0])
    states = torch.stack([lengths * angles.cos(), lengths * angles.sin()], 1)[:, :, None, None]  # [4, 2, 1, 1]
    shown = colour(states)
    assert shown.shape == (2, 2, 3)
    assert [int(np.argmax(shown[place])) for place in ((0, 0), (0, 1), (1, 0))] == [0, 1, 2]  # red, green, blue
    assert shown[0, 0].max() == 255
    assert shown[1, 1].max() == 0


def test_a_page_for_every_state(tmp_path: Path) -> None:
    images, states = torch.rand(2, 3, 32, 32), torch.randn(5, 2, 4, 2, 32, 32)
    write_animation(tmp_path / "two.gif", images, states, ("one", "two"))
    with Image.open(tmp_path / "two.gif") as gif:
        assert gif.n_frames == 5
    with pytest.raises(ValueError, match="of the same pictures"):
        write_animation(tmp_path / "none.gif", images, states, ("one",))


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    build(SMALL).save_pretrained("small")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)).save("some.png")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["classify", "some.png", "--model", "small", "--device", "cpu", *words])
    return int(end.value.code or 0)


@pytest.mark.usefixtures("picture")
def test_the_command_writes_it_where_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--gif", "--steps", "2", "--out", "shown") == 0
    assert "wrote shown/some.gif" in capsys.readouterr().err
    with Image.open("shown/some.gif") as gif:
        assert gif.n_frames == 3
    assert [path.name for path in Path("shown").iterdir()] == ["some.gif"]


@pytest.mark.usefixtures("picture")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gif", "--steps", "0"], "--steps must be at least 1, got 0"),
        (["--gif", "--noise", "2"], "--noise must be from 0 to 1"),
        (["--gif", "--out", "some.png"], "some.png"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert not list(Path().glob("*.gif"))
