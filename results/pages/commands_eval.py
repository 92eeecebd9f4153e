"""The words of `akorn eval` that give the figures of a record again. Torch-free.

Each room's settings are told as the fields of its command's options, of which those that are not the defaults become
words: a name that the command does not have is a mistake here, not on a page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from akorn.ledger.records import Record
from akorn.objects.commands import evaluate as objects
from akorn.robustness.attack_suite import ATTACKS
from akorn.robustness.commands import evaluate as robustness
from akorn.sudoku.commands import evaluate as sudoku
from akorn.sudoku.effort import SURE
from results.pages.sudoku import gone
from results.pages.trials import settings

TRAINED = "@MODEL@"
"""What stands for the folder of a trained model."""


class Gone(Exception):
    """A record whose figures no command gives again; its text completes “records that …”."""


def evaluation(record: Record, whole: Mapping[str, int]) -> list[str]:
    """The words of `akorn eval` for a record; whole: how many boards a file has."""
    config = record["config"]
    try:
        if "boards" in config:
            return _words(record, sudoku.Options(), _sudoku(record, whole))
        if "clusters" in config:
            return _words(record, objects.Options(), _objects(record))
        if "data_split" in config:
            return _words(record, robustness.Options(), _robustness(record))
    except KeyError:  # a setting that every record of today has
        pass
    raise Gone("too little said of how they were scored")


def _words(record: Record, default: Any, asked: Mapping[str, Any]) -> list[str]:
    """The command for options that differ from the defaults, in the order of the command's help."""
    known = {field.name for field in fields(default)}
    assert asked.keys() <= known, f"no such options: {asked.keys() - known}"
    words = ["akorn", "eval", _model(record)]
    for name in (field.name for field in fields(default)):
        value, usual = asked.get(name), getattr(default, name)
        same = math.isclose(value, usual) if isinstance(value, float) and isinstance(usual, float) else value == usual
        if name not in asked or same:
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    return words


def _model(record: Record) -> str:
    """A model by its own name if it has one, else the folder of its training."""
    own, training = str(record["config"].get("model", record["name"])), (record.get("extra") or {}).get("training")
    if training is None and ":" not in own:
        raise Gone("of models whose training is not known")
    return TRAINED if training is not None and own == training["recipe"] else own


def _sudoku(record: Record, whole: Mapping[str, int]) -> dict[str, Any]:
    config = record["config"]
    if config.get("early_exit") is not None or gone(record):
        raise Gone("of ways to compute that are gone")
    data, boards = config["data"], config["boards"]
    asked = {name: config[name] for name in ("energy", "precision")} | {"seed": config["start_seed"]}
    if data != "generated":
        asked["data"] = Path(f"{data}.csv")
    if data == "generated" or boards < whole[data]:
        asked["limit"] = boards
    if "effort" in config:
        symmetries = config.get("symmetries", False)  # at first there were none
        sure = None if config["sure"] == SURE else config["sure"]
        return asked | {"effort": config["effort"], "stop": config["stop"], "sure": sure, "symmetries": symmetries}
    vote = config["vote"]
    usual = config["votes"] == 1 or vote == "sum"
    votes = config["votes"] if config["votes"] > 1 else None
    return asked | {"steps": config["steps"], "votes": votes, "vote": None if usual else vote}


def _objects(record: Record) -> dict[str, Any]:
    config = record["config"]
    generated = config.get("source") == "generated" or "source" not in config
    asked = {
        "data": config["data"] if generated else config["source"], "limit": config["pictures"],
        "seed": config["start_seed"], "against_clusters": _others(record),
    }  # fmt: skip
    plain = ("split", "size", "fit", "clusters", "input", "read", "least", "places", "edges", "uptile", "bilinear")
    asked |= {name: config[name] for name in (*plain, "method", "components") if config.get(name) is not None}
    if "ratio" in config:
        asked["auto_ratio"] = config["ratio"]
    if config.get("steps") is not None and config["steps"] != settings(record["name"]).get("model.steps"):
        asked["steps"] = config["steps"]
    return asked


def _others(record: Record) -> tuple[int, ...]:
    """Which other numbers of clusters the same evaluation scored."""
    scored = (record.get("extra") or {}).get("against_clusters", {})
    return tuple(int(count) for count in scored if count.isdigit() and int(count) != record["config"]["clusters"])


def _robustness(record: Record) -> dict[str, Any]:
    config, metrics = record["config"], record["metrics"]
    whole = 10_000 if config["data_split"] == "test" else 5_000
    attacks = [attack for attack in ATTACKS.values() if attack.key in metrics]
    asked: dict[str, Any] = {
        "data": Path("cifar-10-batches-py"), "split": config["data_split"], "seed": config["start_seed"],
        "limit": config["pictures"] if config["pictures"] < whole else None, "starts": config["starts"],
        "noise": config["noise_epsilon"], "precision": config["precision"], "batch": config.get("batch", 500),
        "attacks": ",".join(attack.name for attack in attacks), "checks": "checked" in config,
    }  # fmt: skip
    if attacks:
        asked["attack_limit"] = config["attacked"] if config["attacked"] < config["pictures"] else None
        budget = {"attack_steps": config.get("attack_steps"), "queries": config.get("queries")}
        asked |= {name: value for name, value in budget.items() if value is not None}
        asked |= {"eot": config["eot"]} if config["random_start"] else {}
    if "epsilon" in config or "check_epsilon" in config:
        asked["epsilon"] = config.get("epsilon", config.get("check_epsilon"))
    if config.get("source") is not None and ("checked" in config or any(attack.transferred for attack in attacks)):
        asked["source"] = f"runs/{config['source']}-seed0/model"
    if "corrupted_pictures" in config:
        asked |= {"corrupted": Path("corrupted"), "severity": config["severity"]}
    return asked
