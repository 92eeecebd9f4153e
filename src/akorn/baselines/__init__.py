"""The paper's baselines: iterative attention and convolution, Transformer, ViT, ResNet, Energy Transformer."""

from akorn.baselines.attention import ItrSA, ItrSABlock, PositionName, Transformer
from akorn.baselines.convolution import ItrConv, ItrConvBlock
from akorn.baselines.energy_transformer import EnergyTransformer
from akorn.baselines.resnet import ResNet
from akorn.baselines.vit import PatchEmbedding, ViT

__all__ = [
    "EnergyTransformer",
    "ItrConv",
    "ItrConvBlock",
    "ItrSA",
    "ItrSABlock",
    "PatchEmbedding",
    "PositionName",
    "ResNet",
    "Transformer",
    "ViT",
]
