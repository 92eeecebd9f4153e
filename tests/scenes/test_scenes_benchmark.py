"""`benchmarks/scenes.py`: the page, the record and the file of true renders, on made-up ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from akorn.objects.data import Pictures, load
from akorn.scenes import Studio, arrays, colours, family_of, labels, to_levels, whole_view

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scenes.py"


@pytest.mark.slow
def test_scenes_are_like_themselves(tmp_path: Path) -> None:
    drafts = Studio(family_of("clevr")).drafts([0])
    world = arrays([drafts.scene(0)])
    image = to_levels(colours(world, whole_view(), 2)).permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "true-renders.npz", images=image, masks=labels(world, whole_view()).numpy())
    (tmp_path / "scenes.json").write_text(json.dumps([drafts.described(0)]))

    def run(*words: str) -> str:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(SCRIPT), *words, "--data", str(tmp_path), "--device", "cpu"]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    run("compare", "--page", str(tmp_path / "page"), "--samples", "2", "--record", str(tmp_path / "results"))
    (record,) = (tmp_path / "results").glob("*.json")
    metrics = json.loads(record.read_text())["metrics"]
    assert metrics["median_iou"] > 0.999
    assert metrics["ground"] < 0.1
    assert metrics["objects"] < 1
    assert "00-ours.png" in (tmp_path / "page" / "index.html").read_text()
    run("truth", "--out", str(tmp_path / "true.npz"))
    cut = load(tmp_path / "true.npz")
    assert isinstance(cut, Pictures)
    assert cut.images.shape == (1, 3, 128, 128)
    assert (cut.images[0, :, 0, 0] == image[0, 29, 64]).all()
    assert (cut.images[0, :, -1, 1] == image[0, 220, 66]).all()
    run("truth", "--ours", "--out", str(tmp_path / "same.npz"))
    ours = load(tmp_path / "same.npz")
    assert isinstance(ours, Pictures)
    assert (ours.labels == cut.labels).mean() > 0.999
    assert np.abs(ours.images.astype(int) - cut.images).mean() < 6  # 2 rays are noisy, 16 less so
    assert ours.made["described"] == "scenes.json"
