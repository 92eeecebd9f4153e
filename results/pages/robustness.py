"""Robustness's tables: the paper's rows, and which records fill them. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable

from akorn.ledger.records import Record
from akorn.ledger.tables import Row, Table
from akorn.robustness.attack_suite import ATTACKS as REGISTERED
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.protocol import NOISE
from results.pages import quoted
from results.pages.chaos import EXPONENTS, GRADIENTS
from results.pages.robustness_models import (
    LABELS,
    MORE_STARTS,
    PRETRAINED_FIGURES,
    SAID,
    SCRATCH_FIGURES,
    TITLES,
    WORDS,
)
from results.pages.robustness_records import (
    COMMON_PROTOCOL,
    PICTURES,
    attacked,
    cell,
    checked,
    corrupted,
    fits,
    of_check,
    of_corruption,
    of_noise,
    table,
)
from results.pages.robustness_trials import PRECISION, STEP_SIZES

_HEADINGS = ("clean", "AutoAttack, 8/255", "corrupted", "ECE on corrupted")
_OURS = "Corrupted pictures come from our own generator."
_NOTE = (
    "Accuracy and ECE in percent. Each answer comes from a single start unless a row says otherwise; the probabilities"
    " of several starts are averaged. Clean and corrupted accuracy are on all 10,000 test pictures, the latter at"
    " severity 5 and averaged over 15 corruptions. AutoAttack is on a random 1,000 or more of them; for models with"
    " random starts it is the `rand` version with an EoT of 20, which also counts answers that are wrong by a start's"
    f" bad luck (the table of attacks has the same tests without an attack). {_OURS} Before the corrections models were"
    " trained with nine operations of AugMix, and frost was a procedural texture; since then there are thirteen, and"
    " the published photographs of frost. Most were evaluated in TF32, as each record says."
)


def _never(record: Record) -> bool:
    """AutoAttack uses a single start at a time: it has not attacked the mean answers of several."""
    return False


def _row(name: str, paper: tuple[str, ...] = ("–",) * 4, *, pretrained: bool = False, starts: int = 1) -> Row:
    """Clean on all pictures, AutoAttack at 8/255, CIFAR-10-C at severity 5: accuracy and calibration error."""
    clean, adversarial, corruption, ece = paper
    whole = fits(name, pretrained, starts=starts, pictures=PICTURES)
    worst = corrupted(name, pretrained, starts)
    return Row(
        LABELS[name] + SAID[starts],
        (
            cell("clean", whole, clean),
            cell("autoattack", attacked(name, pretrained, "autoattack") if starts == 1 else _never, adversarial),
            cell("corrupted", worst, corruption),
            cell("corrupted_ece", worst, ece),
        ),
    )


def _scratch(name: str) -> tuple[Row, ...]:
    row = _row(name, SCRATCH_FIGURES[name]) if name in SCRATCH_FIGURES else _row(name)
    return (row, *(_row(name, starts=count) for count in MORE_STARTS.get(name, ())))


SCRATCH = table(
    "Without pre-training",
    _HEADINGS,
    tuple(row for name in LABELS for row in _scratch(name)),
    note=_NOTE
    + " The paper's figures for ResNet-18 beyond clean accuracy are those of its pre-trained one. Seven kinds"
    " of training are our own; [docs/robustness.md](../docs/robustness.md) says more about them. **Then a falling"
    " rate**: the model of the row before, trained further with a new head at a learning rate that falls to 0;"
    " AKOrN-conv, which ships, for 80 epochs, ResNet-18 for 50. **Last step**: gradients of each block's last"
    " Kuramoto step only, at a falling rate. **Fast**: half the paper's epochs, at ten times the learning rate, which"
    " falls to 0. **Crop last** and **AugMix last**: AugMix before crop, flip and jitter, or after the noise; the rest"
    " is the paper's unless the row says more. **A higher rate**: the paper's epochs, at ten times the learning rate,"
    " which falls to 0. **In tests too**: crop last, a higher rate, and a model that itself adds the noise to whatever"
    " it sees; it is a random model, and the noise is its start.",
)

PRETRAINED = table(
    "After pre-training on Tiny-ImageNet",
    _HEADINGS,
    (
        *(_row(name, paper, pretrained=True) for name, paper in PRETRAINED_FIGURES.items()),
        *quoted.rows(quoted.ROBUSTNESS),
    ),
    note=_NOTE
    + " Other methods' figures are quoted from the paper's Table 20; they are not pre-trained on Tiny-ImageNet. Those"
    " of Gowal et al. and Bartoldson et al. are trained on adversarial pictures. The paper's Table 4 has 92.8 for"
    " Diffenderfer et al. on corrupted pictures, where Table 20 has 89.2.",
    always=True,
)

RANDOM_NOISE = table(
    "Random noise of 64/255, without pre-training",
    ("±ε on every value", "uniform in the box", "ECE on clean pictures"),
    tuple(
        Row(
            label,
            (
                *(
                    cell(of_noise(kind), fits(name, False, starts=1, pictures=PICTURES, noise_epsilon=NOISE))
                    for kind in ("sign", "uniform")
                ),
                cell("ece", fits(name, False, starts=1, pictures=PICTURES)),
            ),
        )
        for name, label in LABELS.items()
    ),
    note="Accuracy and ECE in percent on all 10,000 test pictures, one start. The paper shows bars without numbers,"
    " with AKOrN far ahead; the published experiments have ±ε on every value, the first column.",
)

_COMMON = {"starts": 1, "pictures": PICTURES}
COMMON_RUNS = table(
    "The common protocol",
    ("clean", "noise of ±64/255", *_HEADINGS[1:2], "the same, last Kuramoto steps alone", *_HEADINGS[2:]),
    tuple(
        Row(
            LABELS[name],
            (
                cell("clean", fits(name, False, "common", **_COMMON)),
                cell(of_noise("sign"), fits(name, False, "common", noise_epsilon=NOISE, **_COMMON)),
                *(
                    cell(attack, attacked(name, False, attack, protocol="common"))
                    for attack in ("autoattack", "autoattack_adaptive")
                ),
                *(cell(metric, corrupted(name, False, protocol="common")) for metric in ("corrupted", "corrupted_ece")),
            ),
        )
        for name in COMMON_PROTOCOL["rows"].values()
    ),
    f"All architectures are trained alike, for {COMMON_PROTOCOL['final_epochs']} epochs with thirteen operations of"
    " AugMix and without pre-training. Of two rates and two schedules each takes the pair that did best on validation"
    f" pictures in trials of {COMMON_PROTOCOL['trial_epochs']} epochs (`benchmarks/common_protocol.py`). Accuracy and"
    " ECE in percent on the test pictures, one start; AutoAttack on a random 1,000 or more, as above. Corrupted"
    " pictures come from our own generator, with the published photographs of frost.",
)

_UNATTACKED = {
    "square": ("as many tests as Square's, no attack", "square_unattacked", "square"),
    "autoattack-adaptive": ("as many tests as AutoAttack's, no attack", "autoattack_unattacked", "autoattack"),
    "autoattack-standard": ("that start, no attack", "autoattack_standard_unattacked", "autoattack_standard"),
}
"""Attack → the row below it."""
_ATTACKS = tuple(
    row
    for attack in sorted(REGISTERED.values(), key=lambda attack: attack.one_start)
    for row in ((attack.label, attack.key, attack.key), _UNATTACKED.get(attack.name))
    if row is not None
)
"""Label, metric and attack of each row: first those that are scored with their own starts, then those with tests."""


def _attacks(models: Iterable[str], pretrained: bool) -> Table:
    return table(
        f"Each attack at 8/255, {WORDS[pretrained]}",
        tuple(LABELS[name] for name in models),
        tuple(
            Row(label, tuple(cell(metric, attacked(name, pretrained, attack)) for name in models))
            for label, metric, attack in _ATTACKS
        ),
        "Accuracy in percent on a random 1,000 or more of the test pictures; answers come from a single start. Where"
        " starts are random, gradients are averaged over 20 of them; FGSM, PGD and transfer are scored with starts that"
        " the attack has not seen. AutoAttack and Square count a picture only if it is right in several tests, each"
        ' with its own start; the row "no attack" below shows what that leaves of unchanged pictures.',
        models_are_rows=False,
    )


def _corruptions(models: Iterable[str], pretrained: bool, what: str, mean: str, words: str) -> Table:
    names = (*((name.replace("_", " "), of_corruption(name, what)) for name in COMMON), ("mean", mean))
    return table(
        f"{words} on each corruption, severity 5, {WORDS[pretrained]}",
        tuple(LABELS[name] for name in models),
        tuple(
            Row(label, tuple(cell(metric, corrupted(name, pretrained)) for name in models)) for label, metric in names
        ),
        "In percent; answers come from a single start, on all 10,000 test pictures, corrupted by our own generator."
        " Its frost is a procedural texture for models trained before the corrections, and has the published"
        " photographs for later ones.",
        models_are_rows=False,
    )


ATTACKS = tuple(_attacks(models, pre) for models, pre in ((LABELS, False), (PRETRAINED_FIGURES, True)))
CORRUPTIONS = tuple(
    _corruptions(models, pre, *words)
    for models, pre in ((LABELS, False), (PRETRAINED_FIGURES, True))
    for words in (("accuracy", "corrupted", "Accuracy"), ("ece", "corrupted_ece", "ECE"))
)


_PUBLISHED = {  # 100 minus the errors of the row "Source", a wide ResNet, in Tab. 1 of Yang, Li and Wei (AAAI 2026)
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
    "Are our corruptions those of CIFAR-10-C?",
    ("ResNet-18 on ours",),
    (
        Row("no corruption", (cell("clean", _REFERENCE),)),
        *(
            Row(name.replace("_", " "), (cell(of_corruption(name, "accuracy"), _REFERENCE, _PUBLISHED[name]),))
            for name in COMMON
        ),
        Row("mean", (cell("corrupted", _REFERENCE, "56.5"),)),
    ),
    "Accuracy in percent at severity 5 of two networks trained in the usual way, with shifts and mirror images: our"
    " `cifar10_resnet18_usual` on our corruptions, and on the published files the wide ResNet, a larger network, from"
    " which test-time adaptation usually starts (Tab. 1 of Yang, Li and Wei, AAAI 2026). Our frost is a procedural"
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
            cell(of_noise("sign"), noisy),
            cell("pgd", attacked(name, False, "pgd", count)),
            cell("corrupted", worst),
            cell("corrupted_ece", worst),
        ),
    )


STARTS = tuple(
    table(
        f"Answers averaged over K random starts: {TITLES[name]}",
        ("clean", "ECE on clean", "noise of ±64/255", "PGD, 8/255", "corrupted", "ECE on corrupted"),
        tuple(_starts(name, count) for count in (1, 4, 8, 16)),
        f"In percent, without pre-training. The other tables have K = 1 unless a row says otherwise. {_OURS}",
        models_are_rows=False,
    )
    for name in MORE_STARTS
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
        f"Is the defence real? {TITLES[name]}",
        ("verdict", "accuracies, %"),
        tuple(
            Row(f"{check}: {words}", tuple(cell(of_check(check, figures), checked(name)) for figures in (False, True)))
            for check, words in _CHECKS.items()
        ),
        "Checks that tell a defence from hidden gradients (`akorn.robustness.checks`), on a random 200 of the test"
        " pictures at 8/255; differences count beyond two standard errors of the paired difference. Transferred"
        " pictures were used if `transfer` is among the figures. A check without figures does not apply to the"
        " model: a ResNet, for example, has no Kuramoto steps.",
        models_are_rows=False,
    )
    for name in _CHECKED
)

TABLES = (
    SCRATCH,
    PRETRAINED,
    COMMON_RUNS,
    PRECISION,
    STEP_SIZES,
    RANDOM_NOISE,
    *ATTACKS,
    *CORRUPTIONS,
    GENERATOR,
    *STARTS,
    *CHECKS,
    EXPONENTS,
    GRADIENTS,
)

TITLE = "Robustness and calibration: all tables"
INTRO = """\
**In our reproduction AKOrN's adversarial robustness is not real.** Attacks that use gradients of the last Kuramoto
step, or a fixed start, defeat it (rows “last Kuramoto steps alone” and “one start fixed” below;
[RESULTS.md](../RESULTS.md) has the figures).

These are classifiers of CIFAR-10. **ECE**, the expected calibration error, is the mean distance between a classifier's
confidence and its accuracy; 0 is perfect. A **start** is one random draw of the oscillators' initial states; a model
with random starts gives a different answer each time. **EoT** of 20 averages each gradient of an attack over 20 starts.
8/255 and 64/255 bound how far each value of a picture may change. **AugMix** is the augmentation by mixed image
operations that the paper uses. Corrupted pictures come from our own generator and stand in for CIFAR-10-C."""
DATA = (
    "`cifar-10-batches-py` is CIFAR-10's own folder; `akorn data make cifar10-c corrupted --data cifar-10-batches-py`"
    " makes the corrupted pictures. Models trained before the corrections were scored with the procedural frost, which"
    " it makes where `imagecorruptions` is not installed. Attacks need `pip install 'akorn[attacks]'`."
)
"""Where the data in this page's commands comes from."""
