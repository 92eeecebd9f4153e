"""Features of frozen networks, scored by the same protocol: timm's ViTs trained by DINO, MoCo v3 or MAE, and others.

    model = FrozenFeatures.from_timm("dino")                          # timm downloads the weights
    model = FrozenFeatures.from_timm("mocov3", weights="moco.pth")    # or they come from a file
    evaluate(model, data)

Any network with timm's `forward_features` can be wrapped if it returns one vector per patch, in a grid of picture size
over patch size: ViTs and relatives (DeiT, EVA, BEiT), ConvNets (ResNet, ConvNeXt), Swin. Features of other shapes are
refused, and so are picture sizes that the network does not accept (BEiT accepts only its own). Networks with several
stages are scored by the last one, whose patches are large: 32 pixels for ResNet and Swin.
timm is an extra: pip install 'akorn[timm]'.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.runtime.torch_files import foreign_objects

# Short names → timm's names. timm hosts no weights of MoCo v3: use its architecture with `weights`, the published file.
NAMES = {
    "dino": "vit_base_patch16_224.dino",
    "mae": "vit_base_patch16_224.mae",
    "mocov3": "vit_base_patch16_224",
}
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# timm's normalisation belongs to its own weights; these weights were trained with another one.
_COLOURS = {"mocov3": {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}}
# Options that let networks accept pictures of any size; networks without such an option, like ConvNets, may do so
# anyway.
_ANY_SIZE: tuple[dict[str, bool], ...] = ({"strict_img_size": False}, {"dynamic_img_size": True})
# What published files put around the encoder: keys that hold the weights, and prefixes of their names.
_WRAPPINGS = ("state_dict", "model", "teacher")
_BEGINNINGS = ("module.base_encoder.", "base_encoder.", "module.", "backbone.", "encoder.", "model.")
_HEADS = ("head.", "fc_norm.", "fc.", "decoder", "mask_token", "momentum_encoder.", "predictor.", "queue")


@dataclass(frozen=True)
class FrozenConfig:
    """What the evaluation needs to know about a model."""

    name: str
    patch: int
    image_size: int
    image_channels: int = 3
    channels: int | None = None
    """Number of feature channels, if the network reports it."""


class FrozenFeatures(nn.Module):
    """A network whose patch tokens are the features; no gradients, no steps, no random start.

    Args:
        net: with `forward_features`, which returns tokens [B, prefix + h·w, K] or a picture [B, K, h, w], or
            [B, h, w, K] if its `output_fmt` is NHWC, as in timm.
        name: for records.
        patch: the patch size in pixels; by default from the last of `net.feature_info`, else from `net.patch_embed`.
        image_size: the size that the network was trained at.
        mean: the mean of each colour in training, for pixels in 0–1.
        std: the standard deviation of each colour, likewise.

    """

    def __init__(
        self,
        net: nn.Module,
        name: str = "frozen",
        *,
        patch: int | None = None,
        image_size: int = 224,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        if not hasattr(net, "forward_features"):
            raise AkornError(
                f"{name}: {type(net).__name__} has no forward_features, so it gives no features of patches"
            )
        self.net = net.eval().requires_grad_(False)
        channels = getattr(net, "num_features", None)  # timm's name for it
        self.config = FrozenConfig(
            name, patch if patch is not None else _patch(net), image_size, len(mean),
            channels if isinstance(channels, int) else None,
        )  # fmt: skip
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    @classmethod
    def from_timm(
        cls, name: str = "dino", *, weights: str | Path | None = None, pretrained: bool | None = None
    ) -> Self:
        """A timm network by its name, or "dino", "mae", "mocov3" (ViT-B/16 each).

        weights: a file of weights, safetensors or torch's (only tensors are unpickled). Without one, timm downloads
        its own; pretrained=False leaves the network as it was initialised. Colours are normalised as timm specifies for
        that name, also with a file.
        """
        try:
            import timm  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except Exception as error:  # a RuntimeError if torchvision does not match torch
            if isinstance(error, ModuleNotFoundError) and error.name == "timm":
                how = "pip install 'akorn[timm]', with akorn's constraints.txt, or pip may replace a CPU build of torch"
                raise AkornError(f"{name}: timm networks need the timm package: {how}") from error
            raise AkornError(
                f"{name}: timm is installed but cannot be imported ({type(error).__name__}: {_first_line(error)});"
                f" it needs a torchvision that matches torch {torch.__version__}"
            ) from error
        fetch = weights is None if pretrained is None else pretrained
        if fetch and name == "mocov3":  # timm has other weights for this architecture
            raise AkornError(
                "mocov3: timm does not have its weights; pass the published file (weights, or --weights FILE)"
            )
        if fetch:
            print(f"akorn: timm downloads the weights of {name} unless they are in its cache", file=sys.stderr)
        try:
            net = _create(timm.create_model, NAMES.get(name, name), pretrained=fetch, num_classes=0)
        except (RuntimeError, TypeError, OSError, ValueError) as error:  # no such name, no such weights, no network
            raise AkornError(f"{name}: timm cannot create this network ({_first_line(error)})") from error
        if weights is not None:
            load_encoder(net, Path(weights))
        facts: Mapping[str, Any] = getattr(net, "pretrained_cfg", None) or {}
        given = {key: facts[key] for key in ("mean", "std") if key in facts} | _COLOURS.get(name, {})
        size = int(facts["input_size"][-1]) if "input_size" in facts else 224
        return cls(net, name, image_size=size, **given)

    @torch.no_grad()
    def features(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Pictures [B, C, H, W], floats in 0–1 → patch tokens [B, K, h, w], float32."""
        size, patch = self.config.image_size, self.config.patch
        height, width = images.shape[2:]
        try:
            found = self.net.forward_features((images - self.mean) / self.std)  # type: ignore[operator]
        except (AssertionError, RuntimeError, ValueError) as error:  # how networks refuse a size
            if isinstance(error, torch.OutOfMemoryError) or (height, width) == (size, size):
                raise
            raise AkornError(
                f"{self.config.name} does not accept pictures of {height} × {width} pixels ({_first_line(error)});"
                f" its own size is {size} × {size} (--size {size})"
            ) from error
        return self._as_grid(found, height // patch, width // patch).float()

    def _as_grid(self, found: object, height: int, width: int) -> Tensor:
        """The network's output → [B, K, h, w]; AkornError if it is not such a grid."""
        layout = getattr(self.net, "output_fmt", None)  # timm sets it if the dimensions alone would mislead
        layout = getattr(layout, "value", layout)
        shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        expected = f"[B, K, {height}, {width}]"
        if isinstance(found, Tensor) and found.ndim == 4:
            found = found.movedim(3, 1) if layout == "NHWC" else found
            expected = f"[B, {height}, {width}, K]" if layout == "NHWC" else expected
        elif isinstance(found, Tensor) and found.ndim == 3:
            tokens = found.mT if layout == "NCL" else found  # [B, prefix + h·w, K]
            own = int(tokens.shape[1] != height * width)  # networks that do not report it have at most a class token
            prefix = int(getattr(self.net, "num_prefix_tokens", own))
            expected = f"[B, {prefix} + {height}·{width}, K]"
            if tokens.shape[1] == prefix + height * width:
                found = tokens[:, prefix:].mT.unflatten(2, (height, width))
        if not isinstance(found, Tensor) or found.ndim != 4 or found.shape[2:] != (height, width):
            raise AkornError(f"{self.config.name} returned features {shape}, expected {expected}")
        return found

    def train(self, mode: bool = True) -> Self:
        """Does nothing: a frozen network stays in eval mode."""
        return super().train(False)


def load_encoder(net: nn.Module, file: Path) -> None:
    """Load an encoder's weights from a file into a network; heads, on either side, are ignored.

    AkornError unless all other names and shapes match the network's.
    """
    stored = _unwrap(_read(file))
    own = net.state_dict()
    known = {name for name in own if not name.startswith(_HEADS)}
    found = {name: tensor for name, tensor in stored.items() if not name.startswith(_HEADS)}
    for name in sorted(known ^ found.keys()):
        place = "the file" if name in known else "the network"
        raise AkornError(f"{file}: tensor {name!r} is not in {place}")
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            raise AkornError(
                f"{file}: tensor {name!r} is {list(tensor.shape)}, but {list(own[name].shape)} in the network"
            )
    net.load_state_dict(found, strict=False)


def _read(file: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            return dict(load_file(file))
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise AkornError(f"{file}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, RuntimeError) as error:  # the right format, but damaged
        raise AkornError(f"{file}: not readable as safetensors or as torch's weights ({_first_line(error)})") from error
    except Exception as error:  # any bytes may look like a pickle, and errors differ
        if foreign := foreign_objects(file):
            what = f"it contains {foreign[0]}, which is never unpickled"
            raise AkornError(
                f"{file}: not readable as plain tensors of torch ({what}); save only its tensors"
            ) from error
        raise AkornError(f"{file}: not a file of weights, expected safetensors or a torch.save file") from error
    if not isinstance(content, dict):
        raise AkornError(f"{file}: holds a {type(content).__name__}, expected named tensors")
    return content


def _unwrap(content: dict[str, Any]) -> dict[str, Tensor]:
    """The encoder's tensors by their own names."""
    for key in _WRAPPINGS:
        if isinstance(content.get(key), dict):
            return _unwrap(content[key])
    tensors = {name: value for name, value in content.items() if isinstance(value, Tensor)}
    for beginning in _BEGINNINGS:
        inside = {name.removeprefix(beginning): t for name, t in tensors.items() if name.startswith(beginning)}
        if inside:
            return _unwrap(inside)
    return tensors


def _create(create: Callable[..., nn.Module], name: str, **options: object) -> nn.Module:
    """A timm network that accepts pictures of any size, if possible."""
    for more in _ANY_SIZE:
        with suppress(TypeError):  # an option that this network does not have; other mistakes are raised again below
            return create(name, **options, **more)
    return create(name, **options)


def _patch(net: nn.Module) -> int:
    """How many pixels high and wide the patch of one feature is."""
    stages = getattr(net, "feature_info", None)
    if isinstance(stages, list) and stages and isinstance(stages[-1].get("reduction"), int):
        return int(stages[-1]["reduction"])
    size = getattr(getattr(net, "patch_embed", None), "patch_size", None)
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if not isinstance(sides[0], int) or sides[0] != sides[1]:
        raise AkornError(f"the patch size of {type(net).__name__} is {size}, expected one number; pass it as `patch`")
    return sides[0]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
