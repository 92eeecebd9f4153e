"""Robustness and calibration on CIFAR-10: data, corruptions, models, training, attacks and the classifier. Names are
imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from akorn.robustness.adaptive import last_steps
    from akorn.robustness.attacks import FGSM, PGD, gradient_agreement, start_agreement
    from akorn.robustness.calibration import Reliability, expected_calibration_error, reliability
    from akorn.robustness.checks import check_defence
    from akorn.robustness.classifier import Classifier, Prediction
    from akorn.robustness.config import AkornConfig, ItrConvConfig, ResNetConfig, ViTConfig
    from akorn.robustness.corruptions import corrupt
    from akorn.robustness.data import Pictures, load_cifar10, load_cifar10c, load_tiny_imagenet
    from akorn.robustness.evaluate import EvalSettings, score
    from akorn.robustness.model import CifarNet, build
    from akorn.robustness.recipes import RECIPES, CifarRecipe
    from akorn.robustness.task import CifarTask

_LAZY = {
    "AkornConfig": "config",
    "CifarNet": "model",
    "CifarRecipe": "recipes",
    "CifarTask": "task",
    "Classifier": "classifier",
    "EvalSettings": "evaluate",
    "FGSM": "attacks",
    "ItrConvConfig": "config",
    "PGD": "attacks",
    "Pictures": "data",
    "Prediction": "classifier",
    "RECIPES": "recipes",
    "Reliability": "calibration",
    "ResNetConfig": "config",
    "ViTConfig": "config",
    "build": "model",
    "check_defence": "checks",
    "corrupt": "corruptions",
    "expected_calibration_error": "calibration",
    "gradient_agreement": "attacks",
    "last_steps": "adaptive",
    "load_cifar10": "data",
    "load_cifar10c": "data",
    "load_tiny_imagenet": "data",
    "reliability": "calibration",
    "score": "evaluate",
    "start_agreement": "attacks",
}

__all__ = [
    "FGSM",
    "PGD",
    "RECIPES",
    "AkornConfig",
    "CifarNet",
    "CifarRecipe",
    "CifarTask",
    "Classifier",
    "EvalSettings",
    "ItrConvConfig",
    "Pictures",
    "Prediction",
    "Reliability",
    "ResNetConfig",
    "ViTConfig",
    "build",
    "check_defence",
    "corrupt",
    "expected_calibration_error",
    "gradient_agreement",
    "last_steps",
    "load_cifar10",
    "load_cifar10c",
    "load_tiny_imagenet",
    "reliability",
    "score",
    "start_agreement",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.robustness.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.robustness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
