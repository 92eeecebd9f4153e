"""What several tests of robustness begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from robustness_toy import TINY

from akorn.robustness.model import build


@pytest.fixture(autouse=True)
def _no_photographs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frost is the procedural texture, whatever is installed here."""
    monkeypatch.setattr("akorn.robustness.corruptions.frost_pictures._folder", lambda: None)


@pytest.fixture
def model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("akorn.rooms.ROOMS", ("sudoku", "robustness"))
    torch.manual_seed(0)
    build(TINY).save_pretrained(tmp_path / "model")
    return tmp_path / "model"
