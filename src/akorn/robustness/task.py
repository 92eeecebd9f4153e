"""CIFAR-10 as a task of the training engine: cross-entropy, or SimCLR's loss for pre-training on Tiny-ImageNet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.augment import augment, gaussian_noise, two_views
from akorn.augment.config import check as check_augment
from akorn.engine.contrastive import nt_xent
from akorn.engine.task import Batch, Task
from akorn.errors import AkornError
from akorn.hub import CONFIG, read_folder
from akorn.models import training_of
from akorn.robustness.augmix import augmix
from akorn.robustness.config import SIDE, check, check_cifar
from akorn.robustness.data import Pictures, load_split, load_tiny_imagenet
from akorn.robustness.evaluate import EvalSettings, score
from akorn.robustness.model import CifarNet, build
from akorn.robustness.recipes import CONTINUES, Change, CifarRecipe, DataConfig, trained_on
from akorn.rooms import config_of
from akorn.runtime.json_files import read_object
from akorn.settings import as_json

_SIZE = (SIDE, SIDE)  # what the models see, also of Tiny-ImageNet's 64×64


class TrainingPictures:
    """The training set: bytes on the device, augmented anew each time they are used."""

    def __init__(self, pictures: Pictures, options: DataConfig, *, views: bool = False) -> None:
        self.pictures, self.options, self.views = pictures, options, views

    def __len__(self) -> int:
        return len(self.pictures)

    def batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """Pictures, float32 [B, 3, 32, 32] from 0 to 1, and labels [B]; for pre-training only two views [2·B, …]."""
        pictures = self.pictures.images[indices]
        for place, change in enumerate(self.options.order):
            pictures = self._changed(pictures, change, generator, last=place == 2)
        return (pictures,) if self.views else (pictures, self.pictures.labels[indices])

    def _changed(self, pictures: Tensor, change: Change, generator: torch.Generator, *, last: bool) -> Tensor:
        """The pictures after one of the changes, if the options include it."""
        options = self.options
        if change == "augment":
            return (two_views if self.views else augment)(pictures, options.augment, generator, size=_SIZE)
        if change == "augmix":
            if not options.augmix:
                return pictures
            return augmix(pictures, generator, operations=options.augmix_operations)
        if not options.noise:
            return pictures
        # Not clipped to 0–1 at the end: the noise that a model sees is Gaussian.
        return gaussian_noise(pictures, generator, sigma=options.noise, clamp=not last)


class CifarTask(Task):
    """A recipe, for `akorn.engine.train`."""

    def __init__(self, recipe: CifarRecipe) -> None:
        _check(recipe)
        self.name = recipe.name
        self.recipe = recipe
        self.pretraining = recipe.model.head == "projection"
        self._data: Pictures | None = None
        self._valid: Pictures | None = None

    def settings(self) -> Mapping[str, Any]:
        """Model, data and what the run starts from, as JSON values."""
        # The values of older runs are left out, since their checkpoints and records do not have them.
        data = {key: value for key, value in asdict(self.recipe.data).items() if DataConfig.absent.get(key) != value}
        path = self.recipe.data.path
        data["path"] = path.name if path is not None else None  # the fingerprint says more than the place
        return {
            "model": as_json(self.recipe.model),
            "data": data,
            "init": self._init_digest(),
            "channels_last": self.recipe.channels_last,
        }

    def fingerprint(self) -> str:
        """SHA-256 of the pictures and labels."""
        return self._training().fingerprint()

    def build_model(self) -> nn.Module:
        """The recipe's model, with the weights of `init` where it names a folder."""
        model = build(self.recipe.model)
        if self.recipe.init is not None:
            load_body(model, self.recipe)
        if self.recipe.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        return model

    def build_data(self, device: torch.device) -> TrainingPictures:
        """The training set on the device."""
        if self.name in CONTINUES:
            _check_continued(self.recipe, CONTINUES[self.name])  # before any work
        training = self._training()
        if self._validates:
            if self.recipe.init is not None:
                _check_unseen(self.recipe.init)
            self._validation()  # errors in it show before the training, not after
        return TrainingPictures(training.to(device), self.recipe.data, views=self.pretraining)

    def loss(
        self, model: nn.Module, batch: Batch, generator: torch.Generator, choice: Hashable
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy, with the accuracy as a curve; or SimCLR's loss."""
        images = batch[0]
        if self.recipe.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        logits: Tensor = model(images, generator)
        if self.pretraining:
            first, second = logits.chunk(2)
            return nt_xent(first, second), {}
        labels = batch[1]
        with torch.no_grad():
            accuracy = (logits.argmax(1) == labels).float().mean()
        return F.cross_entropy(logits, labels), {"accuracy": accuracy}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Accuracy and calibration error on the validation pictures, or accuracy on training pictures."""
        if self.pretraining:
            return {}
        assert isinstance(model, CifarNet)
        data = (self._validation() if self._validates else self._training()).take(slice(self.recipe.valid.count))
        found = score(model, data.images, data.labels, EvalSettings(precision="tf32"))
        if not self._validates:
            return {"train_clean": found.accuracy}
        return {"valid_clean": found.accuracy, "valid_ece": found.ece}

    @property
    def exchanges(self) -> bool:
        """The loss of pre-training compares the pictures of all processes."""
        return self.pretraining

    @property
    def compiles_on_cpu(self) -> bool:
        """Compiling pays off for Kuramoto steps."""
        return self.recipe.model.architecture.startswith("akorn")

    def compile(self, model: nn.Module) -> None:
        """Compile one Kuramoto step, not the loop; baselines as a whole."""
        assert isinstance(model, CifarNet)
        model.compile_step(dynamic=False)

    def _training(self) -> Pictures:
        if self._data is None:
            path = self.recipe.data.path
            if path is None:
                what = "Tiny-ImageNet's" if self.pretraining else "CIFAR-10's"
                raise AkornError(f"{self.name} needs {what} folder: --data DIR")
            split = self.recipe.data.split
            found = load_tiny_imagenet(path, "train", size=64) if self.pretraining else load_split(path, split)
            self._data = found.take(slice(self.recipe.data.limit))
        return self._data

    @property
    def _validates(self) -> bool:
        """Whether pictures are held out."""
        return self.recipe.data.split == "train"

    def _validation(self) -> Pictures:
        if self._valid is None:
            path = self.recipe.valid.path or self.recipe.data.path
            assert path is not None
            self._valid = load_split(path, "valid")
        return self._valid

    def _init_digest(self) -> str | None:
        """The digest of the weights that the run starts from, which says more than their path."""
        if self.recipe.init is None:
            return None
        read_folder(self.recipe.init)  # says what is wrong with the folder, if anything is
        return str(read_object(self.recipe.init / CONFIG)["sha256"])


def make_task(recipe: CifarRecipe) -> CifarTask:
    """The task of a recipe."""
    return CifarTask(recipe)


def load_body(model: CifarNet, recipe: CifarRecipe) -> None:
    """Put the weights of the folder `init` into a model of the same body; the head stays as it was initialised."""
    assert recipe.init is not None
    stored = read_folder(recipe.init)
    if stored.task != CifarNet.task:
        raise AkornError(f"{recipe.init}: a model for {stored.task!r}, expected one for {CifarNet.task!r}")
    there, here = config_of("robustness", stored.settings), recipe.model
    if type(there) is not type(here):
        raise AkornError(f"{recipe.init}: holds a model of the kind {there.architecture!r}, not {here.architecture!r}")
    for name, value in asdict(here).items():
        if name not in ("head", "classes", "recompute", "gradient_steps", "noise") and getattr(there, name) != value:
            raise AkornError(f"{recipe.init}: its model has {name} {getattr(there, name)}, the recipe's has {value}")
    body = {name: tensor for name, tensor in stored.weights.items() if not name.startswith("head.")}
    now = model.state_dict()
    if missing := [name for name in now if name not in body and not name.startswith("head.")]:
        raise AkornError(f"{recipe.init}: has no tensor {missing[0]!r}")
    model.load_state_dict({**now, **{name: tensor.to(now[name].dtype) for name, tensor in body.items()}})


def _check_continued(recipe: CifarRecipe, first: str) -> None:
    """AkornError unless `init` is a model that the recipe `first` made without pre-training."""
    wanted = f"{recipe.name} continues a model: --init FOLDER, one that {first} made without --init"
    if recipe.init is None:
        raise AkornError(wanted)
    read_folder(recipe.init)  # says what is wrong with the folder, if anything is
    origin = training_of(recipe.init)
    if origin is None:
        raise AkornError(f"{wanted}, but {recipe.init} does not say what made it")
    made_by = origin["recipe"] + (" with --init" if "init" in origin.get("overrides", {}) else "")
    if made_by != first:
        raise AkornError(f"{wanted}, but {recipe.init} was made by {made_by}")


def _check_unseen(init: Path) -> None:
    """AkornError if the model to start from was trained on the validation pictures."""
    origin = training_of(init)
    if origin is None or not origin["recipe"].startswith("cifar10"):
        return
    if trained_on(origin) == "all":
        raise AkornError(
            f"{init}: was trained on all 50,000 pictures of CIFAR-10, but data.split train would validate on 5,000 of"
            " them: train that model with --data.split train too"
        )


def _check(recipe: CifarRecipe) -> None:
    check(recipe.model)
    check_cifar(recipe.model)
    check_augment(recipe.data.augment)
    if sorted(recipe.data.order) != ["augment", "augmix", "noise"]:
        raise AkornError(f"data.order is {recipe.data.order}, expected augment, augmix and noise, each once")
    if not 0 <= recipe.data.noise < float("inf"):
        raise AkornError(f"data.noise is {recipe.data.noise}, expected 0 or more")
    if recipe.data.limit is not None and recipe.data.limit < 1:
        raise AkornError(f"data.limit is {recipe.data.limit}, expected 1 or more")
    if recipe.model.head == "projection" and recipe.data.split != "all":
        raise AkornError("data.split train is for CIFAR-10: pre-training has no validation")
    if recipe.valid.path is not None and recipe.data.split == "all":
        raise AkornError(
            "--valid: no picture is left to validate on if data.split is all; --data.split train holds out 5,000"
        )
    if recipe.valid.count < 1:
        raise AkornError(f"valid.count is {recipe.valid.count}, expected 1 or more")
