"""Recipes and the training task: the paper's settings, and that a run learns."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from robustness_toy import TINY, write_cifar
from torch import Tensor, nn

from akorn.augment import augment, gaussian_noise
from akorn.augment.config import AugmentConfig
from akorn.engine import train
from akorn.engine.config import ScheduleConfig
from akorn.engine.config import check as check_train
from akorn.engine.curves import read_curve
from akorn.errors import AkornError
from akorn.robustness.augmix import augmix
from akorn.robustness.config import AkornConfig, ModelConfig, ResNetConfig
from akorn.robustness.config import check as check_model
from akorn.robustness.data import load_cifar10, load_split
from akorn.robustness.evaluate import score
from akorn.robustness.model import CifarNet, build
from akorn.robustness.recipes import (
    CONTINUES,
    RECIPES,
    Change,
    CifarRecipe,
    DataConfig,
    ValidConfig,
    cifar10_akorn_conv,
    cifar10_resnet18_noise02,
    tiny_imagenet_akorn_conv,
    trained_on,
)
from akorn.robustness.task import CifarTask, TrainingPictures, make_task

STILL = AugmentConfig(scale=(1.0, 1.0), ratio=(1.0, 1.0), jitter=0.0, grey=0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cifar(tmp_path)


def small(recipe: CifarRecipe, folder: Path | None, model: ModelConfig = TINY, **options: object) -> CifarRecipe:
    """A recipe that a test can run."""
    options = {"device": "cpu", "precision": "float32", "tensorboard": False, "batch_size": 10, "steps": 2, **options}
    return replace(
        recipe,
        model=model,
        train=replace(recipe.train, **options),  # type: ignore[arg-type]
        data=replace(recipe.data, path=folder),
        valid=ValidConfig(count=8),
    )


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_sound_and_named_after_itself(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe.name == name
    assert name not in CONTINUES or RECIPES[CONTINUES[name]]().model == recipe.model
    check_train(recipe.train)
    check_model(recipe.model)
    assert make_task(recipe).settings()["model"]["architecture"] == recipe.model.architecture
    with pytest.raises(AkornError, match="--data DIR"):
        make_task(recipe).fingerprint()


def made(folder: Path, recipe: str, **overrides: str) -> Path:
    """A model's folder that says which recipe made it."""
    build(TINY).save_pretrained(folder)
    origin = {"recipe": recipe, "seed": 0, "overrides": overrides}
    (folder / "training.json").write_text(json.dumps(origin), encoding="utf-8")
    return folder


def test_only_the_model_that_is_meant_is_continued(folder: Path, tmp_path: Path) -> None:
    recipe = small(RECIPES["cifar10_akorn_conv_falling_rate"](), folder)
    cpu = torch.device("cpu")
    wanted = "continues a model: --init FOLDER, one that cifar10_akorn_conv made without --init"
    with pytest.raises(AkornError, match=f"{wanted}$"):
        make_task(recipe).build_data(cpu)
    foreign = made(tmp_path / "foreign", "tiny_imagenet_akorn_conv")
    with pytest.raises(AkornError, match=f"{wanted}, but .* was made by tiny_imagenet_akorn_conv$"):
        make_task(replace(recipe, init=foreign)).build_data(cpu)
    later = made(tmp_path / "later", "cifar10_akorn_conv", init="before")
    with pytest.raises(AkornError, match=f"{wanted}, but .* was made by cifar10_akorn_conv with --init$"):
        make_task(replace(recipe, init=later)).build_data(cpu)
    with pytest.raises(AkornError, match="does not exist"):
        make_task(replace(recipe, init=tmp_path / "nothing")).build_data(cpu)
    build(TINY).save_pretrained(tmp_path / "unknown")
    with pytest.raises(AkornError, match="does not say what made it"):
        make_task(replace(recipe, init=tmp_path / "unknown")).build_data(cpu)
    assert len(make_task(replace(recipe, init=made(tmp_path / "right", "cifar10_akorn_conv"))).build_data(cpu))


def test_the_papers_protocol() -> None:
    paper = cifar10_akorn_conv()
    assert paper.model == AkornConfig()
    t = paper.train
    assert (t.optimiser.name, t.optimiser.learning_rate, t.optimiser.weight_decay) == ("adam", 1e-4, 0)
    assert (t.batch_size, t.epochs) == (128, 400)
    assert (t.ema.decay, t.ema.every, t.ema.after) == (0.99, 10, 200)
    a = paper.data.augment
    assert (a.scale, a.flip, a.brightness, a.contrast, a.saturation, a.hue) == ((0.2, 1.0), 0.5, 0.4, 0.4, 0.4, 0.1)
    assert (a.jitter, a.grey, a.noise) == (1.0, 0.0, 0.0)
    assert paper.data.augmix
    assert paper.data.augmix_operations == "thirteen"
    models = {name: RECIPES[name]().model for name in RECIPES if name.startswith("cifar10_akorn")}
    assert len(set(models.values())) == 9  # every ablation is another model
    mix = models["cifar10_akorn_mix_n4"]
    assert isinstance(mix, AkornConfig)
    assert (mix.attention, mix.steps, mix.n) == (True, (6, 4, 2), 4)
    assert RECIPES["cifar10_resnet18_noise0225"]().data.noise == 0.225
    ours = RECIPES["cifar10_akorn_conv_falling_rate"]()
    assert (ours.model, ours.data) == (AkornConfig(), paper.data)
    assert ours.train == replace(t, schedule=ScheduleConfig(name="linear"), epochs=80)
    assert all(recipe in RECIPES for recipe in RECIPES.shipped.values())


def test_training_pictures_are_changed_anew(folder: Path) -> None:
    pictures = load_cifar10(folder, "train")
    data = TrainingPictures(pictures, cifar10_akorn_conv().data)
    first, labels = data.batch(torch.arange(6), torch.Generator().manual_seed(0))
    again, _ = data.batch(torch.arange(6), torch.Generator().manual_seed(0))
    other, _ = data.batch(torch.arange(6), torch.Generator().manual_seed(1))
    assert first.shape == (6, 3, 32, 32)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.allclose(first, other)
    torch.testing.assert_close(labels, pictures.labels[:6])


def test_augmix_follows_where_it_is_asked_for(folder: Path) -> None:
    pictures = load_cifar10(folder, "train")
    plain = replace(cifar10_akorn_conv().data, augment=STILL, augmix=False)
    for options, same in ((plain, True), (replace(plain, augmix=True), False)):
        found, _ = TrainingPictures(pictures, options).batch(torch.arange(6), torch.Generator().manual_seed(0))
        assert torch.allclose(found, pictures.images[:6] / 255, atol=1e-6) == same


def test_nine_operations_are_a_choice_and_what_older_runs_had(folder: Path) -> None:
    pictures = load_cifar10(folder, "train")
    nine = replace(cifar10_akorn_conv().data, augment=STILL, augmix_operations="nine")
    found, _ = TrainingPictures(pictures, nine).batch(torch.arange(6), torch.Generator().manual_seed(0))
    expected = augmix(pictures.images[:6], torch.Generator().manual_seed(0), operations="nine")
    torch.testing.assert_close(found, expected)
    recipe = cifar10_akorn_conv()
    assert make_task(recipe).settings()["data"]["augmix_operations"] == "thirteen"
    older = make_task(replace(recipe, data=replace(recipe.data, augmix_operations="nine"))).settings()["data"]
    assert "augmix_operations" not in older  # so that a checkpoint of theirs goes on
    assert DataConfig.absent["augmix_operations"] == "nine"


@pytest.mark.parametrize("order", tuple(permutations(("augment", "augmix", "noise"))))
def test_changes_come_in_the_order_asked_for(folder: Path, order: tuple[Change, Change, Change]) -> None:
    pictures = load_cifar10(folder, "train")
    middle = AugmentConfig(scale=(0.25, 0.25), ratio=(1.0, 1.0), jitter=0.0, grey=0.0)
    data = TrainingPictures(pictures, DataConfig(augment=middle, noise=0.2, order=order))
    found, _ = data.batch(torch.arange(6), torch.Generator().manual_seed(0))
    expected, draw = pictures.images[:6], torch.Generator().manual_seed(0)
    for change in order:
        if change == "augment":
            expected = augment(expected, middle, draw)
        elif change == "augmix":
            expected = augmix(expected, draw)
        else:  # cut to 0–1, as what is cropped and mixed must be, unless it is the last
            expected = gaussian_noise(expected, draw, sigma=0.2, clamp=order[2] != "noise")
    torch.testing.assert_close(found, expected)


def test_noise_is_gaussian_and_comes_last(folder: Path) -> None:
    pictures = load_cifar10(folder, "train")
    options = replace(cifar10_resnet18_noise02().data, augment=STILL, augmix=False)
    noisy, _ = TrainingPictures(pictures, options).batch(torch.arange(20), torch.Generator().manual_seed(0))
    left = noisy - pictures.images[:20] / 255
    assert float(left.std()) == pytest.approx(0.2, rel=0.02)
    assert float(noisy.min()) < 0  # not cut


def test_the_loss_is_cross_entropy(folder: Path) -> None:
    task = make_task(small(cifar10_akorn_conv(), folder))
    torch.manual_seed(0)
    model = task.build_model().eval()
    batch = task.build_data(torch.device("cpu")).batch(torch.arange(6), torch.Generator().manual_seed(0))
    loss, extra = task.loss(model, batch, torch.Generator().manual_seed(1), task.choose())
    with torch.no_grad():
        logits = model(batch[0], torch.Generator().manual_seed(1))
    chosen = logits.log_softmax(1).gather(1, batch[1][:, None])
    assert float(loss.detach()) == pytest.approx(-float(chosen.mean()), rel=1e-5)
    assert float(extra["accuracy"]) == float((logits.argmax(1) == batch[1]).float().mean())


def test_two_steps_by_the_engine_with_averaged_statistics(folder: Path, tmp_path: Path) -> None:
    recipe = small(cifar10_akorn_conv(), folder)
    recipe = replace(recipe, train=replace(recipe.train, ema=replace(recipe.train.ema, after=1, every=1)))
    task = make_task(recipe)
    result = train(task, recipe.train, tmp_path / "run")
    assert set(result.metrics) == {"train_clean"}
    model = result.model
    assert isinstance(model, CifarNet)
    statistics = [b for name, b in model.named_buffers() if name.endswith("running_mean")]
    assert len(statistics) == 9
    assert all(bool(b.abs().sum() > 0) for b in statistics)  # the average has followed BatchNorm's too
    model.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()
    assert str(tmp_path) not in str(task.settings())  # a record names the folder, not where it lay


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_gradients_of_the_last_step_in_a_graph(folder: Path, tmp_path: Path, precision: str) -> None:
    """Recorded or not, the same losses: the first steps without gradients belong to the graph."""
    losses = []
    for graph in (False, True):
        recipe = small(cifar10_akorn_conv(), folder, replace(TINY, gradient_steps=1), device="cuda",
                       precision=precision, graph=graph, steps=6, log_every=1)  # fmt: skip
        train(make_task(recipe), recipe.train, tmp_path / f"run{graph}")
        losses.append(read_curve(tmp_path / f"run{graph}")[1])
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=0.02, atol=0.02)


def test_a_small_resnet_learns_the_colours(folder: Path, tmp_path: Path) -> None:
    recipe = small(cifar10_akorn_conv(), folder, ResNetConfig(width=8, blocks=(1, 1)), steps=30)
    recipe = replace(recipe, data=replace(recipe.data, augment=STILL, augmix=False, split="train"))
    faster = replace(recipe.train, optimiser=replace(recipe.train.optimiser, learning_rate=1e-2))
    result = train(make_task(recipe), replace(faster, ema=replace(faster.ema, decay=0.0)), tmp_path / "run")
    assert result.metrics["valid_clean"] > 50  # of ten classes
    origin = json.loads((result.folder / "training.json").read_text())
    assert (origin["data"]["split"], origin["data"]["augmix"]) == ("train", False)
    assert trained_on(origin) == "train"


def test_what_cannot_be_scored_shows_before_training(folder: Path, tmp_path: Path) -> None:
    recipe = replace(small(cifar10_akorn_conv(), folder), valid=ValidConfig(path=tmp_path / "nowhere"))
    recipe = replace(recipe, data=replace(recipe.data, split="train"))
    with pytest.raises(AkornError, match="nowhere does not exist"):
        make_task(recipe).build_data(torch.device("cpu"))


def test_the_test_pictures_are_never_scored_while_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "test_batch").unlink()
    seen: list[Tensor] = []

    def spy(model: nn.Module, images: Tensor, *rest: object) -> object:
        seen.append(images)
        return score(model, images, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("akorn.robustness.task.score", spy)
    recipe = small(cifar10_akorn_conv(), folder)
    task = make_task(recipe)
    assert set(task.evaluate(task.build_model())) == {"train_clean"}  # what it is, the name says
    task = make_task(replace(recipe, data=replace(recipe.data, split="train"), valid=ValidConfig()))
    assert set(task.evaluate(task.build_model())) == {"valid_clean", "valid_ece"}
    assert len(seen[0]) == 8
    valid = load_split(folder, "valid")
    assert torch.equal(seen[1], valid.images)
    held = task.build_data(torch.device("cpu")).pictures.images
    assert not (held[:, None] == valid.images[None]).all((2, 3, 4)).any()


def test_a_model_that_has_seen_the_validation_pictures_is_not_validated_on_them(folder: Path, tmp_path: Path) -> None:
    recipe = small(cifar10_akorn_conv(), folder)
    build(TINY).save_pretrained(tmp_path / "before")
    after = replace(recipe, init=tmp_path / "before", data=replace(recipe.data, split="train"))
    told = tmp_path / "before" / "training.json"
    for data, words in (({}, "was trained on all 50,000"), ({"split": "train"}, None)):
        told.write_text(json.dumps({"recipe": "cifar10_akorn_conv", "seed": 0, "overrides": {}, "data": data}))
        if words is None:
            make_task(after).build_data(torch.device("cpu"))
            continue
        with pytest.raises(AkornError, match=words):
            make_task(after).build_data(torch.device("cpu"))
        make_task(replace(after, data=recipe.data)).build_data(torch.device("cpu"))  # nothing is validated


def test_pretraining_and_starting_from_it(folder: Path, tmp_path: Path) -> None:
    before = replace(tiny_imagenet_akorn_conv(), model=replace(TINY, head="projection"))
    task = CifarTask(before)
    data = TrainingPictures(load_cifar10(folder, "train"), before.data, views=True)
    (views,) = data.batch(torch.arange(4), torch.Generator().manual_seed(0))
    assert views.shape == (8, 3, 32, 32)
    torch.manual_seed(1)
    model = task.build_model()
    loss, _ = task.loss(model, (views,), torch.Generator().manual_seed(0), None)
    assert float(loss.detach()) > 0
    assert isinstance(model, CifarNet)
    model.save_pretrained(tmp_path / "before", dtype="float32")
    after = replace(small(cifar10_akorn_conv(), folder), init=tmp_path / "before")
    torch.manual_seed(2)
    started = make_task(after).build_model()
    assert isinstance(started, CifarNet)
    for name, tensor in model.state_dict().items():
        if not name.startswith("head."):
            torch.testing.assert_close(started.state_dict()[name], tensor)
    assert started(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert make_task(after).settings()["init"] != make_task(replace(after, init=None)).settings()["init"]
    with pytest.raises(AkornError, match="its model has n 2, the recipe's has 4"):
        make_task(replace(after, model=replace(TINY, n=4))).build_model()
    build(ResNetConfig(width=4, blocks=(1,))).save_pretrained(tmp_path / "resnet")
    noisy = replace(after, model=ResNetConfig(width=4, blocks=(1,), noise=0.2), init=tmp_path / "resnet")
    assert make_task(noisy).build_model().random_start  # noise is no weight: a model without it may go before
    with pytest.raises(AkornError, match="of the kind 'resnet', not 'akorn'"):
        make_task(replace(after, init=tmp_path / "resnet")).build_model()
    with pytest.raises(AkornError, match="does not exist"):
        make_task(replace(after, init=tmp_path / "nothing")).settings()


def test_impossible_recipes_are_refused() -> None:
    for changed, words in (
        (replace(cifar10_akorn_conv(), data=DataConfig(noise=-0.1)), r"data\.noise is -0\.1"),
        (replace(cifar10_akorn_conv(), data=DataConfig(limit=0)), r"data\.limit is 0"),
        (
            replace(cifar10_akorn_conv(), data=DataConfig(order=("noise", "noise", "augmix"))),
            r"data\.order is .* each once",
        ),
        (replace(cifar10_akorn_conv(), data=DataConfig(augment=AugmentConfig(scale=(0.9, 0.2)))), "scale is"),
        (replace(cifar10_akorn_conv(), valid=ValidConfig(count=0)), r"valid\.count is 0"),
        (replace(cifar10_akorn_conv(), valid=ValidConfig(path=Path("x"))), "no picture is left to validate on"),
        (replace(tiny_imagenet_akorn_conv(), data=DataConfig(split="train")), "pre-training has no validation"),
        (replace(cifar10_akorn_conv(), model=AkornConfig(n=3)), "n=3"),
        (replace(cifar10_akorn_conv(), model=AkornConfig(classes=5)), "5 classes, expected CIFAR-10's 10"),
        (replace(cifar10_akorn_conv(), model=AkornConfig(size=64)), "64 × 64, expected 32 × 32"),
    ):
        with pytest.raises(AkornError, match=words):
            make_task(changed)
