"""The models of object discovery: what they share, what is random, other sizes, precision, memory, saving."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.hub import load_weights, read_folder
from akorn.nn import GroupNorm, KuramotoBlock
from akorn.objects.config import (
    AkornConfig,
    AkornConvConfig,
    ItrConvConfig,
    ItrSAConfig,
    ModelConfig,
    ViTConfig,
    check,
)
from akorn.objects.model import ObjectsNet, build
from akorn.objects.recipes import RECIPES
from akorn.rooms import config_of
from akorn.settings import as_json

SMALL = {"image_size": 12, "patch": 4, "channels": 16}
AKORN = AkornConfig(**SMALL, steps=3, heads=2)
CONV = AkornConvConfig(**SMALL, steps=3, kernel=3)
ITRSA = ItrSAConfig(**SMALL, steps=3, heads=2)
ITRCONV = ItrConvConfig(**SMALL, steps=3, kernel=3)
VIT = ViTConfig(**SMALL, blocks=2, heads=2)
ALL = [AKORN, CONV, ITRSA, ITRCONV, VIT]


def each(*configs: ModelConfig) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("config", configs, ids=[config.architecture for config in configs])


def made(config: ModelConfig, seed: int = 0) -> ObjectsNet:
    torch.manual_seed(seed)
    return build(config).eval()


def pictures(count: int = 2, size: tuple[int, int] = (12, 12)) -> Tensor:
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(5))


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@each(*ALL)
def test_features_embedding_and_trajectory_belong_together(config: ModelConfig) -> None:
    model, images = made(replace(config, blocks=2)), pictures()
    features = model.features(images, generator=draw())
    assert features.shape == (2, 16, 3, 3)
    embedding = model(images, generator=draw())
    assert embedding.shape == (2, 16)
    torch.testing.assert_close(embedding, model.head(features.flatten(2).amax(2)))
    states = model.trajectory(images, generator=draw())
    assert [tuple(block.shape) for block in states] == [(config.steps + 1, 2, 16, 3, 3)] * 2
    last = states[-1][-1]
    if isinstance(config, AkornConfig | AkornConvConfig):
        lengths = states[0].unflatten(2, (-1, config.n)).norm(dim=3)
        torch.testing.assert_close(lengths, torch.ones_like(lengths))
        torch.testing.assert_close(states[1][0], states[0][-1])  # the next block goes on from the last state
        torch.testing.assert_close(model.blocks[-1].readout(last), features)  # g is the identity
    else:
        assert not torch.equal(states[0][0], states[0][1])


@each(*ALL)
def test_bytes_and_floats_are_the_same_pictures_and_other_channels_are_taken(config: ModelConfig) -> None:
    model = made(config)
    images = torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)
    found = model.features(images, generator=draw())
    torch.testing.assert_close(found, model.features(images.float() / 255, generator=draw()))
    grey = torch.rand(2, 1, 12, 12)
    torch.testing.assert_close(
        model.features(grey, generator=draw()), model.features(grey.expand(-1, 3, -1, -1), generator=draw())
    )
    eye = made(replace(config, image_channels=1))
    colours = pictures()
    luma = (0.299 * colours[:, :1] + 0.587 * colours[:, 1:2] + 0.114 * colours[:, 2:]).clamp(0, 1)
    torch.testing.assert_close(
        eye.features(colours, generator=draw()), eye.features(luma, generator=draw()), atol=1e-5, rtol=1e-5
    )


def test_pictures_enter_as_twice_a_pixel_minus_one() -> None:
    model = made(ITRCONV)
    seen: list[Tensor] = []
    model.patches.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    images = pictures()
    model(images)
    torch.testing.assert_close(seen[0], 2 * images - 1)


def test_only_akorn_is_random_and_the_generator_decides() -> None:
    images = pictures()
    for config in ALL:
        model = made(config)
        first, again, other = (model.features(images, generator=draw(seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert torch.equal(first, other) != model.random_start
    start = made(AKORN).trajectory(torch.zeros(400, 3, 12, 12), 1, draw())[0][0]
    assert start.mean((0, 2, 3)).abs().max() < 0.05  # every component: all directions are alike


def test_steps_can_be_chosen() -> None:
    model, images = made(AKORN), pictures()
    assert model.trajectory(images, 5)[0].shape[0] == 6
    torch.testing.assert_close(
        model.features(images, 5, draw()), made(replace(AKORN, steps=5)).features(images, generator=draw())
    )
    with pytest.raises(ValueError, match="steps"):
        model.features(images, 0)


def test_gamma_rule_and_norm_of_c_are_the_configs() -> None:
    def layers(config: ModelConfig) -> list[nn.Module]:
        return [block.layer for block in made(config).blocks if isinstance(block, KuramotoBlock)]

    for norm_c in (False, True):
        deep = layers(replace(AKORN, blocks=3, gamma=0.25, norm_c=norm_c))
        assert [float(layer.gamma) for layer in deep] == [0.25] * 3
        assert not any(isinstance(layer.gamma, nn.Parameter) for layer in deep)
        assert all(layer.omega is None for layer in deep)
        assert [layer.stimulus is not None for layer in deep] == [norm_c, True, True]
    norm = layers(replace(AKORN, norm_c=True))[0].stimulus
    assert isinstance(norm, GroupNorm)
    assert norm.num_groups == 4  # one an oscillator: 16 channels of N = 4
    images = pictures()
    rules = {rule: made(replace(AKORN, rule=rule)).features(images, generator=draw())
             for rule in ("kuramoto", "without-projection", "residual")}  # fmt: skip
    assert len({value.sum().item() for value in rules.values()}) == 3


@each(AKORN, replace(AKORN, position="absolute"), replace(AKORN, position="rotary"), CONV, ITRSA, ITRCONV, VIT)
def test_pictures_of_another_size_are_looked_at_with_resized_positions(config: ModelConfig) -> None:
    model = made(config)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert model.features(pictures(size=(20, 8))).shape == (2, 16, 5, 2)
    same = model.resized(12, 12)
    torch.testing.assert_close(
        same.features(pictures(), generator=draw()), model.features(pictures(), generator=draw())
    )
    shared = dict(same.named_parameters())
    assert all(shared[n] is p for n, p in model.named_parameters() if "position" not in n and "place" not in n)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(ValueError, match="patches of 4"):
        model.features(pictures(size=(10, 12)))


def test_resized_positions_interpolate_the_learned_ones() -> None:
    model = made(ITRSA)
    with torch.no_grad():
        model.body.place.embedding.copy_(torch.arange(9.0)[:, None].expand(9, 16))  # rises by 3 a row, 1 a column
    embedding = model.resized(24, 24).body.place.embedding.unflatten(0, (6, 6))
    torch.testing.assert_close(embedding[1:5, 1:5].diff(dim=0), torch.full((3, 4, 16), 1.5))
    torch.testing.assert_close(embedding[1:5, 1:5].diff(dim=1), torch.full((4, 3, 16), 0.5))
    model.train()
    with pytest.raises(ValueError, match="not for training"):
        model(pictures(size=(8, 8)))


@each(*ALL)
def test_recomputing_changes_memory_and_nothing_else(config: ModelConfig) -> None:
    if isinstance(config, ViTConfig):
        config = replace(config, blocks=1)
    gradients = []
    for recompute in (False, True):
        model = made(replace(config, recompute=recompute)).train()
        model(pictures(), generator=draw()).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(again, plain, rtol=1e-4, atol=1e-6)


@each(*ALL)
def test_autocast_keeps_states_in_float32(config: ModelConfig) -> None:
    model, images = made(config), pictures()
    exact = model.features(images, generator=draw())
    with torch.autocast("cpu", torch.bfloat16):
        rough = model.features(images, generator=draw())
        embedding = model(images, generator=draw())
    assert (rough.dtype, embedding.dtype) == (torch.float32, torch.float32)
    assert not torch.equal(rough, exact)
    assert (rough - exact).norm() < 0.05 * exact.norm()
    states: list[Tensor] = []
    part = model.blocks[0].layer.coupling if model.random_start else model.body.blocks[0].mlp_norm
    part.register_forward_pre_hook(lambda module, inputs: states.append(inputs[0]))
    with torch.autocast("cpu", torch.bfloat16):
        model(images)
    assert {state.dtype for state in states} == {torch.float32}


@each(AKORN, CONV, ITRSA, ITRCONV)
def test_compiling_one_step_changes_nothing(config: ModelConfig) -> None:
    model, images = made(config), pictures()
    expected = model.features(images, generator=draw())
    model.compile_step(backend="eager")
    assert model.compiled
    torch.testing.assert_close(model.features(images, generator=draw()), expected)
    # A compiled step belongs to one grid: another size falls back to the plain one.
    assert model.features(pictures(size=(8, 8))).shape == (2, 16, 2, 2)


@each(*ALL)
def test_settings_go_round(config: ModelConfig) -> None:
    settings = as_json(config)
    assert settings["architecture"] == config.architecture
    assert config_of("objects", settings) == config
    with pytest.raises(AkornError, match="unknown setting 'colour'"):
        config_of("objects", {**settings, "colour": 1})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(AKORN, patch=5), "patches of 5"),
        (replace(AKORN, image_channels=2), "image_channels is 2"),
        (replace(AKORN, heads=3), "3 heads"),
        (replace(AKORN, heads=8), "cannot have gta positions"),
        (replace(AKORN, n=3), "n=3"),
        (replace(AKORN, gamma=0.0), "gamma is 0.0"),
        (replace(AKORN, rule="none"), "rule is 'none'"),  # type: ignore[arg-type]
        (replace(CONV, kernel=4), "odd size"),
        (replace(ITRSA, steps=True), "steps is True"),
    ],
)
def test_impossible_configs_are_refused(config: ModelConfig, message: str) -> None:
    with pytest.raises(AkornError, match=message):
        check(config)


@each(*ALL)
def test_a_saved_model_is_the_model(config: ModelConfig, tmp_path: Path) -> None:
    model = made(config)
    model.save_pretrained(tmp_path, dtype="float32")
    stored = read_folder(tmp_path)
    assert stored.task == "objects"
    again = made(config_of("objects", stored.settings), seed=1)
    load_weights(again, stored.weights, tmp_path)
    torch.testing.assert_close(again(pictures(), generator=draw()), model(pictures(), generator=draw()))


def count(config: ModelConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())


PAIRS = [
    *((f"{data}_akorn{kind}", f"{data}_{other}", 0.01) for data in ("tetrominoes", "dsprites", "clevr")
      for kind, other in (("", "itrsa"), ("_conv", "itrconv"))),
    ("shapes_akorn_conv", "shapes_itrconv", 0.01),
    ("shapes_akorn_l1", "shapes_itrsa_l1", 0.01),
    ("shapes_akorn_l3", "shapes_itrsa_l3", 0.09),  # GTA has matrices in every block, ItrSA one embedding in all
    ("clevrtex_akorn_l2", "clevrtex_itrsa_l2", 0.04),
    ("clevrtex_akorn_l2", "clevrtex_vit", 0.01),
]  # fmt: skip


@pytest.mark.parametrize(("akorn", "baseline", "apart"), PAIRS)
def test_baselines_have_as_many_parameters(akorn: str, baseline: str, apart: float) -> None:
    ours, theirs = count(RECIPES[akorn]().model), count(RECIPES[baseline]().model)
    print(f"{akorn} {ours:,}, {baseline} {theirs:,}")
    assert theirs == pytest.approx(ours, rel=apart)
