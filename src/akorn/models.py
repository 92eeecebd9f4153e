"""Models by name: name → config → model → weights. Imports no torch, so that listing is fast.

A name is that of shipped weights, a folder, a recipe, or `hf:user/name`, a repository on the Hugging Face hub. Nothing
else is ever looked up on the network: a mistyped folder must not load a stranger's model. `akorn.hub` reads and writes
the folders, and `akorn.rooms` finds the class for a folder's settings.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akorn import rooms
from akorn.errors import AkornError
from akorn.ledger import read_training
from akorn.model_cards import CARD
from akorn.near_folders import near_folders
from akorn.registry import suggest, unknown
from akorn.runtime.json_files import read_object
from akorn.settings import CONFIG_FILE

if TYPE_CHECKING:
    from akorn.hub import HubModel

__all__ = [
    "HEAD",
    "HUB",
    "WEIGHTS",
    "check_there",
    "create_model",
    "list_models",
    "load_model",
    "room_of_model",
    "shipped_folder",
    "training_of",
]

WEIGHTS = Path(__file__).parent / "weights"
"""The folder with the shipped models."""
HUB = "hf:"
"""The prefix of names on the Hugging Face hub."""
HEAD = "head."
"""The prefix of the weights of a classifier's head."""


def list_models(*, pretrained: bool = False) -> list[str]:
    """The names that `create_model` knows; with `pretrained` only those whose weights ship."""
    shipped = {path.parent.name for path in WEIGHTS.glob(f"*/{CONFIG_FILE}")}
    return sorted(shipped if pretrained else shipped | set(rooms.models()))


def shipped_folder(name: str) -> Path:
    """The folder of shipped weights by their name."""
    return WEIGHTS / name


def create_model(
    name: str, pretrained: bool = False, *, num_classes: int | None = None, seed: int | None = None, **overrides: Any
) -> HubModel:
    """Build a model by its name, with `pretrained` in eval mode with shipped weights; overrides change its settings.

    num_classes: gives a classifier a new head with this many classes, on the shipped weights if `pretrained`, even if
    the number is the old one. seed: for everything that is newly initialised; None uses torch's own generator. Other
    overrides that change the shapes of weights cannot be combined with `pretrained`.
    """
    import torch

    from akorn.hub import load_weights, read_config, read_folder

    name = name.replace("_", "-")
    folder, shipped = shipped_folder(name), list_models(pretrained=True)
    if name not in list_models():
        raise AkornError(f"{unknown('model', name, list_models())} (akorn models --all)")
    if pretrained and name not in shipped:
        known = ", ".join(shipped) or "none"
        raise AkornError(f"there is no pretrained model {name!r}; the shipped models are: {known}")
    if name in shipped:
        room, settings, _ = read_config(folder)
    else:
        room, recipe = rooms.models()[name]
        settings = rooms.settings_of(room, recipe)
    foreign = [option for option in overrides if option not in settings or option == "architecture"]
    if foreign:
        options = ", ".join(key for key in settings if key != "architecture")
        raise AkornError(f"model {name!r} has no setting {foreign[0]!r}; its settings are: {options}")
    if seed is not None and not 0 <= seed < 2**63:
        raise AkornError(f"seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")
    if num_classes is not None:
        overrides |= _classes(name, settings, num_classes)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        model = rooms.build(room, {**settings, **overrides})
    if pretrained:
        weights = read_folder(folder).weights
        if num_classes is not None:  # the new head stays
            now = model.state_dict()
            weights = {key: now[key] if key.startswith(HEAD) else value for key, value in weights.items()}
        load_weights(model, weights, folder)
        model.eval()
    return model


def _classes(name: str, settings: dict[str, Any], count: int) -> dict[str, Any]:
    """The settings of a head for this many classes; AkornError if the model is not a classifier."""
    if "classes" not in settings:
        raise AkornError(f"num_classes is for the CIFAR-10 classifiers (cifar10-…): {name!r} has no classes")
    return {"head": "classes", "classes": count}


def load_model(name_or_folder: str | Path, **hub: Any) -> HubModel:
    """A model with its weights, in eval mode: shipped (by name), from a folder, or from the hub (`hf:user/name`).

    hub: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only` for the last of these.
    """
    import torch

    from akorn.hub import check_shapes, load_weights, read_folder

    folder = _find(name_or_folder, hub)
    stored = read_folder(folder)
    if stored.task not in rooms.ROOMS:
        raise AkornError(f"{folder}: this is a model for {stored.task!r}, a task that this akorn does not know")
    if folder.parent != WEIGHTS:  # of ours we know what they say; the meta device takes a second to import
        try:
            with torch.device("meta"):  # shapes alone: nothing larger than the weights is built
                outline = rooms.build(stored.task, stored.settings)
        except AkornError as error:
            raise AkornError(f"{folder / CONFIG_FILE}: {error}") from error
        check_shapes(outline, stored.weights, folder)
    model = rooms.build(stored.task, stored.settings)
    load_weights(model, stored.weights, folder)
    return model.eval()


def room_of_model(name_or_folder: str | Path) -> str | None:
    """The room of a model, by its folder's config, the prefix of its name, or its name; None if unknown."""
    name = str(name_or_folder).replace("_", "-")
    if _repository(name_or_folder) is not None:
        name_or_folder = _find(name_or_folder, {})
    for folder in (Path(name_or_folder), shipped_folder(name)):
        try:
            task = read_object(folder / CONFIG_FILE).get("task")
        except (AkornError, ValueError):  # the latter for a zero byte
            continue
        if task in rooms.ROOMS:
            return str(task)
    home = rooms.models().get(name)
    return home[0] if home is not None else rooms.room_of_prefix(str(name_or_folder))


def check_there(name_or_folder: str | Path) -> None:
    """AkornError if there is no such model; a model of the hub is not checked."""
    if _repository(name_or_folder) is not None:
        return
    from akorn.hub import read_folder

    read_folder(_find(name_or_folder, {}))


def training_of(name_or_folder: str | Path) -> dict[str, Any] | None:
    """What `akorn train` wrote about a model's training into its folder, or into that of shipped weights.

    `weights_sha256` is that of the current weights: it tells two runs with the same settings and seed apart.
    None if there is no such file, AkornError if it is damaged.
    """
    folder = _here(name_or_folder)
    origin = read_training(folder)
    config = folder / CONFIG_FILE
    if origin is not None and config.is_file():
        origin["weights_sha256"] = read_object(config).get("sha256")
    return origin


def card_of(name_or_folder: str | Path) -> str | None:
    """The text of a model's card; None where its folder has none, or none that can be read."""
    try:
        return (_find(name_or_folder, {}) / CARD).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _here(name_or_folder: str | Path) -> Path:
    """The local folder of a model: the given one, or that of the shipped weights of this name.

    A folder without a model, such as a data folder, does not hide the shipped weights of its name.
    """
    folder, name = Path(name_or_folder), str(name_or_folder).replace("_", "-")
    own = os.path.exists(folder / CONFIG_FILE) or name not in list_models(pretrained=True)
    return folder if own else shipped_folder(name)


def _find(name_or_folder: str | Path, hub: dict[str, Any]) -> Path:
    """The folder of a model: an existing one, shipped weights, or one from the hub if the name says so."""
    repository = _repository(name_or_folder)
    if repository is None:
        folder = _here(name_or_folder)
        if not os.path.isdir(folder):  # unlike Path's, it takes names that are too long or hold a zero byte
            raise AkornError(_not_here(name_or_folder))
        if not (folder / CONFIG_FILE).exists() and (folder / "model" / CONFIG_FILE).exists():
            raise AkornError(f"{folder} contains no model; did you mean {folder / 'model'}?")
        return folder
    from akorn.hub import download

    if repository not in _ASKED:
        _ASKED.add(repository)
        print(f"akorn: asking the Hugging Face hub for {repository}", file=sys.stderr)
    return download(repository, **hub)


_ASKED: set[str] = set()
"""Repositories for which the line about the hub has been printed."""


def _repository(name_or_folder: str | Path) -> str | None:
    """`user/name` of `hf:user/name`; None for other names."""
    text = str(name_or_folder)
    if not text.startswith(HUB):
        return None
    repository = text.removeprefix(HUB)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", repository, re.ASCII) is None:
        raise AkornError(f"{text!r} is not a name on the Hugging Face hub, expected hf:user/name")
    return repository


def _not_here(name_or_folder: str | Path) -> str:
    """One line for a name that is neither a folder nor shipped, with suggestions."""
    text = str(name_or_folder)
    name, shipped = text.replace("_", "-"), list_models(pretrained=True)
    if name in rooms.models():
        recipe = rooms.models()[name][1]
        return (
            f"{text}: its weights do not ship (those of {', '.join(shipped) or 'none'} do); train it with"
            f" `akorn train {recipe}`, and name the model's folder, runs/{recipe}-seed0/model"
        )
    near = near_folders(Path(text))
    hint = f"did you mean {' or '.join(near)}?" if near else suggest(name, shipped)
    if re.fullmatch(r"\w[\w.-]*/[\w.-]+", text) and not near:
        hint += f"; a model on the Hugging Face hub is named hf:{text}"
    return f"{text}: neither a model's folder nor the name of shipped weights: {hint}"
