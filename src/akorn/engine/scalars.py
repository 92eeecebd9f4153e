"""Curves as `scalars.jsonl`: one JSON object per line, with `step`, `seconds` and named scalars. Imports no torch."""

import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from akorn.errors import AkornError
from akorn.runtime.files import replacing

FILE = "scalars.jsonl"
POINTS = 200
"""How many points of a curve a record keeps at most."""

Curve = dict[str, list[Any]]
"""The points of one curve: `steps` and `values`."""


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a `scalars.jsonl`, or of the one in a run's folder. A line cut by a kill is skipped."""
    file = path / FILE if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AkornError(f"{file}: the curves cannot be read ({reason})") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            if not isinstance(row["step"], int):
                raise TypeError("'step' is not a whole number")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):  # no newline at the end: cut by a kill
                continue
            raise AkornError(f"{file}:{number}: not a line of curves ({error!r})") from error
        rows.append(row)
    return rows


def curves(rows: Sequence[Mapping[str, Any]], points: int = POINTS) -> dict[str, Curve]:
    """The loss and the scores of a run in few points, by name; nothing unless the loss was logged more than once.

    rows: the lines that `read` returns. Each line has the mean loss since the line before it. Where there are more than
    `points`, equally many neighbours become one: the mean over all of their steps, at the last of these steps. Of a
    score's neighbours the last stays as it is. Values have six digits; what is not finite is left out.
    """
    losses = _points(rows, "loss")
    if len(losses) < 2:
        return {}
    steps = [0, *(step for step, _ in losses)]
    weights = [max(after - before, 1) for before, after in itertools.pairwise(steps)]
    means = []
    for window in _windows(len(losses), points):
        total = sum(weights[place] for place in window)
        mean = sum(weights[place] * losses[place][1] for place in window) / total
        means.append((losses[window[-1]][0], mean))
    names = dict.fromkeys(name for row in rows for name in row if name.startswith("eval/"))
    scores = {name: _points(rows, name) for name in names}
    thinned = {name: [each[window[-1]] for window in _windows(len(each), points)] for name, each in scores.items()}
    return {
        name: {"steps": [step for step, _ in each], "values": [float(f"{value:.6g}") for _, value in each]}
        for name, each in {"loss": means, **thinned}.items()
        if each
    }


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    """Steps and finite values of one curve."""
    return [(row["step"], float(row[name])) for row in rows if name in row and math.isfinite(row[name])]


def _windows(count: int, most: int) -> list[range]:
    """At most so many ranges of equal length, apart from the last, that share out `count` places."""
    length = -(-count // most) or 1
    return [range(begin, min(begin + length, count)) for begin in range(0, count, length)]


class ScalarLog:
    """Appends lines. A resumed run first removes the lines after its checkpoint, since it writes them again.

    These are lines of later steps, and the evaluation at the checkpoint's step, which follows the checkpoint.
    """

    def __init__(self, folder: Path, after_step: int) -> None:
        file = folder / FILE
        kept = [row for row in read(file) if _before(row, after_step)] if file.exists() and after_step else []
        with replacing(file) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        self._file = file
        try:
            self._handle = file.open("a", encoding="utf-8")
        except OSError as error:
            raise self._failed(error) from error

    def write(self, step: int, seconds: float, scalars: Mapping[str, float]) -> None:
        """Append one line, at once."""
        try:
            self._handle.write(json.dumps({"step": step, "seconds": round(seconds, 3), **scalars}) + "\n")
            self._handle.flush()
            names = os.fstat(self._handle.fileno()).st_nlink
        except OSError as error:
            raise self._failed(error) from error
        if not names:  # the file was deleted: what is written would be lost
            raise AkornError(f"{self._file}: was removed, perhaps with the run's folder: training stopped")

    def __enter__(self) -> "ScalarLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._handle.close()
        except OSError as failure:
            raise self._failed(failure) from failure

    def _failed(self, error: OSError) -> AkornError:
        reason = error.strerror or str(error)
        return AkornError(f"{self._file}: the curves cannot be written ({reason}); the checkpoints are untouched")


def _before(row: Mapping[str, Any], step: int) -> bool:
    evaluation = any(name.startswith("eval/") for name in row)
    return bool(row["step"] < step or (row["step"] == step and not evaluation))
