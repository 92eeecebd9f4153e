"""CIFAR-10: a trial of two precisions, and AKOrN-conv trained with smaller steps. Torch-free."""

from __future__ import annotations

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table
from akorn.robustness.protocol import NOISE
from akorn.robustness.recipes import trained_on
from results.pages.corrections import corrected
from results.pages.robustness_records import (
    COMMON_PROTOCOL,
    PICTURES,
    Fits,
    attacked,
    cell,
    fits,
    of_noise,
    operations,
    table,
    trained_in,
)
from results.pages.trials import is_trial

_CONV, _NO_PROJ = "cifar10_akorn_conv", "cifar10_akorn_conv_no_proj"
_EPOCHS, _VALID = COMMON_PROTOCOL["trial_epochs"], 5000


def _trained_in(precision: str) -> Fits:
    """AKOrN-conv after a short training on 45,000 pictures, scored on the validation pictures, but not in bf16."""

    def fit(record: Record) -> bool:
        config, training = record["config"], record.get("extra", {}).get("training") or {}
        return (
            (record["kind"], record["name"]) == ("eval", _CONV)
            and (config.get("data_split"), config.get("pictures"), config.get("starts")) == ("valid", _VALID, 1)
            and config.get("precision") != "bf16"
            and config.get("noise_epsilon") == NOISE
            and corrected(record)
            and operations(record) == "thirteen"
            and trained_on(training) == "train"
            and training.get("overrides", {}).get("train.epochs") == _EPOCHS
            and trained_in(record) == precision
            and not is_trial(record, "data.path", "channels_last", "train.precision", "data.split")
        )

    return fit


PRECISION = Table(
    "Does bf16 cost AKOrN-conv anything?",
    ("clean", "ECE on clean", "noise of ±64/255"),
    tuple(
        Row(
            f"trained in {label}",
            tuple(Cell(metric, _trained_in(name)) for metric in ("clean", "ece", of_noise("sign"))),
        )
        for label, name in (("bf16, as the recipe says", "bf16"), ("TF32", "tf32"))
    ),
    note=f"`{_CONV}` trained for {_EPOCHS} epochs on 45,000 pictures and scored on the {_VALID:,} validation pictures,"
    " both trainings alike in all but the precision, and both scored in TF32: in percent, one start."
    " [docs/robustness.md](../docs/robustness.md) has the commands.",
)


def _stepped(label: str, name: str, gamma: float | None) -> Row:
    scored = {"starts": 1, "pictures": PICTURES}
    return Row(
        label,
        (
            cell("clean", fits(name, False, "common", gamma, **scored)),
            cell(of_noise("sign"), fits(name, False, "common", gamma, noise_epsilon=NOISE, **scored)),
            *(
                cell(attack, attacked(name, False, attack, protocol="common", gamma=gamma))
                for attack in ("autoattack", "autoattack_adaptive")
            ),
        ),
    )


STEP_SIZES = table(
    "Attacks on models with smaller steps",
    ("clean", "noise of ±64/255", "AutoAttack, 8/255", "the same, last Kuramoto steps alone"),
    tuple(
        _stepped(f"{label}, γ = {gamma or 1:g}", name, gamma)
        for label, name in (("AKOrN-conv", _CONV), ("AKOrN-conv without Proj", _NO_PROJ))
        for gamma in (None, 0.5, 0.1)
    ),
    "Models trained by the common protocol, with the recipe's γ = 1 or a smaller one: the smaller the steps, the less"
    " chaotic the layers are. Accuracy in percent, one start; AutoAttack on a random 1,000 or more of the test"
    " pictures."
    " [docs/sceptic.md](../docs/sceptic.md) has the commands.",
)
