"""Models in folders, in the Hugging Face hub's layout: weights, config and card. Damaged folders are refused.

    folder/
        model.safetensors     weights, in 16 bits by default, or 8 (`akorn.stored`); float32 again once loaded
        config.json           task, architecture, settings, and the sha256 of the weights
        README.md             the model card

Nothing is ever unpickled, and a local folder needs no network.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.model_cards import CARD
from akorn.near_folders import near_folders
from akorn.runtime.files import make_folder, replacing
from akorn.runtime.json_files import read_object
from akorn.settings import CONFIG_FILE, WEIGHTS_FILE, StoredType, as_json, from_json
from akorn.stored import from_stored, to_stored

__all__ = [
    "CONFIG",
    "LIBRARY",
    "VERSION",
    "WEIGHTS",
    "Config",
    "Folder",
    "HubModel",
    "StoredType",
    "check_shapes",
    "default_card",
    "download",
    "load_weights",
    "read_config",
    "read_folder",
    "write_folder",
]

LIBRARY = "akorn"
"""What the hub calls this library."""
VERSION = 1
"""The version of the folders' layout."""
WEIGHTS = WEIGHTS_FILE
"""The name of the file with the weights."""
CONFIG = CONFIG_FILE
"""The name of the file with the settings."""


class Config(NamedTuple):
    """What a model's config.json says."""

    task: str
    settings: dict[str, Any]
    sha256: str | None
    """SHA-256 of the file with the weights."""


class Folder(NamedTuple):
    """The content of a model's folder."""

    task: str
    settings: dict[str, Any]
    weights: dict[str, Tensor]


class HubModel(nn.Module, PyTorchModelHubMixin, ABC, library_name=LIBRARY, license="apache-2.0", tags=["kuramoto"]):
    """A model that can be saved to and loaded from a folder or the Hugging Face hub (`push_to_hub`)."""

    task: ClassVar[str]
    """The room that the model belongs to."""
    config: Any
    """The settings that it was built from: a dataclass of its room's `ARCHITECTURES`."""
    besides: ClassVar[tuple[str, ...]] = ()
    """How the names of tensors begin that training adds, and that are no part of the finished model."""

    @property
    def architecture(self) -> str:
        """The name of its architecture in the room."""
        return str(self.config.architecture)

    def settings(self) -> dict[str, Any]:
        """Everything that is needed to rebuild the model, as JSON values, with its architecture."""
        return as_json(self.config)

    def stored_state(self) -> dict[str, Tensor]:
        """The weights that belong into the model's folder: all but those that only training needs."""
        return self.finished(self.state_dict())

    def finished(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights, such as those of a checkpoint, without those that only training needs."""
        return {name: tensor for name, tensor in weights.items() if not name.startswith(self.besides)}

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        dtype: StoredType = "float16",
        card: str | None = None,
        config: object = None,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        model_card_kwargs: object = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        """Write the model's folder; `card` is the text of its README, by default a short one.

        Without `card`, a README that is already there stays, unless the folder holds a model with other settings.
        dtype: how weights are stored. "int8" halves the file of "float16": large matrices and kernels are rounded to
        8 bits, with a scale per row.
        `config` and `model_card_kwargs` are arguments of the hub's own methods; they are ignored here.
        """
        folder = Path(save_directory)
        write_folder(folder, self, dtype, card)
        if push_to_hub:
            return self.push_to_hub(repo_id=repo_id or folder.name, **push_to_hub_kwargs)
        return None

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *, device: torch.device | str = "cpu", **hub: Any
    ) -> Self:
        """Load a model by the name of shipped weights, from a folder, or from the hub, as `hf:user/name`.

        hub: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only` for the last of these.
        """
        from akorn.models import load_model

        model = load_model(pretrained_model_name_or_path, **hub)
        task = getattr(cls, "task", model.task)  # HubModel itself has none
        if model.task != task:
            raise AkornError(
                f"{pretrained_model_name_or_path}: this is a model for {model.task}, expected one for {task}"
            )
        if not isinstance(model, cls):
            raise AkornError(
                f"{pretrained_model_name_or_path} contains a {type(model).__name__}, expected a {cls.__name__}"
            )
        return model.to(device)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The default card."""
        return ModelCard(default_card(self))


def write_folder(folder: Path, model: HubModel, dtype: StoredType = "float16", card: str | None = None) -> None:
    """Write weights, config and card; each file is written atomically, the config last."""
    content = to_safetensors(to_stored(model.stored_state(), dtype), metadata={"format": "pt"})
    config = {
        "library": LIBRARY,
        "version": VERSION,
        "task": model.task,
        **model.settings(),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    make_folder(folder)
    if card is not None or not _has_card(folder, model):
        _write(folder / CARD, (card if card is not None else default_card(model)).encode())
    _write(folder / WEIGHTS, content)
    _write(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def read_config(folder: Path) -> Config:
    """Read the config of a model's folder, or raise an error that says what is wrong with it."""
    if not os.path.isdir(folder):  # unlike Path.is_dir, it accepts names that are too long or contain a zero byte
        near = near_folders(folder)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise AkornError(f"{folder}: this folder does not exist, expected one with {CONFIG} and {WEIGHTS}{hint}")
    config = _read_config(folder / CONFIG)
    return Config(config.pop("task"), config, config.pop("sha256", None))


def read_folder(folder: Path) -> Folder:
    """Read a model's folder, or raise an error that says what is wrong with it."""
    config = read_config(folder)
    file = folder / WEIGHTS
    try:
        content = file.read_bytes()
    except OSError as error:
        raise AkornError(f"{file}: cannot be read ({error.strerror or error})") from error
    if hashlib.sha256(content).hexdigest() != config.sha256:
        raise AkornError(f"{file}: damaged, its content does not match {CONFIG} (sha256 differs)")
    try:
        stored = parse_safetensors(content)
    except (SafetensorError, ValueError) as error:
        raise AkornError(f"{file}: damaged, not readable as safetensors ({error})") from error
    weights = from_stored(stored, file)
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(tensor.float().isfinite().all()):
            raise AkornError(f"{file}: tensor {name!r} has values that are not finite (NaN or infinite)")
    return Folder(config.task, config.settings, weights)


def download(repo: str, **options: Any) -> Path:
    """The folder of a model from the hub, downloaded or cached; takes options of `snapshot_download`."""
    try:
        return Path(snapshot_download(repo, allow_patterns=[WEIGHTS, CONFIG, CARD], **options))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AkornError(f"hf:{repo}: the hub returned no model of that name ({reason})") from error


def load_weights(model: nn.Module, weights: dict[str, Tensor], where: str | Path) -> None:
    """Load stored weights into a model, in the model's own precision; names and shapes must match."""
    check_shapes(model, weights, where)
    now = model.state_dict()
    model.load_state_dict({name: tensor.to(now[name].dtype) for name, tensor in weights.items()})


def check_shapes(model: nn.Module, weights: dict[str, Tensor], where: str | Path) -> None:
    """AkornError unless stored weights have a model's names and shapes; the model may be on the meta device."""
    now = model.state_dict()
    for name in {**now, **weights}:
        stored = list(weights[name].shape) if name in weights else "absent"
        expected = list(now[name].shape) if name in now else "absent"
        if stored != expected:
            raise AkornError(f"{where}: tensor {name!r} is {stored} in the file and {expected} in the model")


def default_card(model: HubModel) -> str:
    """A short model card with facts from the model itself."""
    count = sum(parameter.numel() for parameter in model.parameters())
    settings = "\n".join(f"| {name} | {value} |" for name, value in model.settings().items())
    return (
        f"---\nlibrary_name: {LIBRARY}\nlicense: apache-2.0\ntags:\n- {LIBRARY}\n- kuramoto\n- {model.task}\n---\n\n"
        f"# {model.task}: {model.architecture}\n\n"
        f"A model of the Python package `{LIBRARY}` with {count:,} parameters.\n\n"
        f"| setting | value |\n|---|---|\n{settings}\n"
    )


def _has_card(folder: Path, model: HubModel) -> bool:
    """Whether the folder has a card that may be this model's: no config beside it says that it is another one's."""
    if not (folder / CARD).exists():
        return False
    if not (folder / CONFIG).exists():
        return True
    try:
        config = read_config(folder)
        settings = from_json(config.settings, {model.architecture: type(model.config)})
    except AkornError:  # of another library, or of another architecture
        return False
    return config.task == model.task and bool(settings == model.config)


def _read_config(file: Path) -> dict[str, Any]:
    config = read_object(file)
    if config.pop("library", None) != LIBRARY or "task" not in config:
        raise AkornError(f"{file}: not a model of {LIBRARY}")
    version = config.pop("version", None)
    if version != VERSION:
        raise AkornError(f"{file}: format version {version!r}, this {LIBRARY} reads version {VERSION}")
    return config


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)
