"""Checkpoints: folders of safetensors and JSON files, written atomically.

    checkpoints/step-00001000/
        manifest.json                 format, version, facts of the run, sha256 and size of every file
        model-00001.safetensors …     one or more files for each group of tensors

A checkpoint is written into a folder with a temporary name, flushed to disk and renamed. An incomplete one, after a
kill, therefore has a temporary name, and the next run removes it. Nothing is pickled.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from akorn.engine import shards
from akorn.engine.config import Weights
from akorn.errors import AkornError
from akorn.runtime.json_files import parse_json

FORMAT = "akorn-checkpoint"
VERSION = 1
FOLDER = "checkpoints"  # in a run's folder
MANIFEST = "manifest.json"
_TEMPORARY = ".tmp-"
_FACTS: dict[str, type | tuple[type, ...]] = {
    "recipe": str,
    "settings": dict,
    "config": dict,
    "config.seed": int,
    "config.precision": str,
    "config.ema": dict,
    "config.ema.decay": (int, float),
    "elapsed": (int, float),
    "ema_started": bool,
}
"""The facts about a run that the training loop stores, by dotted names."""
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint: facts about the run, and groups of named tensors ("model", "ema", …) on the CPU."""

    path: Path
    step: int
    facts: dict[str, Any]
    groups: dict[str, dict[str, Tensor]]


def save(
    folder: Path,
    step: int,
    facts: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Tensor]],
    *,
    shard_mb: float = 1024.0,
    keep: int = 2,
) -> Path:
    """Write `folder/step-…` atomically, then remove all but the `keep` newest checkpoints."""
    final = folder / f"step-{step:08d}"
    temporary = folder / f"{_TEMPORARY}{final.name}"
    try:
        if temporary.exists():
            shutil.rmtree(temporary)
        temporary.mkdir(parents=True)
        index = {g: shards.write(temporary, g, t, int(shard_mb * 1e6)) for g, t in groups.items()}
        files = {}
        for path in sorted(temporary.iterdir()):
            content = path.read_bytes()
            files[path.name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            _flush(path)
        body = {
            "format": FORMAT,
            "version": VERSION,
            "step": step,
            "facts": dict(facts),
            "tensors": index,
            "files": files,
        }
        manifest = temporary / MANIFEST
        manifest.write_text(_text({"sha256": _digest(body), **body}), encoding="utf-8", newline="\n")
        _flush(manifest)
        _flush(temporary)
        if final.exists():  # the same step of the same run, written earlier
            _remove(final)
        temporary.rename(final)
        _flush(folder)
        for old in existing(folder)[:-keep]:
            _remove(old)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)  # half a checkpoint only wastes space on a full disk
        raise AkornError(f"{final}: the checkpoint cannot be written ({error})") from error
    return final


def load(path: Path) -> Checkpoint:
    """Read a checkpoint, or raise an error that says what is wrong with it and where."""
    manifest = _read_manifest(path)
    contents: dict[str, bytes] = {}
    for name, entry in manifest["files"].items():
        file = path / name
        if Path(name).name != name or not file.is_file():
            raise AkornError(f"{file}: missing, but the checkpoint's manifest names it")
        try:
            content = file.read_bytes()
        except OSError as error:
            raise AkornError(f"{file}: cannot be read ({error.strerror or error})") from error
        if len(content) != entry["bytes"]:
            raise AkornError(f"{file}: damaged, it has {len(content)} bytes, but {entry['bytes']} were written")
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise AkornError(f"{file}: damaged, its content is not what was written (sha256 differs)")
        contents[name] = content
    groups = {group: shards.read(contents, index, path) for group, index in manifest["tensors"].items()}
    return Checkpoint(path, manifest["step"], manifest["facts"], groups)


def newest(folder: Path) -> Path | None:
    """Return the checkpoint with the most steps, if there is one."""
    found = existing(folder)
    return found[-1] if found else None


def existing(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [p for p in folder.iterdir() if p.is_dir() and _NAME.fullmatch(p.name)]
    return sorted(found, key=lambda p: int(p.name.removeprefix("step-")))


def load_newest(path: Path) -> Checkpoint:
    """Read a checkpoint, or a run's newest."""
    return load(newest(path / FOLDER) or path)


def check_run(found: Checkpoint) -> None:
    """AkornError unless a checkpoint has the facts that the training loop stores about its run."""
    for name, kind in _FACTS.items():
        _check(found.path / MANIFEST, found.facts, name, kind)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint, or of a run's newest one, by name: those that the run itself would use."""
    found = load_newest(path)
    _check(found.path / MANIFEST, found.facts, "config", dict)
    return weights_of(found, found.facts["config"].get("weights", "average"))


def weights_of(found: Checkpoint, which: Weights) -> dict[str, Tensor]:
    """Return a checkpoint's weights, by name: the last ones, or their average if it has started."""
    group = "ema" if which == "average" and found.facts.get("ema_started") else "model"
    if group not in found.groups:
        raise AkornError(f"{found.path}: contains no tensors of {group}")
    return found.groups[group]


def sweep(folder: Path) -> None:
    """Remove incomplete checkpoints of killed runs."""
    if folder.is_dir():
        for path in folder.glob(f"{_TEMPORARY}step-*"):
            shutil.rmtree(path)


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not path.is_dir():
        missing = "" if path.exists() else "there is no such folder, "
        raise AkornError(f"{path}: {missing or 'not a checkpoint, '}expected a folder with {MANIFEST}")
    if not file.is_file():
        raise AkornError(f"{file}: missing, so {path} is not a complete checkpoint")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise AkornError(f"{file}: cannot be read ({error.strerror or error})") from error
    manifest = parse_json(content, file)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise AkornError(f"{file}: not a checkpoint of akorn, expected format {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise AkornError(f"{file}: format version {manifest.get('version')!r}, this akorn reads version {VERSION}")
    same = content == _text(manifest).encode()  # a changed space would not change the digest
    if manifest.pop("sha256", None) != _digest(manifest) or not same:
        raise AkornError(f"{file}: damaged, its content is not what was written (sha256 differs)")
    _check_fields(file, manifest)
    return manifest


def _check_fields(file: Path, manifest: Mapping[str, Any]) -> None:
    """AkornError for a missing field or one of the wrong type, even if the digest is right."""
    for name, kind in {"step": int, "facts": dict, "tensors": dict, "files": dict}.items():
        _check(file, manifest, name, kind)
    if manifest["step"] < 0:
        raise AkornError(f"{file}: damaged, step is {manifest['step']}, expected 0 or more")
    for name, entry in manifest["files"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str) or not _whole(entry.get("bytes")):
            raise AkornError(f"{file}: damaged, files.{name} is {entry!r:.80}, expected a sha256 and a number of bytes")
    for group, index in manifest["tensors"].items():
        _check(file, manifest["tensors"], group, dict)
        for name, entry in index.items():
            files, shape = (entry.get("files"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
            if not isinstance(shape, list) or not isinstance(files, list) or not files or not all(map(_whole, shape)):
                raise AkornError(f"{file}: damaged, the tensor {name!r} of {group} is {entry!r:.80}, expected its"
                                 " shape and files")  # fmt: skip
            if foreign := [each for each in files if not isinstance(each, str) or each not in manifest["files"]]:
                raise AkornError(
                    f"{file}: damaged, {group} has a tensor in {foreign[0]!r:.80}, which is not one of its files"
                )


def _check(file: Path, holder: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> None:
    """AkornError unless a field, by its dotted name, exists and has the right type."""
    value: Any = holder
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise AkornError(f"{file}: damaged, {name} is missing")
        value = value[part]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        expected = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise AkornError(f"{file}: damaged, {name} is {value!r:.80}, expected {expected}")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=1) + "\n"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _flush(path: Path) -> None:
    """Wait until the file or folder is on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Rename first, so that a kill during removal leaves no incomplete checkpoint under a valid name."""
    doomed = path.with_name(f"{_TEMPORARY}{path.name}-old")
    if doomed.exists():
        shutil.rmtree(doomed)
    path.rename(doomed)
    shutil.rmtree(doomed)
