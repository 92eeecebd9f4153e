"""`akorn results`: anyone's records as tables, without a table of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from akorn.cli import main
from akorn.ledger import overview, read_records, write_record
from akorn.ledger.overview import MARK


def write(folder: Path, name: str = "mine", seed: int = 0, kind: str = "eval", **options: Any) -> Path:
    facts: dict[str, Any] = {
        "metrics": {"accuracy": 50.0 + seed},
        "config": {"steps": 128, "seed": seed, "model": {"n": 4}},
        "data_fingerprint": "abc",
        "wall_time": 1.0,
        "device": "cpu",
        "folder": folder,
    }
    return write_record(kind, name, seed=seed, **{**facts, **options})


def run(words: list[str]) -> object:
    """The exit status of a command."""
    with pytest.raises(SystemExit) as end:
        main(words)
    return end.value.code


def rows(text: str, title: str) -> list[str]:
    section = text.split(f"## {title}\n\n")[1].split("\n\n")[0]
    return section.splitlines()


def record(seed: int = 0, date: str = "2030-01-01", **options: Any) -> dict[str, Any]:
    facts = {"kind": "eval", "name": "mine", "seed": seed, "metrics": {"accuracy": 50.0}, "config": {}, "date": date}
    return {**facts, "hardware": {"device": "cpu"}, **options}


def test_seeds_share_a_row_and_settings_that_differ_are_named(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write(tmp_path, seed=seed)
    write(tmp_path, config={"steps": 16, "seed": 0, "model": {"n": 4}})
    write(tmp_path, name="other", kind="train", metrics={"loss": 0.00123})
    text = overview(read_records(tmp_path))
    date = read_records(tmp_path)[0]["date"][:10]
    head, line, *body = rows(text, "mine: evaluations")
    assert [head, line, *sorted(body)] == [  # all were written in one second
        "| settings | accuracy | device | date |",
        "|---|---|---|---|",
        f"| steps = 128 | 51.00 ± 1.00 (3) | cpu | {date} |",
        f"| steps = 16 | 50.00 (1) | cpu | {date} |",
    ]
    assert rows(text, "other: training runs")[2] == f"| 0.0012 (1) | cpu | {date} |"
    assert "[other: training runs](#other-training-runs)" in text


def test_how_a_model_was_trained_is_a_setting() -> None:
    first = record(extra={"training": {"weights": "last", "overrides": {"train.epochs": 9, "train.log_every": 5}}})
    second = record(extra={"training": {"weights": "last", "overrides": {"train.epochs": 7}}})
    assert [line.split(" | ")[0] for line in rows(overview([first, second]), "mine: evaluations")[2:]] == [
        "| train.epochs = 9", "| train.epochs = 7",
    ]  # fmt: skip


def test_data_tells_rows_apart_where_nothing_else_does() -> None:
    one, two = (record(data=mark * 64) for mark in "ab")
    assert "| data fingerprint = aaaaaaaa |" in overview([one, two])
    named = [one | {"config": {"data": "easy"}}, two | {"config": {"data": "hard"}}]
    assert "fingerprint" not in overview(named)
    assert "| data = easy |" in overview(named)


def test_the_newest_of_a_seed_counts_and_metrics_may_be_missing() -> None:
    older = record(metrics={"accuracy": 10.0})
    newer = record(date="2030-01-02", metrics={"accuracy": 20.0, "ece": float("nan")}, hardware={"gpu": "H200"})
    assert rows(overview([newer, older]), "mine: evaluations") == [
        "| accuracy | ece | device | date |", "|---|---|---|---|", "| 20.00 (1) | – | H200 | 2030-01-02 |",
    ]  # fmt: skip
    many = record(metrics={f"m{k}": 1.0 for k in range(14)})
    assert "Not shown: m12, m13 (`akorn results --json`)." in overview([many])


def test_records_without_the_later_fields_are_shown(tmp_path: Path) -> None:
    """Records of the first version had only what `read_records` asks for."""
    path = write(tmp_path)
    old = json.loads(path.read_text())
    path.write_text(json.dumps({key: old[key] for key in ("format", "version", "kind", "name", "seed", "metrics",
                                                         "config", "date")}))  # fmt: skip
    assert f"| 50.00 (1) | – | {old['date'][:10]} |" in overview(read_records(tmp_path))


def test_the_command_prints_and_leaves_every_other_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results")
    page = Path("RESULTS.md")
    page.write_text("# Results\n\nWritten by hand.\n")
    assert run(["results"]) == 0
    printed = capsys.readouterr().out
    assert "## mine: evaluations" in printed
    assert MARK in printed
    assert run(["results", "--out", "RESULTS.md"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert page.read_text() == "# Results\n\nWritten by hand.\n"
    for _ in range(2):  # what it wrote itself, it replaces
        assert run(["results", "--out", "mine.md"]) == 0
    assert Path("mine.md").read_text() == printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["RESULTS.md", "mine.md", "results"]


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "--folder", str(tmp_path / "nowhere")]) == 2
    assert "this folder of records does not exist" in capsys.readouterr().err
    write(tmp_path)
    (tmp_path / "page.md").write_text("")
    assert run(["results", "--folder", str(tmp_path / "page.md")]) == 2
    assert "this folder of records is not a folder" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{")
    for words in ([], ["--json"]):
        assert run(["results", "--folder", str(tmp_path), *words]) == 2
        told = capsys.readouterr()
        assert "mine" in told.out  # the good one is shown all the same
        assert told.err.count("\n") == 1
        assert "bad.json" in told.err


def test_json_has_every_record_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert run(["results", "--folder", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == read_records(tmp_path)


def test_no_records_make_a_page_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "--folder", str(tmp_path)]) == 0
    assert "from 0 records" in capsys.readouterr().out


def test_it_needs_no_torch() -> None:
    program = "import sys, akorn.ledger as l, akorn.cli.results; l.overview([]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
