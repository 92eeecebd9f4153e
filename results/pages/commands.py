"""The commands behind a page's figures: how its models were trained and scored, told by the records. Torch-free.

A training is a recipe, what is to be set otherwise than the recipe says today, and a seed. What was set stands in the
record of the training, or in what an evaluation's record says about it. Settings that change no figure are left out.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.ledger.tables import Table, chosen
from akorn.objects.data.sets import GENERATED
from akorn.rooms import recipes, room_of_recipe
from akorn.runtime.nested import flatten
from results.pages.commands_eval import TRAINED, Gone, evaluation
from results.pages.corrections import corrected
from results.pages.trials import HARMLESS, command, settings

TITLE = "How to reproduce a figure"
_HARMLESS = HARMLESS - {"train.epochs"}
_LABELS = 4  # rows of one table that a line names; of more it names the table
INITS = {
    "half": ("sudoku_hard", "`sudoku` halfway"),
    "model": ("photos_akorn", ""),
    "crop_last": ("cifar10_resnet18_crop_last", ""),
    "cifar10-conv": ("cifar10_akorn_conv", ""),
    "clevr-60-epochs": ("clevr_akorn", "AKOrN, attention, after 60 epochs"),
}
"""What a training was told to start from, which is the name of a folder that is gone, or of weights that have changed:
the training that makes such weights, and how one of its rows begins where it has several blocks."""
SEED = "@S@"
"""What stands for the seed in words of commands; no shell quotes it."""
_WORDS = (
    "The commands behind the figures of this page, one block for each training; the rows that it fills stand above it."
    " They are made from the records: settings that change no figure are left out, and a training that ran before a"
    " recipe or a default changed gets its old settings. What later trainings have replaced is not here. Figures"
    " reproduce to within their spread over seeds, not to the last digit."
)


def wanted(training: Mapping[str, Any], record: Record, records: Sequence[Record]) -> dict[str, Any]:
    """What a training sets otherwise than its recipe does today, by dotted names; `Gone` if that can no longer be set.

    training: what the record says about it, as in `training.json`.
    """
    name = str(training["recipe"])
    now = settings(name)
    if not now:
        raise Gone("of recipes that are gone")
    overrides = training.get("overrides", {})
    if any(_matters(key) and key not in now for key in overrides):
        raise Gone("of trainings with settings that are gone")
    run = _run(training, record, records)
    said = _recorded(run) if run is not None else {}
    if not said.get("train.ema.warmup", run is None and corrected(record)):
        warmup = {} if now["train.ema.decay"] == 0 else {"train.ema.warmup": False}
        said = {**_absent(name), **warmup, **said}
    said.setdefault("train.weights", "average")  # at first there were no others
    said |= flatten(training.get("ema") or {}, "train.ema.") | flatten(training.get("data") or {}, "data.")
    said |= {f"train.{key}": training[key] for key in ("precision", "weights") if key in training}
    said = {key: value for key, value in said.items() if key not in ("data.path", "init")}  # not as typed
    said |= overrides
    if said.get("data.path") == now.get("data.name") in GENERATED:  # a folder made of the scenes that it generates
        del said["data.path"]
    return {key: said[key] for key in now if key in said and _matters(key) and said[key] != now[key]}


def _matters(name: str) -> bool:
    return name not in _HARMLESS and not name.startswith("valid.") and name not in ("channels_last", "data.workers")


def _run(training: Mapping[str, Any], record: Record, records: Sequence[Record]) -> Record | None:
    """The record of the training itself: the newest before this one with its recipe, seed and overrides."""
    if record["kind"] == "train":
        return record
    asked = {key: value for key, value in training.get("overrides", {}).items() if key != "train.weights"}
    fitting = [
        each
        for each in records
        if (each["kind"], each["name"], each["seed"]) == ("train", training["recipe"], training.get("seed"))
        and {key: value for key, value in each["overrides"].items() if key != "train.weights"} == asked
        and each["date"] <= record["date"]
    ]
    return fitting[-1] if fitting else None


def _recorded(run: Record) -> dict[str, Any]:
    """All settings that the record of a training names."""
    config = dict(run["config"])
    task = config.pop("task", {})
    return {**flatten(config, "train."), **flatten(task)}


def _absent(name: str) -> dict[str, Any]:
    """The settings of first trainings that recipes have had only since."""
    recipe = recipes()[command(name)[0]]()
    parts = {"model": recipe.model, "data": recipe.data}
    return {f"{part}.{key}": value for part, of in parts.items() for key, value in getattr(of, "absent", {}).items()}


def train_words(name: str, changed: Mapping[str, Any], out: str = "") -> list[str]:
    """The words of `akorn train` for a recipe, or for a trial that once was one; out: the run's folder."""
    words = ["akorn", "train", *command(name)]
    robust = room_of_recipe(words[2]) == "robustness"
    for key, value in changed.items():
        words += _option(key, "cifar-10-batches-py" if key == "data.path" and robust else value)
    return [*words, "--train.seed", SEED, *(["--out", f"{out}-seed{SEED}"] if out else [])]


def _option(name: str, value: Any) -> list[str]:
    """A setting as the command line has it."""
    *groups, last = name.replace("_", "-").split(".")
    if isinstance(value, bool):
        return ["--" + ".".join([*groups, last if value else f"no-{last}"])]
    values = value if isinstance(value, list) else [value]
    return ["--" + ".".join([*groups, last]), *map(str, values)]


@dataclass
class Block:
    """A training with what its models were scored by, or a model that is not trained."""

    name: str
    changed: dict[str, Any] = field(default_factory=dict)
    trained: bool = True
    stopped: int | None = None
    """After how many steps the training ended, if these are fewer than were asked for."""
    out: str = ""
    """The run's folder without its seed, where it is not the usual one."""
    seeds: set[int] = field(default_factory=set)
    scored: dict[tuple[str, ...], set[int]] = field(default_factory=dict)
    """Words of `akorn eval` → of which seeds."""
    rows: dict[str, list[str]] = field(default_factory=dict)
    """Which rows its figures are in, by table."""

    def add(self, record: Record, rows: Mapping[str, Sequence[str]], words: Sequence[str]) -> None:
        """Add a record that fills these rows, and how it was scored."""
        self.seeds.add(int(record["seed"]))
        if words:
            self.scored.setdefault(tuple(words), set()).add(int(record["seed"]))
        for table, labels in rows.items():
            known = self.rows.setdefault(table, [])
            known += [label for label in labels if label not in known]

    def commands(self) -> list[list[str]]:
        """The words of all commands, the training first; SEED stands for the seed."""
        trained = [train_words(self.name, self.changed, self.out)] if self.trained else []
        model = f"{self.out or f'runs/{self.name}'}-seed{SEED}/model"
        return [*trained, *([model if word == TRAINED else word for word in words] for words in self.scored)]

    def lines(self) -> list[str]:
        """What the page shows."""
        seeds = sorted(self.seeds)
        one = len(seeds) == 1
        shown = [shlex.join(words).replace(SEED, str(seeds[0]) if one else "$S") for words in self.commands()]
        for place, of in enumerate(self.scored.values(), start=len(shown) - len(self.scored)):
            if of != self.seeds:
                shown[place] += f"  # S = {', '.join(map(str, sorted(of)))}"
        if not one:
            shown = [f"for S in {' '.join(map(str, seeds))}; do", *shown, "done"]
        rows = [
            table + (f" ({'; '.join(labels)})" if len(labels) <= _LABELS else "") for table, labels in self.rows.items()
        ]
        stopped = f", stopped after {self.stopped:,} steps" if self.stopped else ""
        return ["", f"**`{self.name}`**{stopped}: {' · '.join(rows)}", "", "```sh", *shown, "```"]


def blocks(records: Sequence[Record], tables: Sequence[Table]) -> tuple[list[Block], Counter[str]]:
    """The commands behind a page's figures, and how many records have none, by the reason."""
    found: dict[str, Block] = {}
    left: Counter[str] = Counter()
    whole: dict[str, int] = {}  # boards in each file
    for record in records:
        data, boards = str(record["config"].get("data")), record["config"].get("boards", 0)
        whole[data] = max(whole.get(data, 0), boards)
    for record, rows in _behind(records, tables):
        try:
            block = _block(record, records)
            words = evaluation(record, whole) if record["kind"] == "eval" else []
        except Gone as reason:
            left[str(reason)] += 1
            continue
        found.setdefault(f"{block.name} {block.changed} {block.stopped}", block).add(record, rows, words)
    seen: Counter[str] = Counter()
    for block in found.values():
        seen[block.name] += 1
        number = f"-{seen[block.name]}" if seen[block.name] > 1 else ""
        if block.trained and (number or block.name not in recipes()):
            block.out = f"runs/{block.name}{number}"
    for block in found.values():
        if block.changed.get("init") is not None:
            block.changed["init"] = _start(str(block.changed["init"]), list(found.values()))
    return list(found.values()), left


def _behind(records: Sequence[Record], tables: Sequence[Table]) -> list[tuple[Record, dict[str, list[str]]]]:
    """The records behind a page's figures, each with the rows that it fills, by table."""
    found: dict[int, tuple[Record, dict[str, list[str]]]] = {}
    for table in tables:
        for row in table.rows:
            for cell in row.cells:
                for record in chosen(records, cell):
                    labels = found.setdefault(id(record), (record, {}))[1].setdefault(table.title, [])
                    if row.label not in labels:
                        labels.append(row.label)
    return list(found.values())


def _block(record: Record, records: Sequence[Record]) -> Block:
    """The training behind a record, without its scores."""
    if record["kind"] == "bench":
        raise Gone("measurements by the scripts of `benchmarks/`")
    told = (record.get("extra") or {}).get("training")
    if record["kind"] == "train":
        told = {"recipe": record["name"], "seed": record["seed"], "overrides": record["overrides"]}
    if told is None:
        return Block(record["name"], trained=False)
    asked = told.get("overrides", {}).get("train.steps")
    stopped = told["steps"] if asked and told.get("steps", asked) < asked else None
    return Block(str(told["recipe"]), wanted(told, record, records), stopped=stopped)


def _start(name: str, found: Sequence[Block]) -> str:
    """The folder of the weights that a training started from, as the page's commands make them."""
    if name not in INITS:
        return name
    recipe, row = INITS[name]
    for block in found:
        if block.name == recipe and any(label.startswith(row) for of in block.rows.values() for label in of):
            return f"{block.out or f'runs/{recipe}'}-seed{SEED}/model"
    raise AkornError(f"no training on this page makes the weights {name!r} that another one starts from")


def section(records: Sequence[Record], tables: Sequence[Table], words: str) -> str:
    """The section of a page; words: where its data comes from."""
    found, left = blocks(records, tables)
    lines = ["", f"## {TITLE}", "", f"{_WORDS} {words}"]
    if left:
        counts = "; ".join(f"{reason} ({count})" for reason, count in left.items())
        lines += ["", f"Records without a command: {counts}."]
    return "\n".join([*lines, *(line for block in found for line in block.lines())]) + "\n"
