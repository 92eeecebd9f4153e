"""The ledger: one JSON record in `results/` for every finished run or evaluation. Imports no torch."""

import json
import math
import os
import platform
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from akorn._version import __version__
from akorn.errors import AkornError
from akorn.runtime.files import make_folder, replacing
from akorn.runtime.json_files import read_json
from akorn.settings import CONFIG_FILE

FORMAT = "akorn-record"
VERSION = 1
_LARGEST = 10**300
_LIBRARIES = ("torch", "numpy", "accelerate", "safetensors", "triton")

Record = dict[str, Any]

# required and optional fields of a record
_REQUIRED: dict[str, type] = {"kind": str, "name": str, "seed": int, "metrics": dict, "config": dict, "date": str}
_OPTIONAL: dict[str, type] = {"overrides": dict, "data": str, "hardware": dict, "extra": dict}
_WORDS: dict[type, str] = {str: "words", int: "a whole number", dict: "an object"}


def write_record(
    kind: str,
    name: str,
    metrics: Mapping[str, float],
    *,
    config: Mapping[str, Any],
    seed: int,
    data_fingerprint: str,
    wall_time: float,
    device: str,
    folder: Path,
    overrides: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Write one record and return its path, `kind-name-seedS-date-xxxxxx.json`. It never replaces another.

    kind: "train" or "eval"; name: the recipe or model; config: everything the numbers depend on; overrides: how the
    recipe was changed; extra: anything else worth keeping, as JSON values.
    """
    now = datetime.now(UTC)
    record: Record = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "name": name,
        "seed": seed,
        "metrics": {key: float(value) for key, value in metrics.items()},
        "config": dict(config),
        "overrides": dict(overrides or {}),
        "data": data_fingerprint,
        "wall_time": round(wall_time, 3),
        "date": now.isoformat(timespec="seconds"),
        "hardware": hardware(device),
        "commit": commit(),
        "libraries": libraries(),
        "extra": dict(extra or {}),
    }
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", f"{kind}-{name}").strip("-")
    path = folder / f"{readable}-seed{seed}-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}.json"
    text = json.dumps(record, indent=1, ensure_ascii=False, default=_as_json) + "\n"
    make_folder(folder)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def record_evaluation(
    model: str | Path,
    metrics: Mapping[str, float],
    *,
    training: Mapping[str, Any] | None,
    config: Mapping[str, Any],
    data_fingerprint: str,
    wall_time: float,
    device: str,
    folder: Path,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """Record the evaluation of a model and return the record's path.

    Its name is that of `model_name`, and its seed that of the training, if the model's folder has it, else 0.

    Args:
        model: the name or folder of the model.
        metrics: its scores.
        training: what `akorn.models.training_of(model)` found, which is kept in the record.
        config: everything the scores depend on besides the model.
        data_fingerprint: a digest of the data.
        wall_time: duration of the evaluation in seconds.
        device: where it ran.
        folder: the ledger.
        extra: anything else worth keeping, as JSON values.

    """
    name = model_name(model, training)
    return write_record(
        kind="eval",
        name=name,
        metrics=metrics,
        config={"model": name, **config},
        seed=int(training["seed"]) if training else 0,
        data_fingerprint=data_fingerprint,
        wall_time=wall_time,
        device=device,
        folder=folder,
        extra={**(extra or {}), "training": training},
    )


def model_name(model: str | Path, training: Mapping[str, Any] | None) -> str:
    """How records call a model: a shipped one by its name, one of a folder by its recipe, or else by the folder's name.

    Seeds of a recipe lie in folders of their own and belong together.
    """
    path = Path(model)
    if training is None:
        return path.name
    shipped = len(path.parts) == 1 and not (path / CONFIG_FILE).exists()
    return path.name.replace("_", "-") if shipped else str(training["recipe"])


def recipe_of(record: Record) -> str:
    """The recipe of a record's model, whatever the model is called; the record's name if it has no recipe."""
    training = (record.get("extra") or {}).get("training") or {}
    return str(training.get("recipe", record["name"]))


def read_records(folder: Path, skipped: Callable[[AkornError], None] | None = None) -> list[Record]:
    """Return the records of a folder, oldest first, each with its file's name under "file".

    skipped: called for every file that is not a record, which is then skipped; without it the first is an AkornError.
    """
    records = []
    for path in sorted(folder.glob("[!.]*.json")):  # not files that are being written
        try:
            records.append({**read_record(path), "file": path.name})
        except AkornError as error:
            if skipped is None:
                raise
            skipped(error)
    return sorted(records, key=lambda r: (r["date"], r["file"]))


def read_record(path: Path) -> Record:
    """Return the record in a file; AkornError if it is not a record, or if a field has a wrong type."""
    record = read_json(path)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise AkornError(f"{path}: not a record of akorn, expected format {FORMAT!r}")
    if record.get("version") != VERSION:
        raise AkornError(f"{path}: record version {record.get('version')!r}, this akorn reads version {VERSION}")
    if absent := [key for key in _REQUIRED if key not in record]:
        raise AkornError(f"{path}: the record lacks {', '.join(absent)}")
    for key, kind in (_REQUIRED | _OPTIONAL).items():
        value = record.get(key)
        if not (isinstance(value, kind) or (key in _OPTIONAL and value is None)) or isinstance(value, bool):
            raise AkornError(f"{path}: damaged, {key} is {_shown(value)}, expected {_WORDS[kind]}")
    training = (record.get("extra") or {}).get("training")
    if not isinstance(training, dict | None):
        raise AkornError(f"{path}: damaged, extra.training is {_shown(training)}, expected {_WORDS[dict]}")
    return record


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def commit() -> dict[str, Any]:
    """Return the commit of akorn's source and whether it has local changes; both None outside a checkout.

    The environment variable AKORN_COMMIT, where it is set, is taken as the commit: for source that was copied without
    its history, or into a repository with another one.
    """
    if known := os.environ.get("AKORN_COMMIT"):
        return {"id": known, "changed": None}
    package = Path(__file__).resolve().parents[1]
    tracked = _git(package, "ls-files", "--error-unmatch", "_version.py")  # otherwise it is another repository
    if tracked is None:
        return {"id": None, "changed": None}
    changed = _git(package, "status", "--porcelain", "--", ".")
    return {"id": _git(package, "rev-parse", "HEAD"), "changed": None if changed is None else bool(changed)}


def hardware(device: str) -> dict[str, Any]:
    """Return the machine in words: device, GPU if one was used, processor and number of cores."""
    facts: dict[str, Any] = {
        "device": device,
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
    }
    if device.startswith("cuda"):
        import torch

        if torch.cuda.is_available():
            facts["gpu"] = torch.cuda.get_device_name(torch.device(device))
            facts["gpus"] = torch.cuda.device_count()
    return facts


def libraries() -> dict[str, str]:
    """Return the versions that numbers may depend on."""
    versions = {"akorn": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if "torch" in sys.modules:  # its version names the CUDA it was built for, unlike the package's metadata
        versions["torch"] = str(sys.modules["torch"].__version__)
    return versions


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _as_json(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise AkornError(f"a record can hold only JSON values, not {value!r}")


def is_number(value: object) -> bool:
    """Say whether a metric can be averaged."""
    if isinstance(value, int) and abs(value) > _LARGEST:  # too large for a float
        return False
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
