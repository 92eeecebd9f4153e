"""Robustness's tables: the paper's rows, and which records fill them. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable

from akorn.ledger.records import Record
from akorn.ledger.tables import Row, Table
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.protocol import NOISE
from results.pages.robustness_records import (
    PICTURES,
    attacked,
    cell,
    checked,
    corrupted,
    fits,
    of_check,
    of_corruption,
    table,
)

_LABELS = {
    "cifar10_akorn_conv": "AKOrN-conv, N = 2",
    "cifar10_akorn_conv_falling_rate": "AKOrN-conv, then a falling rate",
    "cifar10_akorn_conv_last_step": "AKOrN-conv, last step",
    "cifar10_resnet18": "ResNet-18",
    "cifar10_resnet18_fast": "ResNet-18, fast",
    "cifar10_resnet18_crop_last": "ResNet-18, crop last",
    "cifar10_resnet18_crop_last_falling_rate": "ResNet-18, crop last, then a falling rate",
    "cifar10_resnet18_crop_last_high_rate": "ResNet-18, crop last, a higher rate",
    "cifar10_resnet18_noise02": "ResNet-18, σ = 0.2",
    "cifar10_resnet18_noise02_fast": "ResNet-18, σ = 0.2, fast",
    "cifar10_resnet18_noise02_augmix_last": "ResNet-18, σ = 0.2, AugMix last",
    "cifar10_resnet18_always_noise02": "ResNet-18, σ = 0.2 in tests too",
    "cifar10_resnet18_noise0225": "ResNet-18, σ = 0.225",
    "cifar10_resnet18_noise0225_fast": "ResNet-18, σ = 0.225, fast",
    "cifar10_resnet18_noise0225_augmix_last": "ResNet-18, σ = 0.225, AugMix last",
    "cifar10_resnet18_always_noise0225": "ResNet-18, σ = 0.225 in tests too",
    "cifar10_itrconv": "ItrConv",
    "cifar10_itrconv_fast": "ItrConv, fast",
    "cifar10_itrconv_crop_last": "ItrConv, crop last",
    "cifar10_vit": "ViT",
    "cifar10_akorn_conv_no_proj": "AKOrN-conv without Proj",
    "cifar10_akorn_conv_no_m": "AKOrN-conv without m",
    "cifar10_akorn_conv_stacked": "stacked Kuramoto layers",
    "cifar10_akorn_conv_no_omega": "AKOrN-conv without Ω",
    "cifar10_akorn_conv_no_c": "AKOrN-conv without C",
    "cifar10_akorn_conv_no_norm": "AKOrN-conv without Π",
    "cifar10_akorn_mix_n2": "AKOrN-mix, N = 2",
    "cifar10_akorn_mix_n4": "AKOrN-mix, N = 4",
}
"""Recipe → what it is called, in the tables' order."""

_SCRATCH = {
    "cifar10_akorn_conv": ("84.6", "64.9", "78.3", "1.8"),
    "cifar10_resnet18": ("94.1", "0.0", "81.5", "8.9"),
    "cifar10_resnet18_noise02": ("85.2", "22.3", "75.1", "2.3"),
    "cifar10_resnet18_noise0225": ("83.9", "25.5", "73.6", "2.6"),
    "cifar10_itrconv": ("93.5", "0.0", "83.6", "5.9"),
    "cifar10_vit": ("91.4", "0.0", "81.0", "9.6"),
    "cifar10_akorn_conv_no_proj": ("89.9", "0.1", "82.4", "4.5"),
    "cifar10_akorn_conv_no_m": ("77.8", "–", "–", "–"),
    "cifar10_akorn_conv_stacked": ("62.9", "–", "–", "–"),
}
_PRETRAINED = {
    "cifar10_akorn_conv": ("88.9", "58.9", "83.0", "1.3"),
    "cifar10_akorn_mix_n2": ("91.2", "51.6", "86.4", "1.4"),
    "cifar10_akorn_mix_n4": ("93.5", "0.0", "84.0", "6.4"),
    "cifar10_resnet18": ("94.4", "0.0", "81.5", "8.9"),
}
"""Recipe → the paper's figures, in the order of _HEADINGS."""

_MORE_STARTS = {
    "cifar10_akorn_conv": (4,),
    "cifar10_akorn_conv_falling_rate": (4, 16),
    "cifar10_akorn_conv_last_step": (4,),
    "cifar10_resnet18_always_noise02": (4, 16),
    "cifar10_resnet18_always_noise0225": (4, 16),
}
"""Random model → the numbers of starts of its further rows, beside one."""
_SAID = {1: "", 4: ", four starts", 16: ", sixteen starts"}
"""Starts → what a row's label says of them."""

_HEADINGS = ("clean", "AutoAttack, 8/255", "corrupted", "ECE on corrupted")
_OURS = "Corrupted pictures are those of our own generator, not the published ones."
_NOTE = (
    "Accuracy and expected calibration error in percent, each answer from a single start unless a row says more, whose"
    " probabilities are then averaged. Clean and corrupted on all"
    " 10,000 test pictures, corrupted at severity 5 in the mean over 15 corruptions; AutoAttack on a random 1,000 or"
    " more of them, in its `rand` version with EoT of 20 where the model has a random start, whose bad luck it counts"
    f" too (the table of attacks has the same tests without an attack). {_OURS} Most were asked in TF32, as each record"
    " says."
)


def _never(record: Record) -> bool:
    """AutoAttack asks a single start at a time: it has not attacked the answers of several."""
    return False


def _row(name: str, paper: tuple[str, ...] = ("–",) * 4, *, pretrained: bool = False, starts: int = 1) -> Row:
    """Clean on all pictures, AutoAttack at 8/255, CIFAR-10-C at severity 5: accuracy and calibration error."""
    clean, adversarial, corruption, ece = paper
    whole = fits(name, pretrained, starts=starts, pictures=PICTURES)
    worst = corrupted(name, pretrained, starts)
    return Row(
        _LABELS[name] + _SAID[starts],
        (
            cell("clean", whole, clean),
            cell("autoattack", attacked(name, pretrained, "autoattack") if starts == 1 else _never, adversarial),
            cell("corrupted", worst, corruption),
            cell("corrupted_ece", worst, ece),
        ),
    )


def _scratch(name: str) -> tuple[Row, ...]:
    row = _row(name, _SCRATCH[name]) if name in _SCRATCH else _row(name)
    return (row, *(_row(name, starts=count) for count in _MORE_STARTS.get(name, ())))


SCRATCH = table(
    "CIFAR-10 without pre-training",
    _HEADINGS,
    tuple(row for name in _LABELS for row in _scratch(name)),
    note=_NOTE + " The paper's other figures for ResNet-18 than clean are of the pre-trained one. Seven kinds of"
    " training are our own, and docs/robustness.md says more of them. **Then a falling rate**: the model of the row"
    " before it trained on, with a new head, at a learning rate that falls to 0; AKOrN-conv for 80 epochs, which is"
    " what ships, ResNet-18 for 50. **Last step**: gradients of each block's last Kuramoto step alone, at a falling"
    " rate. **Fast**: half the paper's epochs, at ten times the learning rate, which falls to 0. **Crop last** and"
    " **AugMix last**: AugMix before crop, flip and jitter, or behind the noise; the rest is the paper's unless the row"
    " says more. **A higher rate**: the paper's epochs, at ten times the learning rate, which falls to 0. **In tests"
    " too**: crop last, a higher rate, and a model that adds the noise itself, to whatever it sees: it is a random"
    " model, and that noise its start.",
)

PRETRAINED = table(
    "CIFAR-10 after pre-training on Tiny-ImageNet",
    _HEADINGS,
    tuple(_row(name, paper, pretrained=True) for name, paper in _PRETRAINED.items()),
    note=_NOTE,
)

RANDOM_NOISE = table(
    "CIFAR-10 with random noise, ‖ε‖∞ = 64/255, without pre-training",
    ("uniform in the box", "±ε on every value", "ECE on clean pictures"),
    tuple(
        Row(
            label,
            (
                cell("noise", fits(name, False, starts=1, pictures=PICTURES, noise_epsilon=NOISE)),
                cell("noise_sign", fits(name, False, starts=1, pictures=PICTURES, noise_epsilon=NOISE)),
                cell("ece", fits(name, False, starts=1, pictures=PICTURES)),
            ),
        )
        for name, label in _LABELS.items()
    ),
    note="The paper shows bars without numbers, AKOrN far ahead, and does not say how the noise is distributed.",
)

_ATTACKS = (
    ("FGSM", "fgsm", "fgsm"),
    ("PGD, 50 steps", "pgd", "pgd"),
    ("PGD on the smoothed loss", "pgd_smooth", "pgd_smooth"),
    ("PGD, last Kuramoto steps alone", "pgd_adaptive", "pgd_adaptive"),
    ("transfer from ResNet-18", "transfer", "transfer"),
    ("Square", "square", "square"),
    ("as many tests as Square's, no attack", "square_unattacked", "square"),
    ("AutoAttack (`rand` for random starts)", "autoattack", "autoattack"),
    ("AutoAttack, last Kuramoto steps alone", "autoattack_adaptive", "autoattack_adaptive"),
    ("as many tests as AutoAttack's, no attack", "autoattack_unattacked", "autoattack"),
    ("AutoAttack `standard`, one start fixed", "autoattack_standard", "autoattack_standard"),
    ("that start, no attack", "autoattack_standard_unattacked", "autoattack_standard"),
)
_WORDS = {False: "without pre-training", True: "after pre-training on Tiny-ImageNet"}


def _attacks(models: Iterable[str], pretrained: bool) -> Table:
    return table(
        f"CIFAR-10 {_WORDS[pretrained]}: each attack, 8/255",
        tuple(_LABELS[name] for name in models),
        tuple(
            Row(label, tuple(cell(metric, attacked(name, pretrained, attack)) for name in models))
            for label, metric, attack in _ATTACKS
        ),
        "Accuracy in percent on a random 1,000 or more of the test pictures, answers of a single start. Gradients are"
        " averaged over 20 starts where these are random; FGSM, PGD and transfer are scored with starts that the attack"
        " has not seen. AutoAttack and Square count a picture only if it is right in several tests, each with a start"
        ' of its own: the next row with "no attack" shows what that leaves of the pictures as they are.',
        models_are_rows=False,
    )


def _corruptions(models: Iterable[str], pretrained: bool, what: str, mean: str, words: str) -> Table:
    names = (*((name.replace("_", " "), of_corruption(name, what)) for name in COMMON), ("mean", mean))
    return table(
        f"CIFAR-10 {_WORDS[pretrained]}: {words} on each corruption, severity 5",
        tuple(_LABELS[name] for name in models),
        tuple(
            Row(label, tuple(cell(metric, corrupted(name, pretrained)) for name in models)) for label, metric in names
        ),
        "In percent, answers of a single start, on all 10,000 test pictures as our own generator corrupts them; its"
        " frost is a procedural texture.",
        models_are_rows=False,
    )


ATTACKS = tuple(_attacks(models, pre) for models, pre in ((_LABELS, False), (_PRETRAINED, True)))
CORRUPTIONS = tuple(
    _corruptions(models, pre, *words)
    for models, pre in ((_LABELS, False), (_PRETRAINED, True))
    for words in (("accuracy", "corrupted", "accuracy"), ("ece", "corrupted_ece", "ECE"))
)


_PUBLISHED = {  # 100 less the errors of the row "Source", a wide ResNet, in Tab. 1 of Yang, Li and Wei (AAAI 2026)
    "gaussian_noise": "27.7",
    "shot_noise": "34.3",
    "impulse_noise": "27.1",
    "defocus_blur": "53.1",
    "glass_blur": "45.7",
    "motion_blur": "65.2",
    "zoom_blur": "58.0",
    "snow": "74.9",
    "frost": "58.7",
    "fog": "74.0",
    "brightness": "90.7",
    "contrast": "53.3",
    "elastic_transform": "73.4",
    "pixelate": "41.5",
    "jpeg_compression": "69.7",
}
_REFERENCE = corrupted("cifar10_resnet18_usual", False)

GENERATOR = table(
    "CIFAR-10: are our corruptions CIFAR-10-C's?",
    ("ResNet-18 on ours",),
    (
        Row("no corruption", (cell("clean", _REFERENCE),)),
        *(
            Row(name.replace("_", " "), (cell(of_corruption(name, "accuracy"), _REFERENCE, _PUBLISHED[name]),))
            for name in COMMON
        ),
        Row("mean", (cell("corrupted", _REFERENCE, "56.5"),)),
    ),
    "Accuracy in percent at severity 5 of two networks trained in the usual way, on shifted and mirrored pictures: our"
    " `cifar10_resnet18_usual` on our corruptions, and the wide ResNet from which test-time adaptation usually starts,"
    " a larger network, on the published files (Tab. 1 of Yang, Li and Wei, AAAI 2026). Our frost is a procedural"
    " texture.",
    models_are_rows=False,
    beside="a wide ResNet on CIFAR-10-C",
)


def _starts(name: str, count: int) -> Row:
    whole, worst = fits(name, False, starts=count, pictures=PICTURES), corrupted(name, False, count)
    noisy = fits(name, False, starts=count, pictures=PICTURES, noise_epsilon=NOISE)
    return Row(
        f"K = {count}",
        (
            cell("clean", whole),
            cell("ece", whole),
            cell("noise", noisy),
            cell("pgd", attacked(name, False, "pgd", count)),
            cell("corrupted", worst),
            cell("corrupted_ece", worst),
        ),
    )


STARTS = tuple(
    table(
        f"CIFAR-10, {_LABELS[name]}: answers in the mean over K random starts",
        ("clean", "ECE on clean", "noise of 64/255", "PGD, 8/255", "corrupted", "ECE on corrupted"),
        tuple(_starts(name, count) for count in (1, 4, 8, 16)),
        f"In percent, without pre-training; the other tables have K = 1 unless a row says more. {_OURS}",
        models_are_rows=False,
    )
    for name in _MORE_STARTS
)

_CHECKS = {
    "steps": "more steps of PGD only lower the accuracy, and it settles",
    "eot": "more starts behind each gradient only lower it, and it settles",
    "epsilon": "a larger ε only lowers it, down to nothing",
    "smooth": "PGD on the smoothed loss does no better than PGD",
    "adaptive": "PGD with gradients of the last Kuramoto steps alone does no better than PGD",
    "gradient": "gradients a quarter of a grey level apart agree",
    "black-box": "noise, Square and transferred pictures do no better than PGD, one start fixed",
}

_CHECKED = (
    "cifar10_akorn_conv",
    "cifar10_akorn_conv_falling_rate",
    "cifar10_akorn_conv_last_step",
    "cifar10_resnet18_always_noise02",
)

CHECKS = tuple(
    table(
        f"CIFAR-10, {_LABELS[name]}: is the defence real?",
        ("verdict", "accuracies, %"),
        tuple(
            Row(f"{check}: {words}", tuple(cell(of_check(check, figures), checked(name)) for figures in (False, True)))
            for check, words in _CHECKS.items()
        ),
        "Of the model without pre-training, on a random 200 of the test pictures at 8/255, within two standard errors"
        " of the paired difference (`akorn.robustness.checks`). Transferred pictures took part where `transfer` stands"
        " among the figures. A check without figures had nothing to ask of the model, such as a ResNet, which has no"
        " Kuramoto steps.",
        models_are_rows=False,
    )
    for name in _CHECKED
)

TABLES = (SCRATCH, PRETRAINED, RANDOM_NOISE, *ATTACKS, *CORRUPTIONS, GENERATOR, *STARTS, *CHECKS)
