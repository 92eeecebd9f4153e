"""Robustness's tables of RESULTS.md: the paper's rows, and which records fill them. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable

from akorn.engine.ledger import Record
from akorn.engine.tables import Cell, Row, Table

EPSILON = 8 / 255
NOISE = 64 / 255


def _fits(name: str, pretrained: bool, *, attacked: int = 0, **wanted: float) -> Callable[[Record], bool]:
    """Evaluations of a recipe's model on the test set, with or without pre-training, and with these settings.

    attacked: at least so many pictures were attacked. Numbers may differ in the fourth digit: 0.0314 is 8/255.
    """

    def fits(record: Record) -> bool:
        config = record["config"]
        return (
            record["kind"] == "eval"
            and record["name"] == name
            and bool(config.get("pretrained")) == pretrained
            and config.get("data_split") == "test"
            and config.get("attacked", 0) >= attacked
            and all(math.isclose(config.get(key, math.nan), value, rel_tol=1e-3) for key, value in wanted.items())
        )

    return fits


def _cells(name: str, paper: tuple[str, str, str, str], *, pretrained: bool = False) -> tuple[Cell, ...]:
    """Clean on all pictures, AutoAttack at 8/255, CIFAR-10-C at severity 5: accuracy and calibration error."""
    clean, adversarial, corrupted, ece = paper
    whole = _fits(name, pretrained, pictures=10_000)
    attacked = _fits(name, pretrained, attacked=1000, epsilon=EPSILON)
    worst = _fits(name, pretrained, pictures=10_000, severity=5)
    return (
        Cell("clean", whole, clean),
        Cell("autoattack", attacked, adversarial),
        Cell("corrupted", worst, corrupted),
        Cell("corrupted_ece", worst, ece),
    )


def _row(label: str, name: str, *paper: str, pretrained: bool = False) -> Row:
    clean, adversarial, corrupted, ece = paper
    return Row(label, _cells(name, (clean, adversarial, corrupted, ece), pretrained=pretrained))


_HEADINGS = ("clean", "AutoAttack, 8/255", "corrupted", "ECE on corrupted")
_NOTE = (
    "Accuracy and expected calibration error in percent. Clean and corrupted on all 10,000 test pictures, corrupted at"
    " severity 5 in the mean over 15 corruptions; AutoAttack on the sample that the record names, in its `rand` version"
    " with EoT of 20 where the model has a random start. Corrupted pictures are those of our own generator unless a"
    " record says otherwise."
)

SCRATCH = Table(
    "CIFAR-10 without pre-training",
    _HEADINGS,
    (
        _row("AKOrN-conv, N = 2", "cifar10_akorn_conv", "84.6", "64.9", "78.3", "1.8"),
        _row("ResNet-18", "cifar10_resnet18", "94.1", "0.0", "81.5", "8.9"),
        _row("ResNet-18, σ = 0.2", "cifar10_resnet18_noise02", "85.2", "22.3", "75.1", "2.3"),
        _row("ResNet-18, σ = 0.225", "cifar10_resnet18_noise0225", "83.9", "25.5", "73.6", "2.6"),
        _row("ItrConv", "cifar10_itrconv", "93.5", "0.0", "83.6", "5.9"),
        _row("ViT", "cifar10_vit", "91.4", "0.0", "81.0", "9.6"),
        _row("AKOrN-conv without Proj", "cifar10_akorn_conv_no_proj", "89.9", "0.1", "82.4", "4.5"),
        _row("AKOrN-conv without m", "cifar10_akorn_conv_no_m", "77.8", "–", "–", "–"),
        _row("stacked Kuramoto layers", "cifar10_akorn_conv_stacked", "62.9", "–", "–", "–"),
        _row("AKOrN-conv without Ω", "cifar10_akorn_conv_no_omega", "–", "–", "–", "–"),
        _row("AKOrN-conv without C", "cifar10_akorn_conv_no_c", "–", "–", "–", "–"),
        _row("AKOrN-conv without Π", "cifar10_akorn_conv_no_norm", "–", "–", "–", "–"),
        _row("AKOrN-mix, N = 2", "cifar10_akorn_mix_n2", "–", "–", "–", "–"),
        _row("AKOrN-mix, N = 4", "cifar10_akorn_mix_n4", "–", "–", "–", "–"),
    ),
    note=_NOTE + " The paper's other figures for ResNet-18 than clean are of the pre-trained one.",
)

PRETRAINED = Table(
    "CIFAR-10 after pre-training on Tiny-ImageNet",
    _HEADINGS,
    (
        _row("AKOrN-conv, N = 2", "cifar10_akorn_conv", "88.9", "58.9", "83.0", "1.3", pretrained=True),
        _row("AKOrN-mix, N = 2", "cifar10_akorn_mix_n2", "91.2", "51.6", "86.4", "1.4", pretrained=True),
        _row("AKOrN-mix, N = 4", "cifar10_akorn_mix_n4", "93.5", "0.0", "84.0", "6.4", pretrained=True),
        _row("ResNet-18", "cifar10_resnet18", "94.4", "0.0", "81.5", "8.9", pretrained=True),
    ),
    note=_NOTE,
)

_NOISE_ROWS = (
    ("AKOrN-conv, N = 2", "cifar10_akorn_conv"),
    ("ResNet-18", "cifar10_resnet18"),
    ("ResNet-18, σ = 0.2", "cifar10_resnet18_noise02"),
    ("ResNet-18, σ = 0.225", "cifar10_resnet18_noise0225"),
    ("ItrConv", "cifar10_itrconv"),
    ("ViT", "cifar10_vit"),
    ("AKOrN-conv without Proj", "cifar10_akorn_conv_no_proj"),
    ("AKOrN-conv without Ω", "cifar10_akorn_conv_no_omega"),
    ("AKOrN-conv without C", "cifar10_akorn_conv_no_c"),
    ("AKOrN-conv without m", "cifar10_akorn_conv_no_m"),
    ("AKOrN-conv without Π", "cifar10_akorn_conv_no_norm"),
)

RANDOM_NOISE = Table(
    "CIFAR-10 with random noise, ‖ε‖∞ = 64/255, without pre-training",
    ("uniform in the box", "±ε on every value", "ECE on clean pictures"),
    tuple(
        Row(
            label,
            (
                Cell("noise", _fits(name, False, noise_epsilon=NOISE)),
                Cell("noise_sign", _fits(name, False, noise_epsilon=NOISE)),
                Cell("ece", _fits(name, False, pictures=10_000)),
            ),
        )
        for label, name in _NOISE_ROWS
    ),
    note="The paper shows bars without numbers, AKOrN far ahead, and does not say how the noise is distributed.",
)

TABLES = (SCRATCH, PRETRAINED, RANDOM_NOISE)
