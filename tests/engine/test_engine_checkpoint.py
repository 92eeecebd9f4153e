"""Checkpoints are whole or refused, small enough, and few enough."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import CONFIG, ToyTask

from akorn.engine import EmaConfig, checkpoint, load_weights, train
from akorn.errors import AkornError

SHORT = replace(CONFIG, steps=20, epochs=1)


def run(out: Path, **changes: object) -> Path:
    return train(ToyTask(), replace(SHORT, **changes), out).checkpoint  # type: ignore[arg-type]


def resume(out: Path, task: ToyTask | None = None, **changes: object) -> None:
    train(task or ToyTask(), replace(SHORT, **changes), out, resume=True)  # type: ignore[arg-type]


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    weight = torch.randn(100, 70)
    return {
        "large": weight,
        "tied": weight,
        "half": torch.randn(33, 5).bfloat16(),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "transposed": torch.randn(4, 6).t(),
    }


@pytest.mark.parametrize("shard_mb", [0.01, 0.03, 1.0])
def test_shards_respect_the_limit_and_give_back_every_bit(tmp_path: Path, shard_mb: float) -> None:
    groups = {"model": tensors(), "other": {"x": torch.arange(5)}}
    path = checkpoint.save(tmp_path, 3, {"a": [1, None, "é"]}, groups, shard_mb=shard_mb)
    files = list(path.glob("*.safetensors"))
    assert max(f.stat().st_size for f in files) <= shard_mb * 1e6
    assert len(files) == {0.01: 8, 0.03: 3, 1.0: 2}[shard_mb]  # two tensors of 28,000 bytes, and small ones
    found = checkpoint.load(path)
    assert (found.step, found.facts) == (3, {"a": [1, None, "é"]})
    assert found.groups.keys() == groups.keys()
    for group, expected in groups.items():
        assert found.groups[group].keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found.groups[group][name], tensor, rtol=0, atol=0)


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for step in (5, 10, 15, 20):
        checkpoint.save(tmp_path, step, {}, {"model": {"x": torch.ones(2)}}, keep=3)
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["step-00000010", "step-00000015", "step-00000020"]
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000020"


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = run(tmp_path)
    files = [p for p in path.iterdir() if p.is_file()]
    assert len(files) == 5
    for file in files:
        good = file.read_bytes()
        for at in {0, 9, len(good) // 3, len(good) // 2, len(good) - 1}:
            file.write_bytes(good[:at] + bytes([good[at] ^ 3]) + good[at + 1 :])
            with pytest.raises(AkornError, match=str(file)):
                checkpoint.load(path)
        file.write_bytes(good)
    checkpoint.load(path)


def test_every_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, {"a": 1}, {"model": {"x": torch.ones(2)}})
    file = path / checkpoint.MANIFEST
    good = file.read_bytes()
    for at in range(len(good)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 3]) + good[at + 1 :])
        with pytest.raises(AkornError, match=r"manifest\.json"):
            checkpoint.load(path)


def test_cut_short_or_missing_files_are_refused(tmp_path: Path) -> None:
    path = run(tmp_path)
    for file in list(path.iterdir()):
        good = file.read_bytes()
        os.truncate(file, len(good) - 1)
        with pytest.raises(AkornError, match=f"{file}.*damaged"):
            resume(tmp_path)
        file.unlink()
        with pytest.raises(AkornError, match=f"{file}.*missing"):
            resume(tmp_path)
        file.write_bytes(good)
    resume(tmp_path)


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(AkornError, match=r"tensor '0.weight' is \[16, 5\] there and \[17, 5\] here"):
        resume(tmp_path, ToyTask(width=17))
    other = ToyTask()
    other.name = "sudoku"
    with pytest.raises(AkornError, match="recipe was 'toy', now 'sudoku'"):
        resume(tmp_path, other)
    other = ToyTask()
    other.data_digest = "changed"
    with pytest.raises(AkornError, match=r"data was .* now 'changed'"):
        resume(tmp_path, other)
    with pytest.raises(AkornError, match="settings random was True, now False"):
        resume(tmp_path, ToyTask(random=False))
    newer = ToyTask()
    newer.settings = lambda: {"random": True, "size": None}  # type: ignore[method-assign]
    with pytest.raises(AkornError, match="settings size was 'absent', now None"):
        resume(tmp_path, newer)
    with pytest.raises(AkornError, match="batch_size was 8, now 16"):
        resume(tmp_path, batch_size=16)
    with pytest.raises(AkornError, match=r"seed was 0, now 1"):
        resume(tmp_path, seed=1)
    resume(tmp_path, keep=1, log_every=3, eval_every=4)


def test_another_format_version_or_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = run(tmp_path)
    file = path / checkpoint.MANIFEST
    manifest = json.loads(file.read_text())
    for change, message in [({"version": 99}, "format version 99"), ({"format": "zip"}, "not a checkpoint of akorn")]:
        file.write_text(json.dumps({**manifest, **change}))
        with pytest.raises(AkornError, match=message):
            resume(tmp_path)
    for text, message in [("[1]", "not a checkpoint of akorn"), ("{", "not readable as JSON"), ("é\xff", "JSON")]:
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(AkornError, match=message):
            resume(tmp_path)
    with pytest.raises(AkornError, match="there is no such folder, expected a folder"):
        checkpoint.load(tmp_path / "nowhere")


def test_a_manifest_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    path = run(tmp_path)
    (tmp_path / "secret").write_bytes(b"x")
    manifest = json.loads((path / checkpoint.MANIFEST).read_text())
    manifest.pop("sha256")
    manifest["files"]["../../secret"] = {"bytes": 1, "sha256": "x"}
    manifest = {"sha256": checkpoint._digest(manifest), **manifest}
    (path / checkpoint.MANIFEST).write_text(checkpoint._text(manifest))
    with pytest.raises(AkornError, match="secret: missing"):
        checkpoint.load(path)


def test_what_a_kill_left_is_ignored_and_swept(tmp_path: Path) -> None:
    path = run(tmp_path)
    left = path.parent / ".tmp-step-00000099"
    left.mkdir()
    (left / "model-00001.safetensors").write_bytes(b"half")
    assert checkpoint.newest(path.parent) == path
    resume(tmp_path)
    assert not left.exists()


def test_weights_of_a_run_are_the_averaged_ones(tmp_path: Path) -> None:
    result = train(ToyTask(), SHORT, tmp_path / "a")
    expected = result.model.state_dict()
    for place in (tmp_path / "a", result.checkpoint):
        weights = load_weights(place)
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
    groups = checkpoint.load(result.checkpoint).groups
    assert not torch.equal(groups["model"]["0.weight"], groups["ema"]["0.weight"])
    late = train(ToyTask(), replace(SHORT, ema=EmaConfig(0.9, 2, after=1000)), tmp_path / "b")
    assert torch.equal(
        load_weights(late.checkpoint)["0.weight"], checkpoint.load(late.checkpoint).groups["model"]["0.weight"]
    )


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AkornError, match=r"cannot be written .*No space left"):
        checkpoint.save(tmp_path, 1, {}, {"model": {"x": torch.ones(2)}})
    assert checkpoint.newest(tmp_path) is None
