"""Curves of runs: what survives resuming, and several in one plot."""

import json
import math
from pathlib import Path

import pytest

from akorn.engine import plot_curves, scalars
from akorn.engine.curves import read_curve
from akorn.errors import AkornError
from akorn.ledger import write_record


def write_curve(folder: Path, losses: list[float]) -> Path:
    folder.mkdir(parents=True)
    with scalars.ScalarLog(folder, 0) as log:
        for step, loss in enumerate(losses, start=1):
            log.write(step, 0.1 * step, {"loss": loss})
    return folder


def test_curves_survive_resuming_without_duplicates(tmp_path: Path) -> None:
    run = write_curve(tmp_path / "run", [4.0, 3.0, 2.0, 1.0])
    with (run / scalars.FILE).open("a") as file:
        file.write('{"step": 2, "seconds": 0, "eval/x": 1}\n{"step": 5, "lo')  # cut by a kill
    with scalars.ScalarLog(run, 2) as log:
        log.write(3, 0.5, {"loss": 2.5})
    assert read_curve(run) == ([1, 2, 3], [4.0, 3.0, 2.5])
    assert "eval/x" not in (run / scalars.FILE).read_text()  # comes after the checkpoint, is done again


def test_curves_of_several_runs_in_one_plot(tmp_path: Path) -> None:
    runs = [write_curve(tmp_path / name / "run", [2.0, 1.0]) for name in "ab"]
    for ending in ("png", "svg"):
        out = plot_curves(runs, tmp_path / "plots" / f"curves.{ending}", log=True)
        assert out.stat().st_size > 1000
    svg = plot_curves({"first": str(runs[0]), "second": runs[1]}, str(tmp_path / "plots" / "x.svg")).read_text()
    assert svg.count('id="line2d_') >= 2
    assert [p.name for p in sorted((tmp_path / "plots").iterdir())] == ["curves.png", "curves.svg", "x.svg"]
    with pytest.raises(AkornError, match="it has no curve 'accuracy'; its curves are: loss"):
        plot_curves(runs, tmp_path / "y.png", metric="accuracy")
    with pytest.raises(AkornError, match="cannot be read"):
        plot_curves([tmp_path / "nowhere"], tmp_path / "y.png")
    with pytest.raises(AkornError, match="cannot be written"):
        plot_curves(runs, tmp_path / "y.xyz")
    with pytest.raises(AkornError, match="no runs"):
        plot_curves([], tmp_path / "y.png")


def test_a_long_curve_in_few_points() -> None:
    rows = [{"step": step, "seconds": 0.0, "loss": 1 / step, "rate": 1.0} for step in range(3, 3001, 3)]
    rows += [{"step": 3001, "seconds": 0.0, "loss": 9.0}, {"step": 3001, "seconds": 0.0, "eval/x": 0.5, "eval/y": 1.0}]
    found = scalars.curves(rows, points=100)
    assert list(found) == ["loss", "eval/x", "eval/y"]
    assert found["eval/x"] == {"steps": [3001], "values": [0.5]}
    steps, values = found["loss"]["steps"], found["loss"]["values"]
    assert len(steps) <= 100
    assert steps[-1] == 3001
    lengths = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    assert len(set(lengths[:-1])) == 1
    mean = sum(length * value for length, value in zip(lengths, values, strict=True)) / 3001
    assert mean == pytest.approx((sum(3 / step for step in range(3, 3001, 3)) + 9.0) / 3001, rel=1e-4)
    assert len(json.dumps(scalars.curves(rows))) < 10_000


def test_what_is_short_stays_and_what_is_not_finite_is_left_out() -> None:
    rows = [{"step": 1, "loss": 2.0, "eval/x": math.nan}, {"step": 2, "loss": 1.0, "eval/x": 3}]
    assert scalars.curves(rows) == {
        "loss": {"steps": [1, 2], "values": [2.0, 1.0]}, "eval/x": {"steps": [2], "values": [3.0]},
    }  # fmt: skip
    assert scalars.curves(rows[:1]) == {}
    assert scalars.curves([]) == {}


def record_of(folder: Path, extra: dict[str, object]) -> Path:
    return write_record(
        "train", "toy", {}, config={}, seed=0, data_fingerprint="", wall_time=1.0, device="cpu", folder=folder,
        extra=extra,
    )  # fmt: skip


def test_curves_of_records(tmp_path: Path) -> None:
    run = write_curve(tmp_path / "run", [4.0, 3.0, 2.0])
    record = record_of(tmp_path, {"curve": scalars.curves(scalars.read(run))})
    assert read_curve(record) == read_curve(run)
    assert record.stem in plot_curves([run, record], tmp_path / "x.svg").read_text()
    with pytest.raises(AkornError, match=r"it has no curve 'eval/x'; its curves are: loss"):
        read_curve(record, "eval/x")
    with pytest.raises(AkornError, match="its curves are: none"):
        read_curve(record_of(tmp_path, {}))
    with pytest.raises(AkornError, match="damaged, its curve 'loss'"):
        read_curve(record_of(tmp_path, {"curve": {"loss": {"steps": [1]}}}))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(AkornError, match="not a record of akorn"):
        read_curve(tmp_path / "other.json")


@pytest.mark.parametrize("line", ["[" * 100_000, '{"step": ' + "[" * 100_000])
def test_a_line_that_is_nested_too_deep(tmp_path: Path, line: str) -> None:
    (tmp_path / scalars.FILE).write_text(f"{line}\n")
    with pytest.raises(AkornError, match="not a line of curves"):
        scalars.read(tmp_path)


def test_curves_over_epochs(tmp_path: Path) -> None:
    run = write_curve(tmp_path / "run", [2.0, 1.0])
    steps, epochs = (plot_curves([run], tmp_path / f"{n}.svg", epoch_steps=n or None).read_text() for n in (0, 2))
    assert "<!-- step -->" in steps
    assert "<!-- epoch -->" in epochs
