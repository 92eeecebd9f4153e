"""`akorn models`: shipped models come first, with size, scores and the command to use them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from akorn import models
from akorn.cli import COMMANDS
from akorn.model_cards import Card, read_card

from .conftest import Akorn, assert_refused
from .test_main import run_without_torch


def test_what_ships_is_shown_and_the_rest_on_request(akorn_here: Akorn) -> None:
    shipped, known = models.list_models(pretrained=True), models.list_models()
    short, long = akorn_here("models").stdout, akorn_here("models", "--all").stdout
    assert all(f"\n  {name}  (" in short for name in shipped)
    assert len(short.splitlines()) < 40
    assert f"{len(known) - len(shipped)} more can be built by name and trained: akorn models --all" in short
    assert not any(f"\n  {name} " in short for name in known if name not in shipped)
    assert all(f"\n  {name} " in long for name in known)
    assert [short.index(f"\n{task}\n") for task in ("sudoku", "objects", "robustness")] == sorted(
        short.index(f"\n{task}\n") for task in ("sudoku", "objects", "robustness")
    )


def test_every_shipped_model_has_size_scores_and_a_command(akorn_here: Akorn) -> None:
    told = json.loads(akorn_here("models", "--json").stdout)
    assert sorted(told) == models.list_models()
    for name in models.list_models(pretrained=True):
        entry = told[name]
        weights = models.shipped_folder(name) / "model.safetensors"
        assert entry["pretrained"] is True
        assert entry["megabytes"] == pytest.approx(weights.stat().st_size / 1e6, abs=0.1)
        assert entry["about"]
        assert entry["measured"]
        assert all(0 < score <= 100 for score in entry["scores"].values())
        program, command, *_, option, model = shlex.split(entry["command"])
        assert (program, option, model) == ("akorn", "--model", name)
        assert command in COMMANDS
    assert told["cifar10-conv"]["scores"] == {"one start": 84.2, "four starts": 85.7}
    assert told["tetrominoes"]["scores"] == {"FG-ARI": 92.1, "MBO": 58.3}
    assert told["tetrominoes"]["measured"] == "without up-tiling"
    assert list(told["sudoku"]["scores"])[1:] == [
        "adaptive effort (64 starts × 2,048 steps)", "the same without symmetries"
    ]  # fmt: skip
    assert told["sudoku-itrsa"] == {
        "pretrained": False, "task": "sudoku", "megabytes": None, "about": told["sudoku-itrsa"]["about"],
        "measured": "", "scores": {}, "command": "akorn train sudoku_itrsa",
    }  # fmt: skip


def test_tables_are_named_as_a_reader_of_the_paper_sees_them(akorn_here: Akorn) -> None:
    """By number, not by a label of its source."""
    recipes = json.loads(akorn_here("recipes", "--json").stdout)
    for told in (*recipes.values(), akorn_here("models", "--all").stdout):
        assert not re.search(r"(Tab|Fig)[a-z]*\.? ?`", told)
    assert recipes["sudoku_akorn"] == "AKOrN with attention (Table 19)."
    assert recipes["cifar10_akorn_conv_falling_rate"].endswith("falls to 0; this is the shipped `cifar10-conv`.")
    assert recipes["cifar10_resnet18_noise02"].endswith("(Table 8).")
    package = Path(models.__file__).parent
    labelled = [path for path in package.rglob("*.py") if re.search(r"\b(Tab|Fig)\. `", path.read_text("utf-8"))]
    assert labelled == []


def test_listing_needs_no_torch() -> None:
    result = run_without_torch("models", "--all")
    assert result.returncode == 0, result.stderr


def test_an_option_that_is_unknown(akorn_here: Akorn) -> None:
    assert_refused(akorn_here("models", "--everything"), "--everything", "akorn models --help")


@pytest.mark.parametrize(
    ("content", "card"),
    [
        (b"", Card()),
        (b"\xff\xfe\x00", Card()),
        (b"# x: a model\n\nno table\n", Card("a model")),
        (b"# x: a model\n\n| a | b |\n|---|---|\n", Card("a model")),
        (b"# x: a model\n\n| setting | value |\n|---|---|\n| channels | many |\n", Card("a model")),
        (b"|---|---|\n", Card()),
        (
            b"# x: y\n\n| | |\n|---|---|\n| recipe | 3 |\n\n| | MBO | paper |\n|---|---|---|\n| all | 3.5 | 4.0 |\n",
            Card("y", "all", {"MBO": 3.5}),
        ),
        (b"# x: y\n\n| | MBO |\n|---|---|\n| all | 3.5 | 4.0 | 5 |\n", Card("y", "all", {"MBO": 3.5})),
    ],
)
def test_cards(content: bytes, card: Card, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(content)
    assert read_card(tmp_path / "README.md") == card


def test_a_card_that_is_not_there(tmp_path: Path, akorn_here: Akorn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_card(tmp_path / "README.md") == Card()
    folder = tmp_path / "weights" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"library": "akorn", "version": 1, "task": "sudoku"}')
    monkeypatch.setattr(models, "WEIGHTS", tmp_path / "weights")
    told = akorn_here("models")
    assert "  mine  ()\n" not in told.stdout
    assert "akorn solve PUZZLE --model mine" in told.stdout
