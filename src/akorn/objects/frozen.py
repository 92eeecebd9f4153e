"""Features of frozen networks, scored by the same protocol: ViTs of timm trained by DINO, MoCo v3 or MAE.

    model = FrozenFeatures.from_timm("dino")                                    # timm fetches the weights
    model = FrozenFeatures.from_timm("vit_base_patch16_224", weights="moco.pth")   # or they lie in a file
    evaluate(model, data)

Any network with timm's `forward_features` can be wrapped. timm is an extra: pip install 'akorn[timm]'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from akorn.errors import AkornError

# Short names → timm's. timm hosts no weights of MoCo v3: its architecture, and `weights` for the published file.
NAMES = {
    "dino": "vit_base_patch16_224.dino",
    "mae": "vit_base_patch16_224.mae",
    "mocov3": "vit_base_patch16_224",
}
# What published files put around the encoder: keys that hold the weights, and beginnings of their names.
_WRAPPINGS = ("state_dict", "model", "teacher")
_BEGINNINGS = ("module.base_encoder.", "base_encoder.", "module.", "backbone.", "encoder.", "model.")
_HEADS = ("head.", "fc_norm.", "fc.", "decoder", "mask_token", "momentum_encoder.", "predictor.", "queue")


@dataclass(frozen=True)
class FrozenConfig:
    """What the evaluation asks of a model."""

    name: str
    patch: int
    image_size: int
    image_channels: int = 3


class FrozenFeatures(nn.Module):
    """A network whose patch tokens are the features; no gradients, no steps, no random start.

    Args:
        net: with `forward_features`, which gives tokens [B, prefix + h·w, K] or a picture [B, K, h, w].
        name: for records.
        patch: the patch size in pixels; by default that of `net.patch_embed`.
        image_size: the size that the network was trained at.
        mean, std: of the colours in training, for pixels in 0–1.

    """

    def __init__(
        self,
        net: nn.Module,
        name: str = "frozen",
        *,
        patch: int | None = None,
        image_size: int = 224,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
    ) -> None:
        super().__init__()
        if not hasattr(net, "forward_features"):
            raise ValueError(f"{type(net).__name__} has no forward_features, so its patch tokens cannot be had")
        self.net = net.eval().requires_grad_(False)
        self.config = FrozenConfig(name, patch if patch is not None else _patch(net), image_size, len(mean))
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    @classmethod
    def from_timm(
        cls, name: str = "dino", *, weights: str | Path | None = None, pretrained: bool | None = None
    ) -> Self:
        """A ViT of timm by its name, or "dino", "mae", "mocov3" (ViT-B/16 each).

        weights: a file of weights, safetensors or torch's (read without unpickling anything but tensors). Without
        one, timm fetches its own; pretrained=False leaves the network as it was initialised.
        """
        try:
            import timm  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise AkornError(f"{name}: networks of timm need a package: pip install 'akorn[timm]'") from error
        fetch = weights is None if pretrained is None else pretrained
        if fetch and name == "mocov3":  # timm's own weights for this architecture are others
            raise AkornError("mocov3: timm has no weights of it, give the published file (weights, or --weights FILE)")
        try:
            net = timm.create_model(NAMES.get(name, name), pretrained=fetch, num_classes=0, dynamic_img_size=True)
        except (RuntimeError, TypeError, OSError, ValueError) as error:  # no such name, no such weights, no network
            reason = str(error).strip().partition("\n")[0]
            raise AkornError(f"{name}: timm cannot make this network ({reason})") from error
        if weights is not None:
            load_encoder(net, Path(weights))
        facts: Mapping[str, Any] = getattr(net, "pretrained_cfg", None) or {}
        given = {key: facts[key] for key in ("mean", "std") if key in facts}
        size = int(facts["input_size"][-1]) if "input_size" in facts else 224
        return cls(net, name, image_size=size, **given)

    @torch.no_grad()
    def features(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Pictures [B, C, H, W], floats in 0–1 → patch tokens [B, K, h, w], float32."""
        patch = self.config.patch
        height, width = images.shape[2] // patch, images.shape[3] // patch
        found: Tensor = self.net.forward_features((images - self.mean) / self.std)  # type: ignore[operator]
        if found.ndim == 4:
            return found.float()
        prefix = int(getattr(self.net, "num_prefix_tokens", 1))
        if found.ndim != 3 or found.shape[1] != prefix + height * width:
            raise ValueError(
                f"{self.config.name} gave features {list(found.shape)}, expected [B, {prefix} + {height}·{width}, K]"
            )
        return found[:, prefix:].mT.unflatten(2, (height, width)).float()

    def train(self, mode: bool = True) -> Self:
        """Nothing: a frozen network stays in eval mode."""
        return super().train(False)


def load_encoder(net: nn.Module, file: Path) -> None:
    """Put an encoder's weights from a file into a network; heads, on either side, are left out.

    AkornError unless all other names and shapes are the network's.
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
            raise AkornError(f"{file}: tensor {name!r} is {list(tensor.shape)}, in the network {list(own[name].shape)}")
    net.load_state_dict(found, strict=False)


def _read(file: Path) -> dict[str, Any]:
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if file.suffix == ".safetensors":
            return dict(load_file(file))
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise AkornError(f"{file}: cannot be read ({error.strerror or error})") from error
    except (SafetensorError, UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise AkornError(f"{file}: not readable as safetensors or as plain tensors of torch ({reason})") from error
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


def _patch(net: nn.Module) -> int:
    size = getattr(getattr(net, "patch_embed", None), "patch_size", None)
    sides = tuple(size) if isinstance(size, Sequence) else (size, size)
    if not isinstance(sides[0], int) or sides[0] != sides[1]:
        raise ValueError(f"the patch size of {type(net).__name__} is {size}, expected one number; give it as `patch`")
    return sides[0]
