"""Sudoku models outside torch: blocks of steps whose states are passed on, and the solver in onnxruntime."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from akorn import __version__
from akorn.errors import AkornError
from akorn.export import write
from akorn.export.facts import facts_of
from akorn.export.onnx_file import to_onnx
from akorn.models import WEIGHTS, card_of, create_model, load_model
from akorn.oscillators import energy
from akorn.settings import WEIGHTS_FILE
from akorn.sudoku import EXAMPLES, Solver, SudokuConfig, build
from akorn.sudoku.board import format_board, parse_board
from akorn.sudoku.board_files import load_csv
from akorn.sudoku.config import ItrSAConfig
from akorn.sudoku.effort import Effort
from akorn.sudoku.export import program
from akorn.sudoku.generate import make
from akorn.sudoku.model import SudokuModel
from akorn.sudoku.onnx_runner import OnnxRunner
from akorn.sudoku.voting import mean_confidence

BOARDS = Path(__file__).parents[3] / "shared" / "data" / "sudoku"
SHIPPED = ["sudoku-base", "sudoku-paper"]
T = 4


@cache
def session(name: str) -> onnxruntime.InferenceSession:
    run = program(shipped(name), T)
    return onnxruntime.InferenceSession(to_onnx(run, facts_of(run, shipped(name), name, card_of(name) or "")))


@cache
def shipped(name: str) -> SudokuModel:
    model = create_model(name, pretrained=True)
    assert isinstance(model, SudokuModel)
    return model


@pytest.fixture(scope="module")
def small() -> SudokuModel:
    torch.manual_seed(0)
    model = build(SudokuConfig(channels=32, heads=2)).eval()
    assert isinstance(model, SudokuModel)
    return model


def puzzles(count: int) -> Tensor:
    boards = np.stack([parse_board(text) for text in EXAMPLES.values()])
    return torch.from_numpy(np.resize(boards, (count, 81))).long()


def noise(model: SudokuModel, count: int) -> Tensor:
    return torch.randn(count, 81, model.channels, generator=torch.Generator().manual_seed(1))


def relative(found: np.ndarray, wanted: Tensor) -> float:
    return float(np.abs(found - wanted.numpy()).max() / np.abs(wanted.numpy()).max())


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", SHIPPED)
@torch.no_grad()
def test_each_block_of_steps_is_torchs(name: str, batch: int) -> None:
    """From the same state each time: the comparison is with the model itself, not with the program that was
    exported.
    """
    model, puzzle = shipped(name), puzzles(batch)
    state = noise(model, batch)
    block, c = model.blocks[-1], model.embedding(puzzle)
    x = model.begin(puzzle, x0=state)[0]
    for _ in range(3):
        wanted, features = block.evolve(x, c, T, energy=energy)
        fed = {"puzzle": puzzle.numpy(), "state": state.numpy()}
        after, chances, energies, confidence = session(name).run(None, fed)
        told = model.answer(features).softmax(-1)
        assert wanted.energies is not None
        assert relative(after, wanted.x) < 1e-4
        assert relative(chances, told) < 1e-4
        assert relative(energies, wanted.energies.T) < 1e-4
        assert relative(confidence, mean_confidence(told, puzzle)) < 1e-4
        assert energies.shape == (batch, T)
        state = x = wanted.x  # the state of unit length is taken as it is, on the givens too


@pytest.mark.parametrize("name", SHIPPED)
def test_the_file_says_what_it_is(name: str) -> None:
    facts = session(name).get_modelmeta().custom_metadata_map
    assert facts["card"] == (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    assert json.loads(facts["config"]) == {"task": "sudoku", **shipped(name).settings()}
    assert (facts["name"], facts["license"], facts["akorn_version"]) == (name, "apache-2.0", __version__)
    ports = json.loads(facts["interface"])
    assert [port["name"] for port in ports["inputs"]] == ["puzzle", "state"]
    assert [port["shape"] for port in ports["outputs"]] == [value.shape for value in session(name).get_outputs()]


@torch.no_grad()
def test_weights_in_8_bits_keep_them(tmp_path: Path) -> None:
    """As whole numbers with scales, whichever way the exporter turned the matrices; the answers are torch's."""
    torch.manual_seed(0)
    build(SudokuConfig(channels=128, heads=4)).save_pretrained(tmp_path, dtype="int8")
    stored = load_file(tmp_path / WEIGHTS_FILE)
    model = load_model(tmp_path)
    assert isinstance(model, SudokuModel)
    run = program(model, 2)
    content = to_onnx(run, {})
    arrays = [onnx.numpy_helper.to_array(weight) for weight in onnx.load_from_string(content).graph.initializer]
    wanted = sorted(tensor.numel() for tensor in stored.values() if tensor.dtype == torch.int8)
    assert sorted(array.size for array in arrays if array.dtype == np.int8) == wanted != []
    assert len(content) < (tmp_path / WEIGHTS_FILE).stat().st_size + 200_000
    given = run.examples(2, seed=4)
    fed = {port.name: array.numpy() for port, array in zip(run.inputs, given, strict=True)}
    for found, told in zip(onnxruntime.InferenceSession(content).run(None, fed), run(*given), strict=True):
        assert relative(found, told) < 1e-4


@torch.no_grad()
def test_a_first_state_leaves_the_givens_to_their_digits(small: SudokuModel) -> None:
    """Whatever noise is on the givens; a state that is passed on is kept there."""
    run, puzzle = program(small, 2), puzzles(1)
    first = noise(small, 1)
    other = torch.where((puzzle > 0)[..., None], 3 * torch.randn_like(first), first)
    for found, same in zip(run(puzzle, first), run(puzzle, other), strict=True):
        assert torch.equal(found, same)
    wanted = small.evolve(puzzle, 2, x0=first).logits.softmax(-1)
    torch.testing.assert_close(run(puzzle, first)[1], wanted, rtol=1e-4, atol=1e-6)
    handed_on = run(puzzle, first)[0]
    again = run(puzzle, run(puzzle, handed_on)[0])[0]
    assert not torch.allclose(run(puzzle, handed_on)[0], handed_on)
    wanted = small.evolve(puzzle, 6, x0=first).logits.softmax(-1)
    torch.testing.assert_close(small.answer(small.blocks[-1].readout(again)).softmax(-1), wanted, rtol=1e-4, atol=1e-6)


def test_a_file_of_each_format(small: SudokuModel, tmp_path: Path) -> None:
    """What it says about itself, and that a .pt2 gives the model's numbers for any batch."""
    run = program(small, 3)
    facts = facts_of(run, small, "mine", "---\nlicense: mit\n---\n\n# mine\n")
    write.write(run, facts, tmp_path / "mine.onnx")
    write.write(run, facts, tmp_path / "mine.pt2")
    told = onnxruntime.InferenceSession(tmp_path / "mine.onnx").get_modelmeta().custom_metadata_map
    extra = dict.fromkeys(facts, "")
    loaded = torch.export.load(tmp_path / "mine.pt2", extra_files=extra).module()
    for found in (told, extra):
        assert found == facts
        assert (found["license"], found["steps"], found["task"]) == ("mit", "3", "sudoku")
        assert '"channels": 32' in found["config"]
        assert '"name": "puzzle"' in found["interface"]
    for batch in (1, 3):
        given = run.examples(batch, seed=2)
        for value, wanted in zip(loaded(*given), run(*given), strict=True):
            torch.testing.assert_close(value, wanted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.onnx", "mine.pt2"]


@pytest.mark.parametrize("position", ["absolute", "learned-rotary"])
@torch.no_grad()
def test_other_positions_leave_too(position: str) -> None:
    torch.manual_seed(0)
    model = build(SudokuConfig(channels=32, heads=2, position=position, symmetric=True)).eval()  # type: ignore[arg-type]
    assert isinstance(model, SudokuModel)
    puzzle, start = puzzles(2), noise(model, 2)
    found = onnxruntime.InferenceSession(to_onnx(program(model, 2), {}))
    chances = found.run(["probabilities"], {"puzzle": puzzle.numpy(), "state": start.numpy()})[0]
    assert relative(chances, model.evolve(puzzle, 2, x0=start).logits.softmax(-1)) < 1e-4


def test_models_that_cannot_leave() -> None:
    with pytest.raises(AkornError, match="itrsa has no state to pass on"):
        program(build(ItrSAConfig(channels=16, heads=2)))
    with pytest.raises(AkornError, match="2 blocks"):
        program(build(SudokuConfig(channels=16, heads=2, blocks=2)))
    with pytest.raises(AkornError, match="residual leaves the sphere"):
        program(build(SudokuConfig(channels=16, heads=2, rule="residual")))


def test_the_solver_by_onnxruntime(small: SudokuModel) -> None:
    """The same answers, starts and energies: in blocks that divide the steps, and step by step."""
    plain, other = Solver(small, "cpu", "float32"), Solver(OnnxRunner.from_model(small))
    for steps in (17, 20):
        for mine, its in zip(
            plain.solve(list(EXAMPLES.values()), steps, 3), other.solve(list(EXAMPLES.values()), steps, 3), strict=True
        ):
            assert (mine.board, mine.start, mine.votes, mine.steps) == (its.board, its.start, its.votes, its.steps)
            assert its.energy == pytest.approx(mine.energy, rel=1e-4)
    frames = zip(plain.watch(EXAMPLES["easy"], 5), other.watch(EXAMPLES["easy"], 5), strict=True)
    for mine, its in frames:
        assert mine.step == its.step
        assert format_board(mine.digits) == format_board(its.digits)
        np.testing.assert_allclose(its.confidence, mine.confidence, rtol=1e-4)
        assert its.energy == pytest.approx(mine.energy, rel=1e-4)


def test_the_solver_on_a_file(small: SudokuModel, tmp_path: Path) -> None:
    run = program(small, 2)
    path = tmp_path / "mine.onnx"
    write.write(run, facts_of(run, small, "mine", ""), path)
    solver = Solver.from_pretrained(path)
    assert solver.solve(EXAMPLES["easy"], 4).board == Solver(small, "cpu", "float32").solve(EXAMPLES["easy"], 4).board
    effort = Effort(2, 64, sure=1.0)
    mine, its = (each.solve(EXAMPLES["easy"], effort=effort) for each in (Solver(small, "cpu", "float32"), solver))
    assert (its.effort, its.votes) == (mine.effort, mine.votes)  # its answers are read at the end of a round alone
    assert not solver.can_watch
    for work, words in [
        (lambda: solver.solve(EXAMPLES["easy"], 5), "runs 2 steps per call: 5 steps are not a multiple"),
        (lambda: list(solver.watch(EXAMPLES["easy"], 4)), "to see every step, export with --steps 1"),
        (lambda: Solver.from_pretrained(path, backend="torch"), "torch cannot run"),
        (lambda: Solver.from_pretrained(path, device="cuda"), "float32 on the CPU"),
        (lambda: Solver.from_pretrained(tmp_path / "no.onnx"), "cannot be read"),
    ]:
        with pytest.raises(AkornError, match=words):
            work()
    model = onnx.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(AkornError, match="onnxruntime cannot load it"):
        Solver.from_pretrained(path)
    for facts in ({}, {"akorn-export": "1", "task": "objects"}, {"akorn-export": "1", "task": "sudoku"}):
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, facts)
        onnx.save(model, path)
        with pytest.raises(AkornError, match="not a Sudoku model of `akorn export"):
            Solver.from_pretrained(path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "count"), [("sudoku-base", 200), ("sudoku", 20)])
def test_the_same_answers(name: str, count: int, tmp_path: Path) -> None:
    """The shipped file with 16 steps per call, 64 steps: real boards if they are there, otherwise generated ones.

    The page runs the first model. The second takes more than twice as long.
    """
    if BOARDS.is_dir():
        boards = load_csv(BOARDS / "test-ood.csv")[0][:: 18_000 // count][:count]
    else:
        boards = make(count, givens=(24, 34), seed=0)[0]
    model = load_model(name)
    run = program(model)
    write.write(run, facts_of(run, model, name, ""), tmp_path / "model.onnx")
    weights = (WEIGHTS / name / WEIGHTS_FILE).stat().st_size
    assert (tmp_path / "model.onnx").stat().st_size < weights + 500_000  # they are in it once, in half precision
    plain = Solver.from_pretrained(name, "cpu", "float32")  # as onnxruntime computes
    other = Solver.from_pretrained(tmp_path / "model.onnx")
    assert len(boards) == count
    for batch in np.split(boards, 4):
        for mine, its in zip(plain.solve(list(batch), 64), other.solve(list(batch), 64), strict=True):
            assert mine.board == its.board
