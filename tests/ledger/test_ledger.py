"""Records come back as they were written; tables show what they hold and hide nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from akorn.errors import AkornError
from akorn.ledger import (
    Cell,
    Row,
    Table,
    model_name,
    read_records,
    recipe_of,
    record_evaluation,
    render,
    write_record,
)
from akorn.ledger.tables import anchor, chosen


def write(folder: Path, name: str = "sudoku-akorn", seed: int = 0, **options: Any) -> Path:
    facts: dict[str, Any] = {
        "kind": "eval",
        "metrics": {"board_accuracy": 50.0},
        "config": {"steps": 128, "model": {"n": 4}},
        "data_fingerprint": "abc",
        "wall_time": 1.23456,
        "device": "cpu",
        "folder": folder,
    }
    return write_record(name=name, seed=seed, **{**facts, **options})


def test_round_trip(tmp_path: Path) -> None:
    path = write(tmp_path, overrides={"steps": 128}, extra={"votes": 100})
    (record,) = read_records(tmp_path)
    assert path.name == record["file"]
    assert path.name.startswith("eval-sudoku-akorn-seed0-2")
    expected = {
        "kind": "eval",
        "name": "sudoku-akorn",
        "seed": 0,
        "metrics": {"board_accuracy": 50.0},
        "config": {"steps": 128, "model": {"n": 4}},
        "overrides": {"steps": 128},
        "data": "abc",
        "wall_time": 1.235,
        "extra": {"votes": 100},
    }
    assert {key: record[key] for key in expected} == expected
    assert record["hardware"]["device"] == "cpu"
    assert {"akorn", "python", "torch"} <= record["libraries"].keys()
    assert record["commit"].keys() == {"id", "changed"}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_names_are_unique_and_plain(tmp_path: Path) -> None:
    paths = {write(tmp_path, name="a/b c:T=16") for _ in range(20)}
    assert len(paths) == 20
    assert all(p.parent == tmp_path and p.name.startswith("eval-a-b-c-T-16-seed0-") for p in paths)
    assert len(read_records(tmp_path)) == 20


def evaluated(folder: Path, model: str, training: dict[str, Any] | None, **options: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"config": {"steps": 8}, "data_fingerprint": "abc", "wall_time": 2.0, "device": "cpu"}
    path = record_evaluation(model, {"error": 1.5}, training=training, folder=folder, **{**facts, **options})
    return dict(json.loads(path.read_text()))


def test_an_evaluation_stands_under_its_recipe_and_its_trainings_seed(tmp_path: Path) -> None:
    training = {"recipe": "sudoku_akorn", "seed": 3, "overrides": {"train.steps": 5}}
    found = evaluated(tmp_path, "runs/mine/model", training, extra={"by_givens": [1]})
    assert (found["kind"], found["name"], found["seed"]) == ("eval", "sudoku_akorn", 3)
    assert found["config"] == {"model": "sudoku_akorn", "steps": 8}
    assert found["extra"] == {"by_givens": [1], "training": training}
    assert found["metrics"] == {"error": 1.5}


def test_an_evaluation_of_unknown_training_stands_under_the_folders_name(tmp_path: Path) -> None:
    found = evaluated(tmp_path, "somewhere/mine", None)
    assert (found["name"], found["seed"], found["config"]["model"]) == ("mine", 0, "mine")
    assert found["extra"] == {"training": None}
    assert model_name("somewhere/mine", {"recipe": "a"}) == "a"


def test_an_evaluation_of_shipped_weights_stands_under_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = {"recipe": "sudoku_akorn", "seed": 1, "overrides": {}}
    found = evaluated(tmp_path, "sudoku_paper", training)
    assert (found["name"], found["seed"], found["config"]["model"]) == ("sudoku-paper", 1, "sudoku-paper")
    assert recipe_of(found) == "sudoku_akorn"
    assert [file.name[:18] for file in tmp_path.glob("*.json")] == ["eval-sudoku-paper-"]
    monkeypatch.chdir(tmp_path)  # a model's folder of one word is still a folder
    Path("mine").mkdir()
    Path("mine", "config.json").touch()
    assert model_name("mine", training) == "sudoku_akorn"


def test_commit_is_that_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    from akorn.ledger import records as ledger

    answers = {"ls-files": "_version.py", "status": " M nn/block.py", "rev-parse": "f00"}
    monkeypatch.delenv("AKORN_COMMIT", raising=False)
    monkeypatch.setattr(ledger, "_git", lambda folder, verb, *rest: answers.get(verb))
    assert ledger.commit() == {"id": "f00", "changed": True}
    answers["status"] = ""
    assert ledger.commit() == {"id": "f00", "changed": False}
    monkeypatch.setenv("AKORN_COMMIT", "bee")  # a copy that was put into another repository
    assert ledger.commit() == {"id": "bee", "changed": None}
    monkeypatch.delenv("AKORN_COMMIT")
    del answers["ls-files"]  # installed somewhere inside another repository
    assert ledger.commit() == {"id": None, "changed": None}


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    good = json.loads(write(tmp_path).read_text())
    bad = tmp_path / "bad.json"
    lacking = {k: v for k, v in good.items() if k != "seed"}
    for text, message in [
        ("{", "not readable"),
        ("[]", "not a record"),
        (json.dumps({**good, "version": 9}), "record version 9"),
        (json.dumps(lacking), "lacks seed"),
    ]:
        bad.write_text(text)
        with pytest.raises(AkornError, match=f"{bad}.*{message}"):
            read_records(tmp_path)
    with pytest.raises(AkornError, match="only JSON values"):
        write(tmp_path, extra={"x": object()})


@pytest.mark.parametrize(
    ("key", "value"),
    [("kind", 3), ("name", None), ("seed", []), ("seed", True), ("metrics", [1]), ("config", "x"), ("date", 5),
     ("extra", [1]), ("extra", {"training": 3}), ("hardware", "x"), ("data", {})],
)  # fmt: skip
def test_one_wrong_record_does_not_hide_the_others(tmp_path: Path, key: str, value: object) -> None:
    good = write(tmp_path)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({**json.loads(good.read_text()), key: value}))
    with pytest.raises(AkornError, match=f"bad.json: damaged, .*{key}.*, expected"):
        read_records(tmp_path)
    told: list[AkornError] = []
    assert [found["file"] for found in read_records(tmp_path, told.append)] == [good.name]
    assert len(told) == 1


def test_results_name_a_wrong_record_and_show_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from akorn.cli import main

    good = write(tmp_path)
    (tmp_path / "bad.json").write_text(json.dumps({**json.loads(good.read_text()), "metrics": "x"}))
    for words in ([], ["--json"], ["--out", str(tmp_path / "page.md")]):
        with pytest.raises(SystemExit) as end:
            main(["results", "--folder", str(tmp_path), *words])
        told = capsys.readouterr()
        assert end.value.code == 2
        assert told.err == f"akorn: {tmp_path}/bad.json: damaged, metrics is 'x', expected an object; skipped\n"
        shown = (tmp_path / "page.md").read_text() if "--out" in words else told.out
        assert "board_accuracy" in shown


def test_a_page_has_no_escape_codes(tmp_path: Path) -> None:
    from akorn.ledger import overview

    write(tmp_path, name="\x1b[31mred", config={"a\x07": "\x1b[0m"}, metrics={"x": 10.0})
    write(tmp_path, name="\x1b[31mred", config={"a\x07": 1}, metrics={"x": 10.0})
    page = overview(read_records(tmp_path))
    assert "\\x1b[31mred" in page
    assert not any(ord(letter) < 32 and letter != "\n" for letter in page)


def test_a_metric_beyond_every_float_is_no_figure() -> None:
    from akorn.ledger.records import is_number

    assert is_number(10**15)
    assert not is_number(10**400)


def record(name: str, seed: int, date: str = "2030-01-01", **metrics: float) -> dict[str, Any]:
    return {
        "kind": "eval",
        "name": name,
        "seed": seed,
        "metrics": metrics,
        "config": {"steps": 16},
        "date": date,
        "file": f"{name}-{seed}-{date}.json",
    }


def table() -> Table:
    def cells(name: str, paper: str) -> tuple[Cell, ...]:
        match = {"name": name, "config.steps": 16}
        return Cell("id", match, "100.0"), Cell("ood", lambda r: r["name"] == name, paper)

    rows = (Row("AKOrN | T = 16", cells("akorn", "51.7 ± 3.3")), Row("ItrSA", cells("itrsa", "14.1 ± 2.7")))
    return Table("Sudoku", ("ID", "OOD"), rows, note="Board accuracy in percent.")


def test_tables_show_mean_spread_and_the_paper() -> None:
    records = [
        record("akorn", 0, id=99.0, ood=50.0),
        record("akorn", 1, id=100.0, ood=52.0),
        record("akorn", 2, ood=57.0),
    ]
    text = render(records, [table()])
    lines = text.splitlines()
    assert "## Sudoku" in lines
    assert "Board accuracy in percent." in lines
    assert "|  | ID | paper | OOD | paper |" in lines
    # by hand: mean of 50, 52, 57 is 53, sample deviation √((9 + 1 + 16) / 2) = 3.606
    assert r"| AKOrN \| T = 16 | 99.5 ± 0.7 (2) | 100.0 | 53.0 ± 3.6 (3) | 51.7 ± 3.3 |" in lines
    assert "| ItrSA | – | 100.0 | – | 14.1 ± 2.7 |" in lines


def test_a_column_beside_ours_only_where_somebody_has_a_figure() -> None:
    cells = (Cell("rate", {"name": "akorn"}), Cell("id", {"name": "akorn"}, "100.0"))
    text = render([record("akorn", 0, rate=12345.6, id=99.0)], [Table("t", ("a", "b"), (Row("r", cells),), digits=0)])
    assert "|  | a | b | paper |\n|---|---|---|---|\n| r | 12,346 (1) | 99 (1) | 100.0 |" in text


def test_rows_and_columns_without_any_figure_are_only_named() -> None:
    def cells(name: str, paper: str = "–") -> tuple[Cell, ...]:
        return tuple(Cell(metric, {"name": name}, paper) for metric in ("id", "ood"))

    ours = (Cell("id", {"name": "akorn"}), Cell("ood", {"name": "akorn"}))
    rows = (Row("here", ours), Row("nowhere", cells("itrsa")))
    found = [record("akorn", 0, id=1.0)]
    text = render(found, [Table("t", ("a", "b"), rows)])
    assert "|  | a |\n|---|---|\n| here | 1.0 (1) |\n\nNo figures yet in the rows: nowhere. No" in text
    assert "nowhere. No figures yet in the columns: b.\n" in text
    text = render(found, [Table("t", ("a", "b"), (*rows, Row("paper", cells("itrsa", "2.0"))))])
    assert (
        "| here | 1.0 (1) | – | – | – |\n| paper | – | 2.0 | – | 2.0 |\n\nNo figures yet in the rows: nowhere.\n"
        in text
    )


def test_of_several_records_of_a_seed_the_newest_counts_and_no_other_is_listed() -> None:
    records = [
        record("akorn", 0, "2030-01-02", id=90.0, ood=60.0),
        record("akorn", 0, "2030-01-01", id=10.0, ood=20.0),  # the same seed, run before
        record("akorn", 0, "2030-01-03", id=float("nan")),
        record("other", 4, ood=12.3456789),
    ]
    text = render(records, [table()])
    assert "| 90.0 (1) | 100.0 | 60.0 (1) |" in text
    assert "10.0" not in text.replace("100.0", "")
    assert "12.3" not in text
    assert "other" not in text


def test_a_page_has_a_title_contents_and_the_names_of_empty_tables() -> None:
    empty = Table("Nothing yet", ("a",), (Row("r", (Cell("ood", {"name": "nobody"}),)),))
    text = render([record("akorn", 0, id=1.0)], [table(), empty], "Sudoku: all of it", "What it is.")
    lines = text.splitlines()
    assert lines[:6] == [
        "# Sudoku: all of it", "", "What it is.", "", "- [Sudoku](#sudoku)", "- [Not measured yet](#not-measured-yet)",
    ]  # fmt: skip
    assert lines[-3:] == ["## Not measured yet", "", "- Nothing yet (1 rows)"]
    assert anchor("CIFAR-10: is it C's, or 8/255?") == "cifar-10-is-it-cs-or-8255"


def test_a_cell_may_prefer_other_records_than_the_newest() -> None:
    def of(date: str, boards: int, value: float, seed: int = 0) -> dict[str, Any]:
        return {**record("akorn", seed, date, ood=value), "config": {"boards": boards}}

    records = [of("2030-01-01", 5000, 50.0), of("2030-01-02", 5000, 51.0), of("2030-01-03", 320, 99.0),
               of("2030-01-01", 320, 60.0, seed=1)]  # fmt: skip
    newest, largest = Cell("ood", {}), Cell("ood", {}, prefer=lambda r: float(r["config"]["boards"]))
    assert {r["metrics"]["ood"] for r in chosen(records, newest)} == {99.0, 60.0}
    assert {r["metrics"]["ood"] for r in chosen(records, largest)} == {51.0, 60.0}  # the newest of equals


def test_a_cell_may_look_deeper_into_a_record_and_show_words() -> None:
    def of(seed: int, verdict: object, deep: object) -> dict[str, Any]:
        return {**record("akorn", seed), "extra": {"verdict": verdict, "deep": deep}}

    records = [of(0, "holds", 1.0), of(1, "fails", 2.0), of(2, "holds", None), of(3, None, float("nan"))]
    cells = (Cell(lambda r: r["extra"]["verdict"], {}), Cell(lambda r: r["extra"]["deep"], {}))
    text = render(records, [Table("t", ("words", "numbers"), (Row("r", cells),))])
    assert "| r | holds (2), fails (1) | 1.5 ± 0.7 (2) |" in text


def test_a_note_may_be_made_of_the_records() -> None:
    rows = (Row("r", (Cell("ood", {}),)),)
    text = render([record("akorn", 0, ood=1.0)], [Table("t", ("a",), rows, note=lambda found: f"Of {len(found)}.")])
    assert "## t\n\nOf 1.\n\n|" in text


def test_a_row_needs_a_cell_for_each_heading() -> None:
    with pytest.raises(ValueError, match="has 1 cells for 2 headings"):
        Table("t", ("a", "b"), (Row("r", (Cell("m", {}),)),))


def test_config_and_ledger_need_no_torch() -> None:
    use = "import sys, akorn.engine as e, akorn.ledger as l; e.TrainConfig(); l.render([], []); l.record_evaluation"
    program = f"{use}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
