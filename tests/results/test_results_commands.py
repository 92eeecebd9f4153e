"""The commands on the pages: the command line takes them all, and they mean what the records say."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from akorn.cli.eval import parse as parse_eval
from akorn.cli.train import parse as parse_train
from akorn.ledger import recipe_of
from akorn.ledger.records import Record, read_records
from akorn.ledger.tables import Cell, Row, Table
from akorn.rooms import recipes, room_of_recipe
from akorn.runtime.nested import flatten
from akorn.settings import CONFIG_FILE

commands = pytest.importorskip("results.pages.commands", reason="the repository's folder results/ is not here")
from results.pages import objects, robustness, sudoku  # noqa: E402
from results.pages.commands_eval import TRAINED  # noqa: E402
from results.pages.render import RECORDS, ROOT  # noqa: E402
from results.pages.trials import settings  # noqa: E402

EVERYTHING = Table("made up", ("figure",), (Row("all", (Cell("board_accuracy", {"kind": "eval"}),)),))


@pytest.fixture(scope="module")
def found() -> list[Record]:
    return [{**record, "name": recipe_of(record)} for record in read_records(RECORDS)]


def scored(seed: int = 0, recipe: str = "sudoku_akorn", **changed: Any) -> Record:
    """A made-up evaluation; changed: parts of its config, or overrides of its training."""
    overrides = {name.replace("__", "."): value for name, value in changed.items() if "__" in name}
    config = {
        "model": recipe, "steps": 16, "votes": 1, "vote": "sum", "energy": "paper", "precision": "auto",
        "boards": 1000, "start_seed": 0, "data": "test-id",
    }  # fmt: skip
    training = {
        "recipe": recipe, "seed": seed, "precision": "tf32", "weights": "average", "overrides": overrides,
        "ema": {"decay": 0.995, "every": 10, "after": 100, "warmup": True, "final": None},
    }  # fmt: skip
    config |= {name: value for name, value in changed.items() if "__" not in name}
    file = f"{seed} {json.dumps(changed)}.json"
    return {
        "kind": "eval", "name": recipe, "seed": seed, "date": "2026-11-20", "file": file, "config": config,
        "metrics": {"board_accuracy": 50.0}, "overrides": {}, "extra": {"training": training},
    }  # fmt: skip


def shown(*records: Record, tables: tuple[Table, ...] = (EVERYTHING,)) -> str:
    text: str = commands.section(list(records), tables, "Data.")
    return text


def test_settings_that_change_no_figure_are_left_out() -> None:
    text = shown(scored(train__checkpoint_every=0, train__tensorboard=False, valid__count=9, train__seed=0))
    assert "\nakorn train sudoku_akorn --train.seed 0\n" in text
    assert "\nakorn eval runs/sudoku_akorn-seed0/model --data test-id.csv --steps 16\n" in text


def test_a_folder_of_generated_pictures_is_not_needed() -> None:
    table = Table("made up", ("figure",), (Row("all", (Cell("mbo", {"kind": "eval"}),)),))
    config = {
        "model": "clevr_akorn", "data": "clevr", "source": "generated", "split": "test", "pictures": 320, "size": None,
        "fit": "crop", "clusters": 11, "method": "average", "uptile": 1, "bilinear": 1, "components": 128, "steps": 8,
        "start_seed": 0,
    }  # fmt: skip
    ema = {"decay": 0.998, "every": 10, "after": 200, "warmup": True, "final": None}
    for folder, words in (("clevr", "akorn train clevr_akorn --train.seed 0\n"), ("mine", "--data.path mine")):
        trained = {"recipe": "clevr_akorn", "seed": 0, "overrides": {"data.path": folder}, "ema": ema}
        record = {
            "kind": "eval", "name": "clevr_akorn", "seed": 0, "date": "2026-11-20", "file": "x", "config": config,
            "metrics": {"mbo": 45.0}, "overrides": {}, "extra": {"training": trained},
        }  # fmt: skip
        assert words in shown(record, tables=(table,))


def test_what_was_changed_is_in_the_command_and_has_a_folder_of_its_own() -> None:
    plain, other = scored(), scored(model__omega=False, **{"train__optimiser.learning_rate": 0.0005})
    rows = (
        Row("plain", (Cell("board_accuracy", lambda record: record is plain),)),
        Row("other", (Cell("board_accuracy", lambda record: record is other),)),
    )
    text = shown(plain, other, tables=(Table("made up", ("figure",), rows),))
    assert "akorn train sudoku_akorn --train.seed 0\n" in text
    assert (
        "akorn train sudoku_akorn --model.no-omega --train.optimiser.learning-rate 0.0005 --train.seed 0"
        " --out runs/sudoku_akorn-2-seed0\n" in text
    )
    assert "akorn eval runs/sudoku_akorn-2-seed0/model --data test-id.csv --steps 16\n" in text


def test_seeds_of_a_training_share_their_commands() -> None:
    lines = shown(scored(0), scored(1), scored(2, votes=100, steps=128)).splitlines()
    assert lines[lines.index("for S in 0 1 2; do") + 1] == "akorn train sudoku_akorn --train.seed $S"
    assert "akorn eval runs/sudoku_akorn-seed$S/model --data test-id.csv --steps 16  # S = 0, 1" in lines
    assert "akorn eval runs/sudoku_akorn-seed$S/model --data test-id.csv --steps 128 --votes 100  # S = 2" in lines


def test_words_are_quoted() -> None:
    assert "--data 'my boards.csv'" in shown(scored(data="my boards"))


def test_a_sample_of_a_file_has_a_limit() -> None:
    one, whole = scored(0, data="test-ood", boards=1000), scored(1, data="test-ood", boards=18000)
    text = shown(one, whole)
    assert "--data test-ood.csv --limit 1000 --steps 16  # S = 0" in text
    assert "--data test-ood.csv --steps 16  # S = 1" in text


@pytest.mark.parametrize(
    "record",
    [
        scored(early_exit=0.9),
        {**scored(), "config": {"boards": 3}},
        scored(recipe="nowhere"),
        scored(model__gone=3),
        {**scored(), "kind": "bench"},
    ],
)
def test_what_no_command_gives_again_is_counted(record: Record) -> None:
    everything = Table("all", ("figure",), (Row("all", (Cell("board_accuracy", lambda record: True),)),))
    text = shown(record, tables=(everything,))
    assert re.search(r"\nRecords without a command: [^;]+ \(1\)\.\n", text)
    assert "```" not in text


def test_old_trainings_get_their_old_settings() -> None:
    """Before the corrections the average did not warm up, ItrSA had no last norm, and AugMix had nine operations."""
    old = scored(recipe="sudoku_itrsa")
    del old["extra"]["training"]["ema"]
    assert "akorn train sudoku_itrsa --model.no-final-norm --train.ema.no-warmup --train.seed 0" in shown(old)
    assert commands.wanted({"recipe": "cifar10_resnet18", "overrides": {}}, old, []) == {
        "train.ema.warmup": False, "data.augmix_operations": "nine",
    }  # fmt: skip


def test_the_record_of_a_training_says_what_its_recipe_said_then() -> None:
    evaluation = scored()
    ema = {"warmup": True}
    run = {
        "kind": "train", "name": "sudoku_akorn", "seed": 0, "date": "2026-11-19", "overrides": {},
        "config": {"batch_size": 77, "ema": ema, "task": {"model": {"steps": 9, "architecture": "akorn"}}},
    }  # fmt: skip
    training = evaluation["extra"]["training"]
    assert commands.wanted(training, evaluation, [run]) == {"model.steps": 9, "train.batch_size": 77}
    assert commands.wanted(training, evaluation, [{**run, "date": "2026-11-21"}]) == {}  # a later one
    assert commands.wanted(training, evaluation, [{**run, "seed": 1}]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("module", [sudoku, objects, robustness])
def test_trainings_of_the_pages_are_those_of_the_records(module: Any, found: list[Record]) -> None:
    """Parsed, a training's command is its recipe with what the records say was set otherwise."""
    blocks, _ = commands.blocks(found, module.TABLES)
    places = [block.out or block.name for block in blocks]
    assert len(blocks) > 10
    assert len(places) == len(set(places)), "two trainings in one folder"
    for block in blocks:
        if block.trained:
            words = [word.replace(commands.SEED, "7") for word in block.commands()[0]]
            options = parse_train(words[2:])
            recipe = recipes()[words[2]]()
            got = flatten(json.loads(json.dumps(asdict(options.settings), default=str)))
            changed = dict(block.changed)
            if start := changed.get("init"):
                folder = str(start).removesuffix(f"-seed{commands.SEED}/model")
                assert folder in (start, *(place if "/" in place else f"runs/{place}" for place in places)), words
                changed["init"] = str(start).replace(commands.SEED, "7")
            path = {"data.path": "cifar-10-batches-py"} if room_of_recipe(recipe.name) == "robustness" else {}
            assert got == settings(block.name) | changed | {"train.seed": 7} | path, words
            assert options.out == (Path(f"{block.out}-seed7") if block.out else None)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["sudoku", "objects", "robustness"])
def test_the_command_line_takes_every_command(
    page: str, found: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "results" / f"{page}.md").read_text()
    lines = [line for line in text.replace("$S", "0").splitlines() if line.startswith("akorn ")]
    assert len(lines) > 50
    for line in lines:
        _, command, model, *options = shlex.split(line, comments=True)
        assert TRAINED not in line
        if command == "train":
            parse_train([model, *options])
            continue
        if model.startswith("runs/"):
            folder = tmp_path / model
            folder.mkdir(parents=True, exist_ok=True)
            (folder / CONFIG_FILE).write_text(json.dumps({"task": page}))
        parse_eval([model, *options])


def test_no_command_names_a_folder_of_a_machine() -> None:
    for page in ("sudoku", "objects", "robustness"):
        words = (ROOT / "results" / f"{page}.md").read_text().split()
        assert not [word for word in words if word.startswith(("/", "~/"))]
