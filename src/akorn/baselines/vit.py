"""Pictures for models of tokens: the patch embedding, and the vision transformer (ViT)."""

from __future__ import annotations

from torch import Tensor, nn

from akorn.baselines.attention import PositionName, Transformer
from akorn.nn import LayerNorm


class PatchEmbedding(nn.Module):
    """A linear map of each patch of `patch` × `patch` pixels to C channels, without overlap."""

    def __init__(self, image_channels: int, channels: int, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.map = nn.Conv2d(image_channels, channels, patch, stride=patch)

    def forward(self, images: Tensor) -> Tensor:
        """[B, image channels, H, W] → [B, C, H/patch, W/patch]; the sides must be multiples of the patch."""
        height, width = images.shape[2:]
        if height % self.patch or width % self.patch or not height or not width:
            raise ValueError(f"pictures of {height} × {width} pixels cannot be cut into patches of {self.patch}")
        return self.map(images)


class ViT(nn.Module):
    """A vision transformer: patches, absolute positions, blocks of one attention and one MLP each.

    Args:
        image_size: height and width of the pictures.
        patch: height and width of a patch.
        channels: number of channels C.
        heads: heads of the attention.
        image_channels: 1 for grey pictures, 3 for colours.
        blocks: number of blocks L.
        position: as for `ItrSA`.
        norm: end with a LayerNorm over the channels.

    """

    def __init__(
        self,
        image_size: int,
        patch: int,
        channels: int,
        heads: int,
        *,
        image_channels: int = 3,
        blocks: int = 8,
        position: PositionName = "absolute",
        norm: bool = True,
    ) -> None:
        super().__init__()
        if image_size < 1 or image_size % patch:
            raise ValueError(f"pictures of {image_size} pixels cannot be cut into patches of {patch}")
        side = image_size // patch
        self.patches = PatchEmbedding(image_channels, channels, patch)
        self.body = Transformer(channels, heads, grid=(side, side), blocks=blocks, position=position, norm=False)
        self.norm = LayerNorm(channels) if norm else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """[B, image channels, H, W] → features [B, C, H/patch, W/patch]."""
        c = self.patches(images)
        tokens = self.norm(self.body(c.flatten(2).transpose(1, 2)))  # [B, tokens, C]
        return tokens.transpose(1, 2).unflatten(2, c.shape[2:])
