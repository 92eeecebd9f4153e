"""Object discovery: pictures, models that bind, clusters of what they say, and scores. Names are imported when
they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from akorn.objects.cluster import average_linkage
    from akorn.objects.config import AkornConfig, AkornConvConfig, ItrConvConfig, ItrSAConfig, ViTConfig
    from akorn.objects.data import Pictures, generate, load
    from akorn.objects.evaluate import Evaluation
    from akorn.objects.frozen import FrozenFeatures
    from akorn.objects.metrics import ari, fg_ari, mbo
    from akorn.objects.model import ObjectsNet, build
    from akorn.objects.recipes import RECIPES, ObjectsRecipe
    from akorn.objects.segmenter import Segmenter
    from akorn.objects.task import ObjectsTask

_LAZY = {
    "AkornConfig": "config",
    "AkornConvConfig": "config",
    "Evaluation": "evaluate",
    "FrozenFeatures": "frozen",
    "ItrConvConfig": "config",
    "ItrSAConfig": "config",
    "ObjectsNet": "model",
    "ObjectsRecipe": "recipes",
    "ObjectsTask": "task",
    "Pictures": "data",
    "RECIPES": "recipes",
    "Segmenter": "segmenter",
    "ViTConfig": "config",
    "ari": "metrics",
    "average_linkage": "cluster",
    "build": "model",
    "fg_ari": "metrics",
    "generate": "data",
    "load": "data",
    "mbo": "metrics",
}

__all__ = [
    "RECIPES",
    "AkornConfig",
    "AkornConvConfig",
    "Evaluation",
    "FrozenFeatures",
    "ItrConvConfig",
    "ItrSAConfig",
    "ObjectsNet",
    "ObjectsRecipe",
    "ObjectsTask",
    "Pictures",
    "Segmenter",
    "ViTConfig",
    "ari",
    "average_linkage",
    "build",
    "fg_ari",
    "generate",
    "load",
    "mbo",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.objects.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.objects' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
