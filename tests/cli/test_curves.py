"""`akorn curves` and `akorn eval --against-models`: figures that compare runs and models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from akorn.sudoku import plots
from akorn.sudoku.config import ItrSAConfig, SudokuConfig
from akorn.sudoku.net import build

from .conftest import Akorn, assert_refused


def run_of(folder: Path, losses: list[float]) -> Path:
    folder.mkdir(parents=True)
    lines = [json.dumps({"step": 10 * k, "seconds": k, "loss": loss}) for k, loss in enumerate(losses, start=1)]
    (folder / "scalars.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_losses_of_several_runs_with_one_colour_for_the_seeds_of_a_model(akorn_here: Akorn, tmp_path: Path) -> None:
    for name in ("omega-0", "omega-1", "symmetric"):
        run_of(tmp_path / name, [2.0, 1.0, 0.5])
    runs = ("omega-0", "omega-1", "symmetric")
    done = akorn_here("curves", *runs, "--labels", "with Ω", "with Ω", "symmetric", "--log", "--out", "a/loss.svg")
    assert done.returncode == 0
    assert "wrote a/loss.svg" in done.stderr
    svg = (tmp_path / "a" / "loss.svg").read_text()
    for colour, lines in (("#1f77b4", 3), ("#ff7f0e", 2), ("#2ca02c", 0)):  # one more each in the legend
        assert svg.count(f"stroke: {colour}") == lines
    done = akorn_here("curves", *runs, "--json")
    assert json.loads(done.stdout) == {"plot": "curves.png", "runs": list(runs), "metric": "loss"}
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_what_cannot_be_drawn(akorn_here: Akorn, tmp_path: Path) -> None:
    run_of(tmp_path / "a", [1.0])
    assert_refused(akorn_here("curves"), "one or more runs' folders")
    assert_refused(akorn_here("curves", "a", "--labels", "x", "y"), "1 runs need as many --labels, got 2")
    assert_refused(akorn_here("curves", "nowhere"), "nowhere")
    assert_refused(akorn_here("curves", "a", "--metric", "eval/x"), "it has no curve 'eval/x'")
    assert_refused(akorn_here("curves", "a", "--out", "curves.txt"), ".png, .svg or .pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_energies_with_and_without_omega_side_by_side(
    akorn_here: Akorn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    tiny = {"channels": 16, "heads": 2, "steps": 2}
    build(SudokuConfig(**tiny)).save_pretrained(tmp_path / "omega" / "model")
    build(SudokuConfig(**tiny, omega=False, step="damped")).save_pretrained(tmp_path / "no-omega" / "model")
    build(ItrSAConfig(**tiny)).save_pretrained(tmp_path / "itrsa")
    drawn = []
    plain = plots.plot_energy_histogram
    monkeypatch.setattr(
        plots, "plot_energy_histogram", lambda sets, *a, **b: drawn.append(sets) or plain(sets, *a, **b)
    )
    words = (
        "eval",
        "omega/model",
        "--limit",
        3,
        "--votes",
        4,
        "--device",
        "cpu",
        "--results",
        "None",
        "--plots",
        "plots",
    )
    done = akorn_here(*words, "--against-models", "no-omega/model")
    assert done.returncode == 0, done.stderr
    (sets,) = drawn
    assert list(sets) == ["omega", "no-omega"]
    energies = [values for values, _ in sets.values()]
    assert [values.shape for values in energies] == [(3, 4), (3, 4)]
    assert abs(energies[0] - energies[1]).min() > 1e-4
    assert (tmp_path / "plots" / "histogram.png").stat().st_size > 1000
    assert_refused(akorn_here(*words[:-2], "--against-models", "no-omega/model"), "--against-models needs --plots")
    assert_refused(akorn_here(*words, "--against-models", "itrsa"), "itrsa: has no energy")
    assert_refused(akorn_here(*words, "--against-models", "nowhere"), "nowhere")
