"""Manifests with the right digest and wrong fields are refused in one line."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from akorn.engine import checkpoint
from akorn.errors import AkornError

FACTS: dict[str, Any] = {
    "recipe": "toy", "settings": {}, "elapsed": 1.0, "ema_started": False,
    "config": {"seed": 0, "precision": "float32", "ema": {"decay": 0.0}},
}  # fmt: skip


def forged(folder: Path, change: Any) -> Path:
    """A checkpoint whose manifest was changed, digest and all."""
    path = checkpoint.save(folder, 3, FACTS, {"model": {"x": torch.ones(2)}})
    body = json.loads((path / "manifest.json").read_text())
    body.pop("sha256")
    change(body)
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps({"sha256": digest, **body}, indent=1) + "\n")
    return path


def put(*keys: str, value: object) -> Any:
    def change(body: Any) -> None:
        for key in keys[:-1]:
            body = body[key]
        body[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(lambda body, key=key: body.pop(key) for key in ("step", "facts", "tensors", "files")),
        *(put(key, value=value) for key in ("step", "facts", "tensors", "files") for value in (None, "x", [1], True)),
        put("step", value=-1),
        put("files", "model-00001.safetensors", value=3),
        put("files", "model-00001.safetensors", "bytes", value="many"),
        put("files", "model-00001.safetensors", "sha256", value=None),
        put("files", "../x", value={"sha256": "", "bytes": 0}),
        put("files", "a" * 300, value={"sha256": "", "bytes": 0}),
        put("tensors", "model", value=[]),
        put("tensors", "model", "x", value=None),
        put("tensors", "model", "x", "files", value=[]),
        put("tensors", "model", "x", "files", value=[["a"]]),
        put("tensors", "model", "x", "files", value=["elsewhere"]),
        put("tensors", "model", "x", "shape", value=[3]),
        put("tensors", "model", "x", "shape", value=["2"]),
        put("tensors", "model", "x", "shape", value=[10**30]),
        put("tensors", "model", "y", value={"shape": [2], "files": ["model-00001.safetensors"]}),
    ],
)
def test_wrong_fields(tmp_path: Path, change: Any) -> None:
    path = forged(tmp_path, change)
    with pytest.raises((AkornError, OSError)) as raised:
        checkpoint.load(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key", list(FACTS))
@pytest.mark.parametrize("value", [None, [1], b""])
def test_wrong_facts(tmp_path: Path, key: str, value: object) -> None:
    def change(body: Any) -> None:
        if value == b"":
            del body["facts"][key]
        else:
            body["facts"][key] = value

    found = checkpoint.load(forged(tmp_path, change))
    with pytest.raises(AkornError, match=f"manifest.json: damaged, .*{key}"):
        checkpoint.check_run(found)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    found = checkpoint.load(forged(tmp_path, lambda body: None))
    checkpoint.check_run(found)
    assert found.groups["model"]["x"].tolist() == [1, 1]
    with pytest.raises(AkornError, match="contains no tensors of model"):
        checkpoint.weights_of(checkpoint.Checkpoint(tmp_path, 0, {}, {}), "last")
