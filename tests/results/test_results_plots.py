"""The plots that are drawn from records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akorn.ledger import read_records, write_record

plots = pytest.importorskip("results.pages.plots", reason="the repository's folder results/ is not here")

CURVE = {"loss": {"steps": [100, 200], "values": [1.0, 0.5]}}


def trained(folder: Path, name: str, seed: int = 0, warmup: bool = True, **more: Any) -> Path:
    return write_record(
        "train", name, {}, config={"ema": {"warmup": warmup}}, seed=seed, data_fingerprint="", wall_time=1.0,
        device="cpu", folder=folder, **{"extra": {"curve": CURVE}, **more},
    )  # fmt: skip


def drawn(folder: Path) -> int:
    """How many lines the plot has; 0 if it is not drawn."""
    out = plots.losses(read_records(folder), folder / "loss.svg", folder)
    return 0 if out is None else out.read_text().count("stroke: #1f77b4") + out.read_text().count("stroke: #ff7f0e") - 2


def test_losses_with_and_without_omega(tmp_path: Path) -> None:
    trained(tmp_path, "sudoku_akorn")
    trained(tmp_path, "sudoku_akorn_no_omega", extra={})
    trained(tmp_path, "sudoku_akorn_no_omega", warmup=False)
    trained(tmp_path, "sudoku_akorn_no_omega", overrides={"train.batch_size": 7})
    trained(tmp_path, "sudoku_itrsa")
    assert drawn(tmp_path) == 0  # no curve without Ω, after the corrections, as the recipe says
    trained(tmp_path, "sudoku_akorn_no_omega", overrides={"data.path": "train.csv", "train.log_every": 20})
    assert drawn(tmp_path) == 2
    trained(tmp_path, "sudoku_akorn", seed=1)
    trained(tmp_path, "sudoku_akorn", seed=1)  # of one seed the newest
    assert drawn(tmp_path) == 3


def test_missing_curves_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["plots", str(tmp_path)])
    monkeypatch.setattr(plots, "losses", lambda found, out: None)
    assert plots.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == (
        "sudoku-loss-omega.png is not drawn: there are no records with curves both with and without Ω yet"
    )
