"""Kuramoto layers and their parts, as ordinary PyTorch modules; they need only torch."""

from akorn.execution import Gradients, LastSteps, Recompute, Store
from akorn.nn.attention import AttentionCoupling
from akorn.nn.block import KuramotoBlock, KuramotoStack, Transition
from akorn.nn.coupling import ConvCoupling, DenseCoupling, ScalarCoupling, SparseCoupling
from akorn.nn.feed_forward import FeedForwardCoupling
from akorn.nn.frequency import NaturalFrequency, PairwiseFrequency
from akorn.nn.kuramoto import EnergyFunction, Evolution, KuramotoLayer
from akorn.nn.norm import ChannelAffine, GroupNorm, LayerNorm
from akorn.nn.position import GTA, AbsolutePosition, Position, RotaryPosition, sine_cosine
from akorn.nn.readout import LinearReadout, Readout
from akorn.nn.rules import Kuramoto, Residual, UpdateRule, WithoutProjection
from akorn.nn.solve import solve_steps
from akorn.nn.start import FromStimulus, LearnedStart, MixedStart, RandomStart, Start

__all__ = [
    "GTA",
    "AbsolutePosition",
    "AttentionCoupling",
    "ChannelAffine",
    "ConvCoupling",
    "DenseCoupling",
    "EnergyFunction",
    "Evolution",
    "FeedForwardCoupling",
    "FromStimulus",
    "Gradients",
    "GroupNorm",
    "Kuramoto",
    "KuramotoBlock",
    "KuramotoLayer",
    "KuramotoStack",
    "LastSteps",
    "LayerNorm",
    "LearnedStart",
    "LinearReadout",
    "MixedStart",
    "NaturalFrequency",
    "PairwiseFrequency",
    "Position",
    "RandomStart",
    "Readout",
    "Recompute",
    "Residual",
    "RotaryPosition",
    "ScalarCoupling",
    "SparseCoupling",
    "Start",
    "Store",
    "Transition",
    "UpdateRule",
    "WithoutProjection",
    "sine_cosine",
    "solve_steps",
]
