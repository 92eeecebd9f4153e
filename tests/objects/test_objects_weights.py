"""The weights that ship for object discovery: small, with a card, and they find the objects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from akorn.cli import main
from akorn.errors import AkornError
from akorn.models import WEIGHTS, create_model, list_models, load_model, training_of
from akorn.objects import generate
from akorn.objects.config import AkornConfig
from akorn.objects.evaluate import evaluate
from akorn.objects.model import build
from akorn.objects.recipes import RECIPES

HERE = [name for name in RECIPES.shipped if name in list_models(pretrained=True)]
# What a model must reach on the first 24 test pictures: less than its card says of all, far more than chance. There are
# no generated photographs; coloured sprites are the next best.
AT_LEAST = {"tetrominoes": (80, 50), "dsprites": (65, 55), "shapes": (62, 42), "clevr": (80, 38), "photos": (25, 33)}
DATA = {"photos": "dsprites"}


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_a_model_that_ships(name: str) -> None:
    assert (WEIGHTS / name / "model.safetensors").stat().st_size < 16_000_000
    card = (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    for word in ("recipe", "seed", "data", "FG-ARI"):
        assert word in card
    assert (training_of(name) or {})["recipe"] == RECIPES.shipped[name]
    model = create_model(name, pretrained=True)
    found = evaluate(model, generate(DATA.get(name, name), "test", 24))
    fg_ari, mbo = AT_LEAST[name]
    assert found.scores["fg_ari"] >= fg_ari
    assert found.scores["mbo"] >= mbo


def test_a_folder_of_data_hides_no_weights_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `akorn data make tetrominoes tetrominoes`."""
    monkeypatch.chdir(tmp_path)
    Path("tetrominoes").mkdir()
    Path("tetrominoes/test.npz").touch()
    shipped = load_model("tetrominoes")
    assert shipped.settings()["image_size"] == 32
    assert (training_of("tetrominoes") or {})["recipe"] == "tetrominoes_akorn"
    with pytest.raises(AkornError, match=r"config\.json: cannot be read"):  # this is a folder and nothing else
        load_model("./tetrominoes")
    build(AkornConfig(image_size=16, channels=16, heads=2, steps=2)).save_pretrained("tetrominoes")
    assert load_model("tetrominoes").settings()["image_size"] == 16  # a model's folder comes first
    assert training_of("tetrominoes") is None  # and is not the shipped one's training


def test_a_file_of_pictures_is_scored_by_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = generate("tetrominoes", "test", 6)
    np.savez(tmp_path / "some.npz", images=pictures.images / np.float32(255), labels=pictures.labels)
    with pytest.raises(SystemExit) as ended:
        main(["eval", "tetrominoes", "--data", str(tmp_path / "some.npz"), "--json", "--device", "cpu"])
    assert not ended.value.code
    scores = json.loads(capsys.readouterr().out)
    assert scores["fg_ari"] >= 70
    assert 0 < scores["mbo"] <= 100
