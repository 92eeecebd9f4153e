"""The bench measures what it says: the plain loop is the layer, memory is counted, and mistakes are refused."""

import json
from pathlib import Path

import pytest
import torch

from akorn.bench.cases import COUPLINGS, Size, build, plain_loop
from akorn.bench.measure import measure
from akorn.cli.bench import Options, run
from akorn.errors import AkornError

CPU = torch.device("cpu")
SIZE = Size(2, 32, (3, 4))


@pytest.mark.parametrize("name", COUPLINGS)
def test_the_plain_loop_is_the_layer(name: str) -> None:
    layer, x, c = build(name, SIZE, 4, CPU, torch.float64)
    states = plain_loop(layer, x, c, 3)
    assert len(states) == 4
    torch.testing.assert_close(states[-1].reshape(x.shape), layer(x, c, 3))


def test_peak_memory_is_counted() -> None:
    def work() -> None:
        kept = [torch.zeros(1000, dtype=torch.float64) for _ in range(5)]
        del kept
        torch.zeros(2000, dtype=torch.float64)

    found = measure({"work": work}, CPU, 1)["work"]
    assert 40000 <= found.peak_bytes < 41000
    assert found.seconds > 0


def test_the_table_and_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(couplings=("dense",), batch=1, channels=(8,), grid=(2, 2), steps=(1, 3), repeats=1,
                      json=True, device="cpu", record=tmp_path)  # fmt: skip
    assert run(options) == 0
    out = json.loads(capsys.readouterr().out)
    assert {(row["steps"], row["mode"], row["variant"]) for row in out["rows"]} == {
        (steps, mode, variant)
        for steps in (1, 3)
        for mode, variants in {"forward": ("plain", "layer"), "training": ("plain", "layer", "recompute")}.items()
        for variant in variants
    }
    assert all(row["milliseconds"] > 0 and row["peak_mib"] > 0 for row in out["rows"])
    (record,) = tmp_path.glob("bench-*.json")
    assert json.loads(record.read_text())["extra"]["rows"] == out["rows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"couplings": ("dense", "magnetic")}, "unknown coupling 'magnetic': the known ones are dense"),
        ({"channels": (10,)}, "10 channels cannot be grouped"),
        ({"steps": (0,)}, "steps must be at least 1"),
        ({"batch": 0}, "--batch must be at least 1"),
        ({"n": 1}, "at least 2 rotating dimensions"),
        ({"record": Path("/nowhere/at/all")}, "no folder"),
        ({"device": "abacus"}, "unknown device 'abacus'"),
    ],
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(AkornError, match=message):
        run(Options(**({"couplings": ("dense",), "repeats": 1, "device": "cpu"} | options)))
