"""Object discovery as a task of the training engine: SimCLR on two views of each picture, no labels."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.augment.config import check as check_augment
from akorn.augment.views import located_views, two_views
from akorn.engine.contrastive import nt_xent
from akorn.engine.task import Batch, Data, Task
from akorn.errors import AkornError
from akorn.hub import CONFIG, load_weights, read_folder
from akorn.objects.config import LossConfig, ObjectsRecipe, check, check_loss
from akorn.objects.data import DeviceData, PictureSet, StreamedData, generate, load, to_device
from akorn.objects.data.endless import EndlessScenes, endless_fingerprint
from akorn.objects.data.fitting import fitted
from akorn.objects.data.picture_files import FileSet, looked_at
from akorn.objects.data.sets import GENERATED, SETS
from akorn.objects.evaluate import evaluate
from akorn.objects.losses import LossParts, needs_parts, terms
from akorn.objects.model import ObjectsNet, build
from akorn.objects.teacher import taught
from akorn.objects.teacher_config import TeacherConfig, check_average
from akorn.runtime.json_files import read_object
from akorn.runtime.processes import is_main
from akorn.runtime.progress import progress_bar
from akorn.scenes.render import SAMPLES
from akorn.settings import as_json

_USUAL: dict[str, Any] = {"fit": "crop", "size": None, "bad": "refuse", "endless": False, "samples": None}
"""Settings of the data that came later, and their values for older runs."""
_LATER: dict[str, Any] = {"alike": "colours", "teacher": asdict(TeacherConfig())}
"""The same of the loss."""


class TrainingPictures:
    """The training set: bytes on the device, or read ahead from files. The loss makes views of them."""

    def __init__(self, pictures: DeviceData | StreamedData) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """Pictures as bytes [B, C, H, W]."""
        return (self.pictures[indices],)


class StreamedPictures(TrainingPictures):
    """A training set that is read ahead."""

    def expect(self, indices: Tensor) -> None:
        """Start reading the pictures at `indices`."""
        assert isinstance(self.pictures, StreamedData)
        self.pictures.expect(indices)


class ObjectsTask(Task):
    """A recipe, for `akorn.engine.train`."""

    def __init__(self, recipe: ObjectsRecipe) -> None:
        _check(recipe)
        self.name = recipe.name
        self.recipe = recipe
        self._pictures: PictureSet | None = None
        self._valid: PictureSet | None = None
        self._looked = False
        self._teacher: nn.Module | None = None
        self._device = "auto"  # where scenes are rendered

    def settings(self) -> Mapping[str, Any]:
        """Model, data, loss and start as JSON values."""
        data = asdict(self.recipe.data)
        path = self.recipe.data.path
        data["path"] = path.name if path is not None else None  # the fingerprint identifies the data, wherever it lies
        for name, usual in _USUAL.items():  # older checkpoints do not have these keys
            if data[name] == usual:
                del data[name]
        model = as_json(self.recipe.model)
        said = {"model": model, "data": data, "init": self._start(), "temperature": self.recipe.temperature}
        if self.recipe.loss != LossConfig():
            loss = asdict(self.recipe.loss)
            said["loss"] = {name: value for name, value in loss.items() if _LATER.get(name, ...) != value}
        return said

    def fingerprint(self) -> str:
        """SHA-256 of the pictures, or of the files' names and sizes."""
        data = self.recipe.data
        if data.endless:
            return endless_fingerprint(data.name, data.seed, data.count, self.recipe.model.image_size, data.samples)
        return self._training().fingerprint()

    def build_model(self) -> nn.Module:
        """The recipe's model, with its initial weights."""
        model = build(self.recipe.model)
        if self.recipe.init is not None:
            start_from(model, self.recipe.init)
        if needs_parts(self.recipe.loss):
            model.extras = LossParts(self.recipe.model, self.recipe.loss)
        return model

    def build_data(self, device: torch.device) -> Data:
        """The training set, on the device if it fits; or scenes that are rendered while the model trains."""
        data, self._device = self.recipe.data, str(device)
        if data.endless:
            self._check_validation()
            samples = SAMPLES if data.samples is None else data.samples
            return EndlessScenes(data.name, data.seed, device, self.recipe.model.image_size, data.count, samples)
        training = self._training()
        self._check_validation()  # mistakes are reported before the training, not after
        pictures = to_device(training, device)
        return StreamedPictures(pictures) if isinstance(pictures, StreamedData) else TrainingPictures(pictures)

    def taught_by(self, average: nn.Module) -> None:
        """Keep the teacher, if the loss has one."""
        self._teacher = average

    def loss(
        self, model: nn.Module, batch: Batch, generator: torch.Generator, choice: Hashable
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """NT-Xent of two views of each picture, or other terms; the views' similarity is logged as a curve."""
        (images,) = batch
        side, weights = self.recipe.model.image_size, self.recipe.loss
        if needs_parts(weights):
            return self._terms(model, images, generator)
        with torch.no_grad():
            views = two_views(images, self.recipe.data.augment, generator, size=(side, side))  # [2·B, C, H, W]
        first, second = model(views, None, generator).chunk(2)
        loss = weights.simclr * nt_xent(first, second, temperature=self.recipe.temperature)
        with torch.no_grad():
            similarity = F.cosine_similarity(first, second).mean()
        return loss, {"similarity": similarity}

    def _terms(self, model: nn.Module, images: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted sum of the loss's terms; each of them is logged as a curve."""
        assert isinstance(model, ObjectsNet)
        recipe, side = self.recipe, self.recipe.model.image_size
        with torch.no_grad():
            views = located_views(images, recipe.data.augment, generator, size=(side, side))
        lessons: dict[str, Tensor] = {}
        if recipe.loss.teacher.used:
            assert isinstance(self._teacher, ObjectsNet), "the engine gives the task its teacher"
            features, lessons = taught(
                model, self._teacher, images, views, recipe.data.augment, recipe.temperature, generator
            )
        else:
            features = model.features(views.images, None, generator)  # [2·B, C, h, w]
        found = terms(model, features, images, views, recipe.loss, recipe.temperature, generator)
        curves = {name: term.detach() for name, term in found.items()}
        if recipe.loss.simclr:
            first, second = model.head(features.amax((2, 3))).float().chunk(2)
            found["simclr"] = nt_xent(first, second, temperature=recipe.temperature)
            curves["simclr"] = found["simclr"].detach()
            with torch.no_grad():
                curves["similarity"] = F.cosine_similarity(first, second).mean()
        weighted = [getattr(recipe.loss, name) * term for name, term in found.items()]
        weighted += [getattr(recipe.loss.teacher, name) * term for name, term in lessons.items()]
        curves |= {f"teacher_{name}": term.detach() for name, term in lessons.items()}
        return torch.stack(weighted).sum(), curves

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """FG-ARI and MBO on the validation pictures, if there are any with masks."""
        assert isinstance(model, ObjectsNet)
        valid, options = self._validation(), self.recipe.valid
        if valid is None:
            return {}
        seen = self.recipe.model.image_size if options.size is not None else None
        return evaluate(model, valid, options.clusters, uptile=options.uptile, input=seen).scores

    @property
    def exchanges(self) -> bool:
        """The loss compares the pictures of all processes."""
        return True

    @property
    def compiles_on_cpu(self) -> bool:
        """Compiling pays off for Kuramoto steps."""
        return self.recipe.model.architecture.startswith("akorn")

    def compile(self, model: nn.Module) -> None:
        """Compile one step of the trained model; its average, unless it teaches, is used too rarely to be compiled."""
        assert isinstance(model, ObjectsNet)
        if model.training or self.recipe.loss.teacher.used:
            model.compile_step(dynamic=False)

    def _start(self) -> str | None:
        """What the run starts from: the name of shipped weights, or a digest of the weights in a folder."""
        init = self.recipe.init
        if init is None or not Path(init).is_dir():
            return init
        read_folder(Path(init))  # reports problems with the folder
        return str(read_object(Path(init) / CONFIG)["sha256"])

    def _training(self) -> PictureSet:
        if self._pictures is None:
            data = self.recipe.data
            size = self.recipe.model.image_size if data.size is None else data.size
            if data.path is not None:
                found = load(data.path, "train", size, data.count, fit=data.fit, labels=False)
                if isinstance(found, FileSet):
                    found.bad = data.bad
                self._pictures = looked_at(found)
            else:
                with progress_bar(f"making pictures of {data.name}", wanted=is_main()) as bar:
                    made = generate(
                        data.name, "train", data.count, data.seed, labels=False, progress=bar, device=self._device,
                        samples=data.samples,
                    )  # fmt: skip
                self._pictures = fitted(made, size, data.fit)
        return self._pictures

    @property
    def _scored_size(self) -> int:
        """The side of the masks that are scored."""
        size = self.recipe.valid.size
        return self.recipe.model.image_size if size is None else size

    def _validation(self) -> PictureSet | None:
        """Pictures to score; None if the training data has none with masks."""
        if not self._looked:
            data, valid, size = self.recipe.data, self.recipe.valid, self._scored_size
            if valid.path is not None:
                self._valid = looked_at(load(valid.path, "valid", size, valid.count, fit=data.fit, device=self._device))
            elif data.path is None:
                with progress_bar(f"making pictures of {data.name} to score", wanted=is_main()) as bar:
                    made = generate(data.name, "valid", valid.count, data.seed, progress=bar, device=self._device)
                self._valid = fitted(made, size, data.fit)
            else:
                self._valid = self._beside_training()
            self._looked = True
        return self._valid

    def _check_validation(self) -> None:
        """AkornError unless the validation pictures have masks, and enough patches for their clusters."""
        valid, options, model = self._validation(), self.recipe.valid, self.recipe.model
        if valid is None:
            return
        if valid.load([0]).labels is None:
            raise AkornError(f"{options.path}: its pictures have no masks, so nothing can be scored during training")
        clusters = valid.clusters if options.clusters is None else options.clusters
        patches = (model.image_size // model.patch * options.uptile) ** 2
        if not 1 <= clusters <= patches:
            raise AkornError(
                f"valid.clusters is {clusters}, expected from 1 to {patches}, the patches of a validation picture"
            )

    def _beside_training(self) -> PictureSet | None:
        """The validation part of the training data, or the first pictures of a single file."""
        data, count, size = self.recipe.data, self.recipe.valid.count, self._scored_size
        path = data.path
        assert path is not None
        reason = f"{path}: its pictures have no masks"
        try:
            if type(self._training()) is not FileSet:  # plain pictures: no part of them has masks
                found = load(path, "valid", size, count, fit=data.fit)
                if found.load([0]).labels is not None:
                    return looked_at(found)
        except AkornError as error:
            reason = str(error)
        logging.getLogger(__name__).warning("nothing is scored during training: %s", reason)
        return None


def make_task(recipe: ObjectsRecipe) -> ObjectsTask:
    """The task of a recipe."""
    return ObjectsTask(recipe)


def start_from(model: ObjectsNet, name_or_folder: str) -> None:
    """Give a model the weights of another, trained at any picture size: positions are resized.

    γ stays the model's own, since it is a setting and not learned.
    """
    source = ObjectsNet.from_pretrained(name_or_folder)
    there, here = source.config.architecture, model.config.architecture
    if there != here:
        raise AkornError(f"{name_or_folder}: contains a model of kind {there!r}, not {here!r}")
    if source.config.patch == model.config.patch and source.grid != model.grid:
        source = source.resized(model.config.image_size, model.config.image_size)
    own = model.state_dict()
    kept = {name: own[name] for name in own if name.rpartition(".")[2] == "gamma"}
    load_weights(model, {**source.state_dict(), **kept}, name_or_folder)


_GIVEN = {"photos": "photographs", "imagenet": "ImageNet's photographs"}
"""Data sets of recipes that a user must provide → what their folders hold."""


def _check(recipe: ObjectsRecipe) -> None:
    check(recipe.model)
    check_augment(recipe.data.augment)
    check_loss(recipe.loss)
    if recipe.loss.teacher.used:
        check_average(recipe.train.ema)
    if needs_parts(recipe.loss) and recipe.data.augment.shift:
        raise AkornError("data.augment.shift moves what the loss compares: expected 0 with terms besides SimCLR's")
    if recipe.data.path is None and recipe.data.name not in GENERATED:
        wanted = _GIVEN.get(recipe.data.name)
        if wanted is not None:
            packs = "packs made by akorn data pack (docs/photos.md)"
            raise AkornError(f"{recipe.name} needs --data: a folder of {wanted}, or {packs}")
        known = f"we generate {', '.join(GENERATED)}"
        raise AkornError(
            f"{recipe.name} needs --data: {recipe.data.name!r} is not a data set that we generate ({known})"
        )
    for name, used in (("endless", recipe.data.endless), ("samples", recipe.data.samples is not None)):
        rendered = [name for name, about in SETS.items() if about.render is not None]
        if used and (recipe.data.path is not None or recipe.data.name not in rendered):
            what = f"--data {recipe.data.path}" if recipe.data.path is not None else repr(recipe.data.name)
            raise AkornError(f"data.{name} is for rendered scenes ({', '.join(rendered)}), not for {what}")
    if recipe.train.batch_size < 2:
        raise AkornError(
            f"train.batch_size is {recipe.train.batch_size}, expected 2 or more: "
            "the loss compares a picture with the others in its batch"
        )
    if not recipe.temperature > 0:
        raise AkornError(f"temperature is {recipe.temperature}, expected above 0")
    for name, value in (
        ("valid.count", recipe.valid.count),
        ("valid.size", recipe.valid.size),
        ("data.count", recipe.data.count),
        ("data.size", recipe.data.size),
        ("data.samples", recipe.data.samples),
    ):
        if value is not None and value < 1:
            raise AkornError(f"{name} is {value}, expected 1 or more")
    if recipe.valid.uptile < 1 or recipe.model.patch % recipe.valid.uptile:
        raise AkornError(
            f"valid.uptile is {recipe.valid.uptile}, expected a divisor of the patch, {recipe.model.patch}"
        )
