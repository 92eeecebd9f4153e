"""Robustness's tables of RESULTS.md: the paper's rows, and which records fill them. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable

from akorn.engine.ledger import Record
from akorn.engine.tables import Cell, Row, Table
from akorn.trials import is_trial

EPSILON = 8 / 255
NOISE = 64 / 255
PICTURES = 10_000
ATTACKED = 1000


def _fits(name: str, pretrained: bool, **wanted: float) -> Callable[[Record], bool]:
    """Evaluations of a recipe's model on the test set, with or without pre-training, and with these settings.

    Numbers may differ in the fourth digit: 0.0314 is 8/255.
    """

    def fits(record: Record) -> bool:
        config = record["config"]
        return (
            record["kind"] == "eval"
            and record["name"] == name
            and bool(config.get("pretrained")) == pretrained
            and config.get("data_split") == "test"
            and not is_trial(record, "data.path", "init", "channels_last")
            and all(math.isclose(config.get(key, math.nan), value, rel_tol=1e-3) for key, value in wanted.items())
        )

    return fits


def _attacked(name: str, pretrained: bool) -> Callable[[Record], bool]:
    """Evaluations under AutoAttack as it is meant: 8/255, enough pictures, EoT of 20 where a start is random, all of
    Square's queries where it takes part, and gradients that 16 bits have not blurred.

    AutoAttack asks a single start at a time, whatever the other scores are averaged over.
    """
    fits = _fits(name, pretrained, epsilon=EPSILON)

    def hard(record: Record) -> bool:
        config = record["config"]
        budget = ("eot", 20) if config.get("random_start") else ("queries", 5000)
        return (
            fits(record)
            and config.get("attacked", 0) >= ATTACKED
            and config.get(budget[0], 0) >= budget[1]
            and config.get("precision") != "bf16"
        )

    return hard


def _corrupted(name: str, pretrained: bool, starts: int) -> Callable[[Record], bool]:
    """Evaluations on all pictures of our own corruptions, at severity 5."""
    fits = _fits(name, pretrained, starts=starts, severity=5, corrupted_pictures=PICTURES)
    return lambda record: fits(record) and record["config"].get("corruptions_by") == "akorn"


def _row(label: str, name: str, *paper: str, pretrained: bool = False) -> Row:
    """Clean on all pictures, AutoAttack at 8/255, CIFAR-10-C at severity 5: accuracy and calibration error."""
    clean, adversarial, corrupted, ece = paper
    whole = _fits(name, pretrained, starts=1, pictures=PICTURES)
    worst = _corrupted(name, pretrained, starts=1)
    return Row(
        label,
        (
            Cell("clean", whole, clean),
            Cell("autoattack", _attacked(name, pretrained), adversarial),
            Cell("corrupted", worst, corrupted),
            Cell("corrupted_ece", worst, ece),
        ),
    )


_HEADINGS = ("clean", "AutoAttack, 8/255", "corrupted", "ECE on corrupted")
_NOTE = (
    "Accuracy and expected calibration error in percent, each answer from a single start. Clean and corrupted on all"
    " 10,000 test pictures, corrupted at severity 5 in the mean over 15 corruptions; AutoAttack on a random 1,000 or"
    " more of them, in its `rand` version with EoT of 20 where the model has a random start. Corrupted pictures are"
    " those of our own generator, not the published ones."
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
                Cell("noise", _fits(name, False, starts=1, pictures=PICTURES, noise_epsilon=NOISE)),
                Cell("noise_sign", _fits(name, False, starts=1, pictures=PICTURES, noise_epsilon=NOISE)),
                Cell("ece", _fits(name, False, starts=1, pictures=PICTURES)),
            ),
        )
        for label, name in _NOISE_ROWS
    ),
    note="The paper shows bars without numbers, AKOrN far ahead, and does not say how the noise is distributed.",
)

TABLES = (SCRATCH, PRETRAINED, RANDOM_NOISE)
