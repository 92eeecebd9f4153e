"""What the paper compares with: iterative self-attention, the Transformer, the Energy Transformer."""

from akorn.baselines.attention import ItrSA, ItrSABlock, PositionName, Transformer
from akorn.baselines.energy_transformer import EnergyTransformer

__all__ = ["EnergyTransformer", "ItrSA", "ItrSABlock", "PositionName", "Transformer"]
