"""Train, evaluate, list, make data and render results: the whole path of a figure, at a tiny size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Akorn, assert_refused

SOLVED = "123456789456789123789123456234567891567891234891234567345678912678912345912345678"
TINY = ["--model.channels", 16, "--model.heads", 2, "--train.batch-size", 4, "--train.steps", 3, "--device", "cpu"]


@pytest.mark.slow
def test_from_data_to_results(akorn: Akorn, akorn_here: Akorn, tmp_path: Path) -> None:
    made = akorn_here("data", "make", "sudoku", "boards", "--count", 8, "--test", 4, "--givens", "40-50")
    assert made.returncode == 0, made.stderr
    assert len((tmp_path / "boards" / "train.csv").read_text().splitlines()) == 8
    assert_refused(akorn_here("data", "make", "sudoku", "boards"), "train.csv already exists")

    words = ["train", "sudoku_akorn", *TINY, "--seed", 5]
    words += ["--data", "boards/train.csv", "--valid", "boards/test.csv"]
    trained = akorn(*words, "--json")
    assert trained.returncode == 0, trained.stderr
    model = json.loads(trained.stdout)["model"]
    assert model == "runs/sudoku_akorn-seed5/model"
    assert_refused(akorn_here(*words), "already has a run")

    scored = akorn_here("eval", model, "--data", "boards/test.csv", "--steps", 2, "--votes", 2, "--json",
                        "--plots", "plots", "--against-steps", 1, 2)  # fmt: skip
    assert scored.returncode == 0, scored.stderr
    assert 0 <= json.loads(scored.stdout)["board_accuracy"] <= 100
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        "difficulty.png",
        "energy.png",
        "histogram.png",
        "steps.png",
        "votes.png",
    }
    (record,) = (tmp_path / "results").glob("eval-*.json")
    kept = json.loads(record.read_text())
    assert (kept["name"], kept["seed"], kept["config"]["data"]) == ("sudoku_akorn", 5, "test")
    assert str(tmp_path) not in record.read_text()

    plain = akorn_here("eval", model, "--data", "boards/test.csv", "--results", "None")
    assert "(T = 16, 1 vote) in " in plain.stdout
    assert plain.stderr == "akorn solve takes more steps and starts if a board needs them; --as-solve scores that\n"
    like = akorn_here("eval", model, "--data", "boards/test.csv", "--results", "None", "--as-solve", "--steps", 3)
    assert "(T = 3, 8 votes, confidence)" in like.stdout  # what is asked for stays, the rest is as in solve
    assert like.stderr == ""

    (tmp_path / model / "training.json").write_text("{")
    assert_refused(
        akorn_here("eval", model, "--data", "nowhere.csv"), "training.json: damaged"
    )  # before the data is read

    rendered = akorn_here("results")
    assert rendered.returncode == 0, rendered.stderr
    for title in ("sudoku_akorn: training runs", "sudoku_akorn: evaluations"):
        assert f"## {title}\n" in rendered.stdout
    assert f"| {kept['metrics']['board_accuracy']:.2f} (1) |" in rendered.stdout
    assert not (tmp_path / "RESULTS.md").exists()


def test_mistyped_validation_data_is_found_before_the_training(akorn_here: Akorn, tmp_path: Path) -> None:
    assert akorn_here("data", "make", "sudoku", "boards", "--count", 4, "--test", 1, "--givens", 40).returncode == 0
    words = ["train", "sudoku_akorn", *TINY, "--data", "boards/train.csv", "--valid", "nowhere.csv"]
    assert_refused(akorn_here(*words), "nowhere.csv")  # one line: no step was taken
    assert not list(tmp_path.glob("runs/*/checkpoints/*"))


@pytest.mark.slow
def test_records_are_written_unless_told_not_to_be(akorn_here: Akorn, tmp_path: Path) -> None:
    words = ["eval", "sudoku", "--limit", 2, "--steps", 1, "--json"]
    assert akorn_here(*words, "--results", "None").returncode == 0
    assert not (tmp_path / "results").exists()
    assert_refused(akorn_here(*words, "--data", "nowhere.csv"), "nowhere.csv")
    assert not (tmp_path / "results").exists()  # nothing is left of what failed

    (tmp_path / "results").write_text("not a folder")
    found = akorn_here(*words)
    assert found.returncode == 0  # the evaluation is not lost
    assert "no record will be written: " in found.stderr
    assert "board_accuracy" in json.loads(found.stdout)
    assert_refused(akorn_here(*words, "--results", "results/mine"), "results/mine")

    (tmp_path / "results").unlink()
    assert "recorded in results" in akorn_here(*words).stderr
    assert len(list((tmp_path / "results").iterdir())) == 1


def test_a_bad_number_of_steps_for_the_plot_leaves_no_record(akorn_here: Akorn, tmp_path: Path) -> None:
    words = ["eval", "sudoku", "--limit", 2, "--steps", 1, "--plots", "plots", "--against-steps", 0]
    assert_refused(akorn_here(*words), "steps")
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_of_two_processes_one_speaks(tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone", "--local-addr", "127.0.0.1"]
    for words in (
        ["eval", "sudoku", "--limit", "2", "--steps", "1"],
        ["solve", SOLVED, "--steps", "1"],
    ):
        command = [sys.executable, *launcher, "-m", "akorn", *words, "--json", "--device", "cpu"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 1
        assert isinstance(json.loads(done.stdout), dict)
    assert len(list((tmp_path / "results").iterdir())) == 1


def test_a_recipes_help_has_the_commands_options_too(akorn_here: Akorn) -> None:
    told = akorn_here("train", "sudoku_akorn", "--help").stdout
    assert "--resume" in told
    flat = " ".join(told.replace("│", " ").split())
    assert "recipes on photographs, ImageNet, Tiny-ImageNet and CIFAR-10 need it." in flat
    assert "--train.batch-size" in told


def test_lists(akorn_here: Akorn) -> None:
    recipes = json.loads(akorn_here("recipes", "--json").stdout)
    assert {"sudoku_akorn", "sudoku_itrsa", "sudoku_best"} <= recipes.keys()
    models = json.loads(akorn_here("models", "--json").stdout)
    assert {"sudoku", "sudoku-paper", "sudoku-akorn"} <= models.keys()
    assert "sudoku_akorn" in akorn_here("recipes").stdout
    assert "sudoku" in akorn_here("models").stdout


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["train"], ["needs a recipe", "sudoku_akorn"]),
        (["train", "sudoku_acorn"], ["unknown recipe 'sudoku_acorn'", "sudoku_akorn"]),
        (["train", "sudoku_akorn", "--model.colour", "red"], ["--model.colour"]),
        (["train", "sudoku_akorn", "--model.heads", "7"], ["512 channels cannot be split into 7 heads"]),
        (["train", "sudoku_akorn", "--data", "nothing.csv"], ["nothing.csv"]),
        (["train", "sudoku_akorn", "--train.batch-size", "0"], ["batch_size is 0"]),
        (["eval", "nobody"], ["nobody"]),
        (["eval", "sudoku", "--against-steps", "3"], ["--plots"]),
        (["eval", "sudoku", "--limit", "0"], ["--limit"]),
        (["results", "--folder", "nowhere"], ["nowhere"]),
        (["data", "make", "chess", "x"], ["chess"]),
        (["data", "make", "sudoku"], ["DIR"]),
        (["data", "make", "sudoku", "x", "--givens", "17"], ["17", "22"]),
    ],
)
def test_mistakes(akorn_here: Akorn, tmp_path: Path, words: list[str], parts: list[str]) -> None:
    assert_refused(akorn_here(*words), *parts)
    assert not any(tmp_path.iterdir())  # nothing was left behind


@pytest.mark.slow
def test_a_model_without_weights_and_a_model_behind_options(akorn: Akorn) -> None:
    assert_refused(akorn("eval", "clevrtex-vit"), "akorn train clevrtex_vit")
    assert_refused(akorn("eval", "--limit", "0", "sudoku"), "--limit")
    assert_refused(akorn("eval", "--json", "cifar10-conv"), "--data")
