"""The Sudoku models: one interface, T at call time, starts, energies, configs, folders."""

from __future__ import annotations

import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import akorn
from akorn import models
from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.hub import default_card
from akorn.rooms import config_of
from akorn.settings import as_json
from akorn.sudoku.baselines import ItrSASudoku
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, ModelConfig, SudokuConfig
from akorn.sudoku.examples import EASY
from akorn.sudoku.model import SudokuModel
from akorn.sudoku.net import SudokuNet, build

TINY = SudokuConfig(channels=32, heads=2, steps=3)
CONFIGS: dict[str, ModelConfig] = {
    "paper": TINY,
    "no omega": replace(TINY, omega=False),
    "symmetric": replace(TINY, symmetric=True),
    "absolute": replace(TINY, position="absolute"),
    "rotary": replace(TINY, position="rotary"),
    "learned rotary": replace(TINY, position="learned-rotary"),
    "symmetric rotary": replace(TINY, position="learned-rotary", symmetric=True),
    "damped": replace(TINY, omega=False, step="damped"),
    "damped, recomputed": replace(TINY, omega=False, step="damped", recompute=True),
    "no projection": replace(TINY, rule="without-projection"),
    "residual": replace(TINY, rule="residual"),
    "n = 2": replace(TINY, n=2),
    "n = 16": replace(TINY, n=16),
    "odd n": replace(TINY, channels=48, n=3),
    "two blocks": replace(TINY, blocks=2),
    "recompute": replace(TINY, recompute=True),
    "itrsa": ItrSAConfig(channels=32, heads=2, steps=3),
    "itrsa gta": ItrSAConfig(channels=32, heads=2, steps=3, position="gta"),
    "transformer": ItrSAConfig(channels=32, heads=2, blocks=3, steps=1),
    "energy transformer": EnergyTransformerConfig(channels=32, heads=2, steps=3, memories=64),
}


def puzzles(count: int = 2) -> Tensor:
    board = torch.tensor([int(c) for c in EASY])
    return torch.stack([board.roll(9 * i) for i in range(count)])


def tiny(config: ModelConfig = TINY) -> SudokuNet:
    torch.manual_seed(0)
    return build(config)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_model_trains_and_has_one_interface(name: str) -> None:
    model = tiny(CONFIGS[name])
    puzzle = puzzles()
    logits = model(puzzle, 2, torch.Generator().manual_seed(0))
    assert logits.shape == (2, 81, 9)
    logits.square().mean().backward()
    unused = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert unused == []
    with torch.no_grad():
        result = model.evolve(puzzle, 4, generator=torch.Generator().manual_seed(0), each_step=True)
    assert result.step_logits is not None
    assert result.step_logits.shape == (4, 2, 81, 9)
    torch.testing.assert_close(result.step_logits[-1], result.logits)
    assert (result.energies is not None) == model.has_energy
    if result.energies is not None:
        assert result.energies.shape == (4, 2)


@pytest.mark.parametrize("name", ["paper", "itrsa", "energy transformer"])
@torch.no_grad()
def test_each_steps_logits_are_those_of_a_shorter_run(name: str) -> None:
    model = tiny(CONFIGS[name])
    x0 = torch.randn(2, 81, 32)
    each = model.evolve(puzzles(), 4, x0=x0, each_step=True).step_logits
    assert each is not None
    for t in range(4):
        torch.testing.assert_close(each[t], model(puzzles(), t + 1, x0=x0))
    assert not torch.allclose(each[0], each[3])


@torch.no_grad()
def test_the_start_of_the_blanks_alone_is_random() -> None:
    model = tiny()
    full = torch.arange(81)[None] % 9 + 1
    a, b = (model(full, 2, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    torch.testing.assert_close(a, b)
    a, b = (model(puzzles(), 2, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert not torch.allclose(a, b)
    torch.testing.assert_close(a, model(puzzles(), 2, torch.Generator().manual_seed(0)))
    x0 = torch.randn(2, 81, 32)
    torch.testing.assert_close(model(puzzles(), 2, x0=x0), model(puzzles(), 2, x0=3 * x0))  # the sphere forgets length


@torch.no_grad()
def test_energies_are_those_of_the_layer_and_can_be_chosen() -> None:
    model = tiny()
    assert isinstance(model, SudokuModel)
    x0 = torch.randn(2, 81, 32)
    paper = model.evolve(puzzles(), 3, x0=x0).energies
    published = model.evolve(puzzles(), 3, x0=x0, energy=osc.published_energy).energies
    assert paper is not None
    assert published is not None
    c = model.embedding(puzzles())
    start = torch.where((puzzles() > 0)[..., None], c, x0)
    x = osc.ungroup(osc.normalize(osc.group(start, 4)))
    layer = model.blocks[0].layer
    torch.testing.assert_close(paper[0], layer.energy(x, c))
    assert (published - paper).abs().min() > 1e-3
    assert model.evolve(puzzles(), 3, x0=x0, energy=None).energies is None


@torch.no_grad()
def test_bf16_keeps_energies_in_float32_and_near() -> None:
    model = tiny()
    x0 = torch.randn(2, 81, 32)
    exact = model.evolve(puzzles(), 3, x0=x0)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model.evolve(puzzles(), 3, x0=x0)
    assert rough.energies is not None
    assert exact.energies is not None
    assert rough.energies.dtype == rough.logits.dtype == torch.float32
    torch.testing.assert_close(rough.energies, exact.energies, rtol=0.02, atol=1.0)


@torch.no_grad()
def test_memory_does_not_grow_with_the_steps() -> None:
    model = tiny()
    assert isinstance(model, SudokuModel)
    kept: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def watch(_: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kept.extend((weakref.ref(inputs[0]), weakref.ref(output)))
        alive.append(sum(reference() is not None for reference in kept))

    model.blocks[0].layer.coupling.register_forward_hook(watch)
    model.evolve(puzzles(), 40)
    assert len(alive) == 40
    assert max(alive) <= 4


def test_the_papers_model_has_its_size() -> None:
    model = SudokuModel()
    assert model.blocks[0].layer.gamma.item() == 1.0
    assert model.blocks[0].layer.omega.rate.tolist() == [0.5]
    assert sum(p.numel() for p in model.parameters()) * 2 < 8e6  # in 16 bits, for the weights that ship


@torch.no_grad()
def test_the_readout_follows_n_unless_a_folder_is_older() -> None:
    for name, n in (("paper", 4), ("n = 2", 2), ("n = 16", 16)):
        settings = as_json(CONFIGS[name])
        assert tiny(CONFIGS[name]).blocks[0].readout.n_out == n
        settings.pop("n_out")
        older = config_of("sudoku", settings)  # of a folder from before N′ followed N
        assert tiny(older).blocks[0].readout.n_out == 4


@torch.no_grad()
def test_a_damped_model_adds_its_state_in_place_of_the_rotation() -> None:
    """Π[x + γ(x + Proj(c + Jx))], as the published models without Ω, on all ways of running it."""
    model = tiny(CONFIGS["damped"])
    layer = model.blocks[0].layer
    assert layer.omega is None
    assert layer.gamma.item() == 1.0
    assert layer.gamma.requires_grad
    layer.gamma.fill_(0.7)
    x0 = torch.randn(2, 81, 32)
    x, c, _ = model.begin(puzzles(), x0=x0)
    x, c = (osc.group(a, 4) for a in (x, c + layer.bias))
    for _ in range(3):
        force = c + osc.group(layer.coupling(osc.ungroup(x)), 4)
        x = osc.normalize(x + 0.7 * (x + osc.project(force, x)))
    wanted = model.answer(model.blocks[0].readout(osc.ungroup(x)))
    torch.testing.assert_close(model(puzzles(), 3, x0=x0), wanted)  # a CPU's long passes
    with torch.enable_grad():
        torch.testing.assert_close(model(puzzles(), 3, x0=x0), wanted)
    undamped = tiny(CONFIGS["no omega"])
    undamped.load_state_dict(model.state_dict())
    assert not torch.allclose(undamped(puzzles(), 3, x0=x0), wanted, atol=1e-3)


def test_configs_survive_json_and_bad_ones_are_named() -> None:
    for config in CONFIGS.values():
        assert config_of("sudoku", json.loads(json.dumps(as_json(config)))) == config
    good = as_json(TINY)
    for change, words in (
        ({"architecture": "cnn"}, "architecture is 'cnn'"),
        ({"depth": 3}, "unknown setting 'depth'"),
        ({"steps": 0}, "steps is 0"),
        ({"omega": 1}, "omega is 1"),
        ({"position": "polar"}, "position is 'polar'"),
        ({"heads": 5}, "32 channels cannot be split into 5 heads"),
        ({"heads": 16}, "channels / heads is 2, but positions on the board need a multiple of 4"),
        ({"n": 5}, "n=5"),
        ({"n_out": 0}, "n_out is 0"),
        ({"step": "damped"}, "step is damped, expected gamma in a model with natural frequencies"),
        ({"step": "damped", "omega": False, "rule": "residual"}, "with the residual rule"),
    ):
        with pytest.raises(AkornError, match=words):
            config_of("sudoku", {**good, **change})


def test_bad_puzzles_are_refused() -> None:
    model = tiny()
    for puzzle, words in (
        (torch.zeros(2, 80, dtype=torch.long), r"\[2, 80\]"),
        (torch.zeros(2, 81), "float32"),
        (torch.full((1, 81), 10), "from 10 to 10"),
    ):
        with pytest.raises(ValueError, match=words):
            model(puzzle)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        model(puzzles(), 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_folder_gives_the_model_back(tmp_path: Path, dtype: str) -> None:
    model = tiny()
    model.save_pretrained(tmp_path / "m", dtype=dtype, card="# A card\n")  # type: ignore[arg-type]
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (tmp_path / "m" / "README.md").read_text() == "# A card\n"
    loaded = SudokuModel.from_pretrained(tmp_path / "m")
    assert loaded.config == TINY
    assert not loaded.training
    tolerance = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 0.0}[dtype]
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=tolerance, atol=tolerance)


def test_a_card_stays_with_its_model(tmp_path: Path) -> None:
    card, config = tmp_path / "README.md", tmp_path / "config.json"
    card.write_text("# Mine\n")  # before there is a model
    model = tiny()
    model.save_pretrained(tmp_path)
    old = json.loads(config.read_text())
    del old["n_out"]  # a folder from before there was this setting
    config.write_text(json.dumps(old))
    SudokuNet.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert card.read_text() == "# Mine\n"
    for other in (tiny(replace(TINY, heads=1)), tiny(CONFIGS["itrsa"])):
        other.save_pretrained(tmp_path)
        assert card.read_text() == default_card(other)
        card.write_text("# Mine\n")
    config.write_text('{"model_type": "bert"}')
    model.save_pretrained(tmp_path)
    assert card.read_text() == default_card(model)


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    tiny().save_pretrained(folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    content, text = weights.read_bytes(), config.read_text()

    flipped = bytearray(content)
    flipped[-7] ^= 1
    for damaged in (bytes(flipped), content[:-100], b""):
        weights.write_bytes(damaged)
        with pytest.raises(AkornError, match="damaged"):
            SudokuNet.from_pretrained(folder)
    weights.write_bytes(content)
    for damaged, words in (
        (text[:40], "not readable as JSON"),
        ('{"model_type": "bert"}', "not a model of akorn"),
        (text.replace('"version": 1', '"version": 99'), "version 99"),
        (text.replace('"channels": 32', '"channels": 64'), "tensor"),
        (text.replace('"heads"', '"hats"'), "unknown setting 'hats'"),
        (text.replace('"task": "sudoku"', '"task": "chess"'), "chess"),
    ):
        config.write_text(damaged)
        with pytest.raises(AkornError, match=words):
            SudokuNet.from_pretrained(folder)
    config.unlink()
    with pytest.raises(AkornError, match=r"config\.json"):
        SudokuNet.from_pretrained(folder)
    with pytest.raises(AkornError, match="neither a model's folder"):
        SudokuNet.from_pretrained(tmp_path / "absent")


def test_a_folder_of_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    tiny(CONFIGS["itrsa"]).save_pretrained(tmp_path)
    assert isinstance(SudokuNet.from_pretrained(tmp_path), ItrSASudoku)
    settings = as_json(CONFIGS["itrsa"])
    assert settings.pop("final_norm") is True
    assert config_of("sudoku", settings).final_norm is False  # a folder from before there was a last norm
    with pytest.raises(AkornError, match="contains a ItrSASudoku, expected a SudokuModel"):
        SudokuModel.from_pretrained(tmp_path)


def test_values_that_do_not_fit_are_not_written(tmp_path: Path) -> None:
    model = tiny()
    with torch.no_grad():
        model.head.bias[0] = 1e6
    with pytest.raises(AkornError, match=r"head\.bias"):
        model.save_pretrained(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_models_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "WEIGHTS", tmp_path)
    assert {"sudoku", "sudoku-paper", "sudoku-itrsa"} <= set(akorn.list_models())
    assert models.list_models(pretrained=True) == []
    with pytest.raises(AkornError, match="no pretrained model 'sudoku'"):
        akorn.create_model("sudoku", pretrained=True)
    with pytest.raises(AkornError, match="unknown model 'chess'"):
        akorn.create_model("chess")
    with pytest.raises(AkornError, match="no setting 'depth'"):
        akorn.create_model("sudoku", depth=3)
    fresh = akorn.create_model("sudoku_itrsa", channels=16, heads=2)
    assert isinstance(fresh, ItrSASudoku)
    assert fresh.config.channels == 16

    model = tiny()
    model.save_pretrained(tmp_path / "sudoku", dtype="float32")
    assert models.list_models(pretrained=True) == ["sudoku"]
    loaded = akorn.create_model("sudoku", pretrained=True)
    torch.testing.assert_close(loaded.state_dict(), model.state_dict())
    assert isinstance(akorn.create_model("sudoku", pretrained=True, steps=9), SudokuModel)
    with pytest.raises(AkornError, match="tensor"):
        akorn.create_model("sudoku", pretrained=True, channels=64)


def test_push_to_hub_uploads_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    class Api:
        def __init__(self, token: object = None) -> None:
            pass

        def create_repo(self, repo_id: str, **_: object) -> Api:
            self.repo_id = repo_id
            return self

        def upload_folder(self, repo_id: str, folder_path: Path, **_: object) -> str:
            seen["files"] = sorted(p.name for p in Path(folder_path).iterdir())
            seen["model"] = SudokuModel.from_pretrained(folder_path)
            return f"https://example.invalid/{repo_id}"

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    model = tiny()
    assert model.push_to_hub("someone/solver").endswith("someone/solver")
    assert seen["files"] == ["README.md", "config.json", "model.safetensors"]
    assert isinstance(seen["model"], SudokuModel)
    assert seen["model"].config == TINY
