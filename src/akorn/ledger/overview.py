"""A page for any folder of records: one table per kind and name of record. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from akorn.ledger.records import Record
from akorn.ledger.tables import Value, contents, markdown, summary, value
from akorn.runtime.nested import flatten
from akorn.runtime.text import printable

MARK = "by `akorn results`"
"""Marks every page of this kind in its first lines, so that no other file is replaced by mistake."""

_NONE = "–"
_METRICS = 12  # columns; --json prints the others
_KINDS = {"eval": "evaluations", "train": "training runs", "bench": "measurements"}
_DATA = "data fingerprint"
_UNSAID = {
    *("seed", "start_seed", "device", "weights_sha256"),
    *("checkpoint_every", "checkpoint_minutes", "keep", "shard_mb", "log_every", "eval_every", "tensorboard"),
}
"""Settings, at any depth, that do not distinguish runs: seeds are averaged over, the device has its own column, and how
often a run reports or saves does not change the figures."""


@dataclass(frozen=True)
class Sheet:
    """The records of one kind and name: a row for each combination of settings."""

    title: str
    head: tuple[str, ...]
    """`settings` if they differ, the metrics, device and date."""
    rows: tuple[tuple[str, ...], ...]
    more: tuple[str, ...] = ()
    """Metrics that have no column."""


def overview(records: Sequence[Record]) -> str:
    """Return a page in Markdown. Records that differ only in their seed share a row, as mean ± standard deviation."""
    found = sheets(records)
    lines = [
        "# Results",
        "",
        f"Rendered {MARK} from {len(records)} record{'s' if len(records) != 1 else ''}. A figure is the mean ± the"
        " sample standard deviation over seeds, with the number of seeds in brackets; of several records with the same"
        " settings and seed the newest counts. `settings` lists those in which the rows of a table differ.",
        *(["", *contents([sheet.title for sheet in found])] if len(found) > 1 else []),
    ]
    for sheet in found:
        lines += ["", f"## {sheet.title}", "", *markdown(sheet.head, sheet.rows)]
        if sheet.more:
            names = ", ".join(sheet.more[:_METRICS]) + (", …" if sheet.more[_METRICS:] else "")
            lines += ["", f"Not shown: {names} (`akorn results --json`)."]
    return "\n".join(map(printable, lines)) + "\n"


def sheets(records: Sequence[Record], *, scores: bool = False) -> list[Sheet]:
    """The tables of the page; `scores`: without standard errors, times, and what repeats another column."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((str(record["name"]), str(record["kind"])), []).append(record)
    return [_sheet(f"{name}: {_KINDS.get(kind, kind)}", each, scores) for (name, kind), each in sorted(groups.items())]


def _sheet(title: str, records: Sequence[Record], scores: bool) -> Sheet:
    """One row for each combination of settings, in the order in which they were first recorded."""
    rows: dict[str, dict[int, Record]] = {}  # by settings, then by seed: the newest
    for record in sorted(records, key=lambda r: str(r["date"])):
        rows.setdefault(json.dumps(_settings(record), sort_keys=True, default=str), {})[record["seed"]] = record
    found = [list(by_seed.values()) for by_seed in rows.values()]
    settings = [_settings(each[0]) for each in found]
    differing = _differing(settings)
    metrics = list(dict.fromkeys(name for each in found for record in each for name in record["metrics"]))
    if scores:
        metrics = [name for name in metrics if name != "seconds" and not name.endswith("_error")] or metrics
        columns = {
            tuple(_figure([value(record, name) for record in each]) for each in found): name for name in metrics[::-1]
        }
        metrics = [name for name in metrics if name in columns.values()]  # the first of those that are all the same
    shown = metrics[:_METRICS]
    head = [*(["settings"] if differing else []), *shown, "device", "date"]
    body = []
    for each, said in zip(found, settings, strict=True):
        words = ", ".join(f"{name} = {_word(said[name])}" for name in differing if name in said)
        figures = [_figure([value(record, metric) for record in each]) for metric in shown]
        devices = ", ".join(dict.fromkeys(_device(record) for record in each))
        date = max(str(record["date"]) for record in each)[:10]
        body.append((*([words or _NONE] if differing else []), *figures, devices, date))
    return Sheet(title, tuple(head), tuple(body), tuple(metrics[_METRICS:]))


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    """The settings in which some differ; the data's fingerprint only if nothing else tells two of them apart."""
    names = dict.fromkeys(name for each in settings for name in each)
    found = [name for name in names if len({_word(each.get(name)) for each in settings}) > 1]
    without = [name for name in found if name != _DATA]
    told = {tuple(_word(each.get(name)) for name in without) for each in settings}
    return without if len(told) == len(settings) else found


def _settings(record: Record) -> dict[str, Any]:
    """Everything that a record's figures depend on, by dotted names, except seeds."""
    training = (record.get("extra") or {}).get("training") or {}
    flat = flatten(record["config"])
    for name, word in flatten(training).items():
        changed = name.removeprefix("overrides.")  # how the recipe was changed: "train.epochs", "model.n"
        if not changed.startswith("valid."):
            flat[changed if changed != name else f"training.{name}"] = word
    flat[_DATA] = str(record.get("data", _NONE))[:8]
    return {name: word for name, word in flat.items() if name.rpartition(".")[2] not in _UNSAID}


def _figure(values: Sequence[Value | None]) -> str:
    """Mean and spread, with more digits for small numbers such as a loss."""
    largest = max((abs(found) for found in values if isinstance(found, int | float)), default=0.0)
    return summary(values, digits=4 if 0 < largest < 1 else 2)


def _device(record: Record) -> str:
    hardware = record.get("hardware") or {}
    return str(hardware.get("gpu") or hardware.get("device") or _NONE)


def _word(setting: object) -> str:
    if isinstance(setting, list | tuple):
        return " ".join(map(_word, setting))
    return f"{setting:g}" if isinstance(setting, float) else str(setting)
