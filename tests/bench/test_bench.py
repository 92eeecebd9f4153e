"""The bench measures what it says: the plain loop is the layer, memory is counted, and mistakes are refused."""

import json
from pathlib import Path

import pytest
import torch

from akorn.bench.cases import COUPLINGS, Size, build, default_channels, plain_loop
from akorn.bench.commands.bench import Options, run
from akorn.bench.measure import measure
from akorn.cli import main
from akorn.errors import AkornError
from akorn.theory import lyapunov_conditions

CPU = torch.device("cpu")
SIZE = Size(2, 32, (3, 4))


@pytest.mark.parametrize("name", COUPLINGS)
def test_the_plain_loop_is_the_layer(name: str) -> None:
    layer, x, c = build(name, SIZE, 4, CPU, torch.float64)
    states = plain_loop(layer, x, c, 3)
    assert len(states) == 4
    torch.testing.assert_close(states[-1].reshape(x.shape), layer(x, c, 3))


@pytest.mark.parametrize("name", COUPLINGS)
def test_odd_dimensions_with_the_default_channels(name: str) -> None:
    for n in (2, 3, 5, 8):
        assert all(channels % n == 0 for channels in default_channels(n))
    channels = default_channels(3)[0]
    layer, x, c = build(name, Size(1, channels, (2, 3)), 3, CPU, torch.float64)
    torch.testing.assert_close(plain_loop(layer, x, c, 2)[-1].reshape(x.shape), layer(x, c, 2))


@pytest.mark.parametrize("name", [name for name in COUPLINGS if "symmetric" in name and "attention" not in name])
def test_symmetric_couplings_are(name: str) -> None:
    for wanted in (True, False):
        layer, _, c = build(name if wanted else name.removesuffix("-symmetric"), SIZE, 4, CPU, torch.float64)
        assert lyapunov_conditions(layer.coupling, None, c, n=4).holds is wanted


def test_help_names_every_coupling(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    assert all(name in told for name in COUPLINGS)


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
                      json=True, device="cpu", record=tmp_path, size="tiny")  # fmt: skip
    assert run(options) == 0
    out = json.loads(capsys.readouterr().out)
    assert {(row["steps"], row["mode"], row["variant"]) for row in out["rows"]} == {
        (steps, mode, variant)
        for steps in (1, 3)
        for mode, variants in {"forward": ("plain", "layer"), "training": ("plain", "layer", "recompute")}.items()
        for variant in variants
    }
    assert all(row["milliseconds"] > 0 and row["peak_mib"] > 0 for row in out["rows"])
    assert all(row["matmul_share"] > 0 and row["bandwidth_share"] > 0 and row["error"] < 1e-5 for row in out["rows"])
    assert all(value > 0 for value in out["ceilings"].values())
    (record,) = tmp_path.glob("bench-*.json")
    assert json.loads(record.read_text())["extra"]["rows"] == out["rows"]


def test_tiny_layers_are_small_unless_sizes_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def measured(**options: object) -> set[tuple[str, int]]:
        assert run(Options(couplings=("dense",), repeats=1, json=True, device="cpu", size="tiny", **options)) == 0
        return {(row["size"], row["steps"]) for row in json.loads(capsys.readouterr().out)["rows"]}

    assert measured() == {("2×32×9×9", 1), ("2×32×9×9", 4)}
    assert measured(batch=3, channels=(8, 16), grid=(2, 3), steps=(2,)) == {("3×8×2×3", 2), ("3×16×2×3", 2)}
    assert measured(n=3, steps=(2,), record=tmp_path) == {("2×96×9×9", 2)}
    (record,) = tmp_path.glob("bench-*.json")
    config = json.loads(record.read_text())["config"]
    assert (config["batch"], config["grid"], config["steps"]) == (2, [9, 9], [2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"case": ("sudoku", "chess")}, "unknown case 'chess': the known ones are all, layers, update"),
        ({"case": ()}, "--case needs at least one value"),
        ({"couplings": ("dense", "magnetic")}, "unknown coupling 'magnetic': the known ones are dense"),
        ({"channels": (10,)}, "10 channels cannot be grouped"),
        ({"steps": (0,)}, "--steps must be at least 1, got 0"),
        ({"batch": 0}, "--batch must be at least 1"),
        ({"n": 1}, "--n must be at least 2, got 1"),
        ({"channels": (0,)}, "--channels must be at least 1, got 0"),
        ({"channels": (16, -8)}, "--channels must be at least 1, got -8"),
        ({"channels": ()}, "--channels needs at least one value"),
        ({"couplings": ()}, "--couplings needs at least one value"),
        ({"steps": ()}, "--steps needs at least one value"),
        ({"grid": (0, 0)}, "--grid must be at least 1, got 0"),
        ({"seed": 99999999999999999999}, "--seed must be from 0 to 9223372036854775807"),
        ({"seed": -1}, "--seed must be from 0"),
        ({"couplings": ("attention",), "channels": (12,)}, "12 channels cannot be split into 8 heads"),
        ({"record": Path("/nowhere/at/all")}, "does not exist"),
        ({"device": "abacus"}, "the device 'abacus' cannot be used"),
        ({"device": "meta"}, "the device 'meta' cannot be used"),
    ],
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(AkornError, match=message):
        run(Options(**({"couplings": ("dense",), "repeats": 1, "device": "cpu", "size": "tiny"} | options)))
