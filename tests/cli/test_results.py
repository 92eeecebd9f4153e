"""`akorn results`: which records it shows, and how a terminal shows them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from akorn.cli import main
from akorn.ledger import write_record


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name, boards in (("sudoku_akorn", 50.0), ("sudoku_itrsa", 27.0), ("clevr_akorn", 86.8)):
        scores = {"accuracy": boards, "accuracy_error": 0.5, "first": boards, "seconds": 9.0}
        for seed in range(2 if name == "sudoku_itrsa" else 1):
            write_record(
                "eval", name, scores, config={"steps": 16}, seed=seed, data_fingerprint="none", wall_time=1.0,
                device="cpu", folder=Path("results"),
            )  # fmt: skip
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["results", *words])
    return int(ended.value.code or 0)


def test_names_choose_the_records(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sudoku_*") == 0
    text = capsys.readouterr().out
    assert "## sudoku_akorn: evaluations" in text
    assert "## sudoku_itrsa: evaluations" in text
    assert "clevr" not in text
    assert run("clevr_akorn", "--json") == 0
    assert '"name":"sudoku' not in capsys.readouterr().out.replace(" ", "")
    assert run("sudoku_akon") == 2
    assert "unknown name 'sudoku_akon': did you mean sudoku_akorn" in capsys.readouterr().err


def test_a_terminal_gets_drawn_tables_of_the_scores(
    ledger: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run() == 0
    shown = capsys.readouterr().out
    assert "|---|" not in shown
    assert "50.00" in shown
    assert "50.00 (1)" not in shown  # one seed throughout
    assert "27.00 ± 0.00 (2)" in shown
    for hidden in ("accuracy_error", "seconds", "first"):  # `first` repeats the accuracy
        assert hidden not in shown
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert run() == 0
    assert "| 50.00 (1) | 0.5000 (1) | 50.00 (1) | 9.00 (1) |" in capsys.readouterr().out
