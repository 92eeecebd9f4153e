"""docs/sceptic.md: the evidence about AKOrN's adversarial robustness on one page. Torch-free.

The words are here, the figures come from the records: `{name}` is what `FIGURES` finds under that name. Where a record
contradicts the words, the page is not rendered; where a figure is still missing, the page says what it waits for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table, chosen, markdown, summary, value
from results.pages import robustness
from results.pages.chaos import EXPONENTS, GRADIENTS, LAYERS
from results.pages.figures import Figure, Found, look
from results.pages.robustness_trials import STEP_SIZES

PAGE = "docs/sceptic.md"

_CLEAN, _ATTACKED, _CORRUPTED, _ECE = robustness.SCRATCH.headings
_PAPER, _SHIPPED = "AKOrN-conv, N = 2", "AKOrN-conv, then a falling rate"
_LAST, _FIXED = "AutoAttack, last Kuramoto steps alone", "AutoAttack `standard`, one start fixed"
_SIGN = robustness.RANDOM_NOISE.headings[0]


def _model(row: str, heading: str) -> Figure:
    return Figure(f"{row}: {heading}", robustness.SCRATCH, row, heading)


def _attack(attack: str, model: str) -> Figure:
    return Figure(f"{model}: {attack}", robustness.ATTACKS[0], attack, model)


def _noise(model: str) -> Figure:
    return Figure(f"{model}: noise", robustness.RANDOM_NOISE, model, _SIGN)


def _starts(model: str, count: int, heading: str) -> Figure:
    table = next(table for table in robustness.STARTS if table.title.endswith(f": {model}"))
    return Figure(f"{model}, K = {count}: {heading}", table, f"K = {count}", heading)


_NOISY = "ResNet-18 with noise of 0.2 in tests too"
_BITS = Table(
    "Weights in 16 and in 8 bits",
    ("16 bits", "8 bits"),
    tuple(
        Row(what, tuple(Cell(f"{what}, {bits} bits", {"kind": "bench", "name": "stored-weights-cifar10-conv"})
                        for bits in (16, 8)))
        for what in ("accuracy",)
    ),
)  # fmt: skip

FIGURES = {
    "clean": _model(_PAPER, _CLEAN),
    "rand": _model(_PAPER, _ATTACKED),
    "last": _attack(_LAST, _PAPER),
    "shipped": _model(_SHIPPED, _ATTACKED),
    "shipped_last": _attack(_LAST, _SHIPPED),
    "fixed": _attack(_FIXED, _SHIPPED),
    "start": _attack("that start, no attack", _SHIPPED),
    "undefended": _model("AKOrN-conv, last step", _ATTACKED),
    "undefended_last": _attack(_LAST, "AKOrN-conv, last step"),
    "bits16": Figure("right answers, weights in 16 bits", _BITS, "accuracy", "16 bits"),
    "bits8": Figure("right answers, weights in 8 bits", _BITS, "accuracy", "8 bits"),
    "noise_resnet": _noise("ResNet-18"),
    "corrupted_resnet": _model("ResNet-18", _CORRUPTED),
    **{
        f"{name}{count}": _starts(model, count, heading)
        for model, of in ((_SHIPPED, ""), (_NOISY, "noisy_"))
        for name, heading in (
            (f"{of}noise", "noise of ±64/255"),
            (f"{of}ece", "ECE on corrupted"),
            (f"{of}right", "corrupted"),
        )
        for count in (1, 16)
    },
}

_MODELS = {
    _SHIPPED: "`cifar10-conv`, which ships (400 + 80 epochs)",
    _PAPER: "AKOrN-conv, the paper's 400 epochs, does not ship",
    "AKOrN-conv, last step": "AKOrN-conv, trained with the last step, does not ship",
    "ResNet-18": "ResNet-18",
}
"""Models of the table of attacks, and what they are called here."""


def _supported(of: Mapping[str, Found]) -> bool:
    """Whether the figures support the words."""
    return (
        min(of["rand"].mean, of["shipped"].mean, of["undefended"].mean) > 50
        and max(of["last"].mean, of["shipped_last"].mean, of["undefended_last"].mean) < 25
        and of["fixed"].mean < 5
        and of["start"].mean > 80
        and of["noise1"].mean > 2 * of["noise_resnet"].mean
        and min(of["noise16"].mean - of["noise1"].mean, of["right16"].mean - of["right1"].mean) > 0
        and abs(of["bits16"].mean - of["bits8"].mean) < 1
        and of["ece16"].mean < of["ece1"].mean / 2
        and of["noisy_ece16"].mean < of["noisy_ece1"].mean / 2
    )


def page(records: Sequence[Record]) -> str:
    """Return the page; AkornError if a figure is missing or does not support its words."""
    found = {name: look(records, figure) for name, figure in FIGURES.items()}
    if not _supported(found):
        raise AkornError(f"{PAGE}: the figures no longer support its words; read them and write it again")
    seconds = {
        f"{name}_seconds": f"{found[name].records[0]['wall_time']:.0f}" for name in ("shipped", "shipped_last", "fixed")
    }
    before = "\n\n" + _BEFORE if not all(each.mended for each in found.values()) else ""
    parts = {
        "before": before,
        "attacks": _table(records, robustness.ATTACKS[0]),
        "steps": _steps(records),
        "exponents": _rows(records, EXPONENTS) or _WAITS.format(what="`benchmarks/lyapunov.py`"),
        "growth": _growth(records),
        "in_16_bits": _in_16_bits(found),
        "noise_gain": f"{found['noise16'].mean - found['noise1'].mean:.1f}",
        "right_gain": f"{found['right16'].mean - found['right1'].mean:.1f}",
        "gradients": _rows(records, GRADIENTS) or _WAITS.format(what="`benchmarks/gradients.py --untrained`"),
    }
    return TEXT.format(**found, **seconds, **parts)


_ROWS = {
    "PGD, 50 steps": "PGD, 50 steps, all gradients",
    "PGD, last Kuramoto steps alone": "PGD, gradients of the last step",
    "AutoAttack (`rand` for random starts)": "AutoAttack, all gradients, as in the paper",
    "as many tests as AutoAttack's, no attack": "as many tests without an attack",
    _LAST: "AutoAttack, gradients of the last step",
    _FIXED: "AutoAttack `standard`, one start fixed",
    "that start, no attack": "that start without an attack",
}
"""Rows of the table of attacks, and what they are called here."""


def _figures(records: Sequence[Record], table: Table, row: str, headings: Sequence[str]) -> list[str]:
    found = []
    for heading in headings:
        cell = Figure(row, table, row, heading).cell
        values = [value(record, cell.metric) for record in chosen(records, cell)]
        found.append(summary(values, table.digits).partition(" (")[0])
    return found


def _table(records: Sequence[Record], table: Table) -> str:
    rows = [[words, *_figures(records, table, label, list(_MODELS))] for label, words in _ROWS.items()]
    clean = [_figures(records, robustness.SCRATCH, model, [_CLEAN])[0] for model in _MODELS]
    return "\n".join(markdown(["", *_MODELS.values()], [["no attack, all 10,000 pictures", *clean], *rows]))


def _filled(records: Sequence[Record], table: Table) -> dict[str, list[str]]:
    """The rows of a table that have a figure."""
    rows = {row.label: _figures(records, table, row.label, table.headings) for row in table.rows}
    return {label: figures for label, figures in rows.items() if set(figures) != {"–"}}


def _of_all_layers(label: str) -> str:
    """A row's label without the number of its layer: "layer 1, trained" is "trained"."""
    return label.partition(", ")[2] if label.startswith("layer ") else label


def _rows(records: Sequence[Record], table: Table) -> str:
    """The rows of a table that have a figure, and which have none; nothing if none has."""
    filled = _filled(records, table)
    missing = dict.fromkeys(_of_all_layers(row.label) for row in table.rows if row.label not in filled)
    lines = markdown(["", *table.headings], [[label, *figures] for label, figures in filled.items()])
    lines += ["", f"*Pending: {'; '.join(missing)}.*"] if missing else []
    return "\n".join(lines) if filled else ""


def _steps(records: Sequence[Record]) -> str:
    """Attacks with and without Proj and with smaller steps, and what is pending."""
    rows = _rows(records, STEP_SIZES)
    return rows or f"*Pending, with no figures yet: {'; '.join(row.label for row in STEP_SIZES.rows)}.*"


def _growth(records: Sequence[Record]) -> str:
    """By how much a difference grows over all steps of the shipped model, from the exponents on the page."""
    cells = [Figure("", EXPONENTS, f"layer {layer}, trained", "γ = 1") for layer in LAYERS]
    if not all(chosen(records, figure.cell) for figure in cells):
        return ""
    exponents = [str(look(records, figure)) for figure in cells]
    factor = math.exp(3 * sum(map(float, exponents)))  # of the figures as they are shown
    return "\n\n" + _GROWTH.format(each=" + ".join(exponents), factor=f"{factor:.0f}")


def _in_16_bits(found: Mapping[str, Found]) -> str:
    """Words about the weights behind the shipped model's figures, if these are the weights in 16 bits."""
    compared = {record["extra"]["weights_sha256"] for record in found["bits16"].records}
    behind = {
        record["extra"]["training"].get("weights_sha256")
        for name in ("shipped", "shipped_last", "fixed", "noise1", "noise16", "right1", "right16")
        for record in found[name].records
    }
    return _IN_16_BITS.format(**found) if behind == compared else ""


_WAITS = "*No figures yet: they wait for {what}.*"

_GROWTH = """\
The model takes three steps in each of its three layers. Over all nine a difference grows by a factor of
exp(3 · ({each})) ≈ {factor}, if the maps between the layers neither stretch nor shrink it. So much less than a grey
level is enough to end in another state, and a gradient says little about what lies beside it."""

_IN_16_BITS = """

The figures of `cifar10-conv` were measured with its weights in 16 bits; the commands load the 8 bits that the package
holds. On 1,000 validation pictures, from the same starts, {bits16} and {bits8} % of the answers are right
(`benchmarks/stored_weights.py`). Under attack the two were not compared, so expect small differences."""

_BEFORE = """\
*Not all models on this page were trained after the mends of 18 November 2026 (the moving average warms up, AugMix has
thirteen operations; [results/robustness.md](../results/robustness.md) says which). Their figures change as records of
later trainings arrive; where one contradicts the words, the page cannot be rendered.*"""

TEXT = """\
# For a sceptic: is the robustness real?

**In our reproduction it is not. The attack that the paper reports leaves {shipped} % of our model's answers right (in
the paper {rand.paper} %). The same attack with a better gradient leaves {shipped_last} %, and an attack on one fixed
start leaves {fixed} %.** These are figures of `cifar10-conv`, the model that ships, so you can check them in an hour.
It was trained for the paper's 400 epochs and for 80 more. A model of 400 epochs alone, which does not ship, keeps
{rand} and {last} %. The paper's weights are not public, so this page is about models that we trained by its
description.{before}

## The claim

The paper trains a classifier of CIFAR-10 on clean pictures only. Its oscillators start at random, so the model is a
random function. Under AutoAttack (`rand`, each gradient the mean over 20 starts) with changes of at most 8/255 it keeps
{rand.paper} %, where a ResNet-18 keeps nothing. Without the projection Proj it keeps 0.1 %.

## The attack, in ten lines

A layer takes T = 3 steps x ← Π[x + γ(Ωx + Proj(C + Jx))], and the picture acts on each of them through C. The steps are
chaotic, so a gradient through all of them is valid over less than a grey level and for one start only. But how the
*last* step responds to C, with the state before it held fixed, is smooth. So the attack uses only that gradient. The
forward pass does not change: the adversarial pictures are judged by the model as it is, from starts that the attack has
not seen.

```python
import torch
import torch.nn.functional as F
import akorn
from akorn.robustness.adaptive import last_steps

model = akorn.create_model("cifar10-conv", pretrained=True).eval()


def attack(images, labels, epsilon=8 / 255, steps=50, starts=20):
    x = images.clone()
    for _ in range(steps):
        x.requires_grad_()
        with last_steps(model):  # backward: the last Kuramoto step of each layer alone
            loss = sum(F.cross_entropy(model(x), labels, reduction="sum") for _ in range(starts))
            (gradient,) = torch.autograd.grad(loss, x)
        x = x.detach() + 2.5 * epsilon / steps * gradient.sign()
        x = x.clamp(images - epsilon, images + epsilon).clamp(0, 1)
    return x


pictures, labels = torch.rand(2, 3, 32, 32), torch.tensor([3, 5])  # put CIFAR-10's here
print(model(attack(pictures, labels, steps=1, starts=1)).argmax(1))
```

## The commands

```
C10="--data cifar-10-batches-py --precision tf32 --attack-limit 1000"
akorn eval cifar10-conv $C10 --attacks autoattack                           # as the paper runs it
akorn eval cifar10-conv $C10 --attacks autoattack-adaptive,pgd-adaptive     # with gradients of the last step
akorn eval cifar10-conv $C10 --attacks autoattack-standard                  # with one start fixed
python examples/adversarial.py                                              # our own drawings, on a CPU
```

On an H200 the three evaluations took {shipped_seconds}, {shipped_last_seconds} and {fixed_seconds} seconds. Without a
GPU, compare two short attacks, which took 490 seconds on two busy CPU cores:

```
akorn eval cifar10-conv --data cifar-10-batches-py --limit 100 --attacks pgd,pgd-adaptive \\
  --attack-limit 32 --attack-steps 10 --eot 4
```

With gradients through all steps (`pgd`) most of the 32 pictures should stay right; with those of the last step
(`pgd-adaptive`) well under half of them. Ten steps are few, and one picture is 3 %: only the gap between the two
counts.{in_16_bits}

![Eight drawings and what the attack makes of them; the model now gives other answers](images/adversarial.png)

*`python examples/adversarial.py`: the same attack within 64/255. CIFAR-10's pictures are not ours to show; `akorn eval
… --attacks pgd-adaptive --plots DIR` draws the same figure of them.*

## The figures

Accuracy in percent, on 1,000 test pictures at 8/255 unless a row says otherwise; one training each. The first column is
the model that the commands load.

{attacks}

The third is a model that was *trained* with gradients of the last step: it has no defence at all, and AutoAttack as
the paper runs it still reports {undefended} % (with the better gradient {undefended_last} %). On a chaotic model such a
figure is no evidence.

## Why: the layers are chaotic

The largest Lyapunov exponent λ of each layer of `cifar10-conv`, per step (`benchmarks/lyapunov.py`). If λ is
above 0, a difference, and so a gradient, grows by a factor of exp(λ) in every step. The model was trained with γ = 1.
The untrained layers have the same shapes and random weights. All are means over two to four validation pictures. A
trained model without Proj is measured by
`python benchmarks/lyapunov.py --data cifar-10-batches-py --kinds trained --record results --model MODEL`.

{exponents}{growth}

How far a gradient of an *untrained* network is valid: the cosine, in percent, between gradients a quarter of a grey
level apart (`benchmarks/gradients.py --untrained`). Chaos comes with the large steps, before any training.

{gradients}

## With and without Proj, and with smaller steps

The paper's ablation is the sharpest test. If hidden gradients were all there is, a model without Proj, whose gradients
are at least as rough, should survive the same attack; the paper reports 0.1 %. Smaller steps are the other test: at
γ = 0.1 there is hardly any chaos, so AutoAttack as the paper runs it should find what it misses at γ = 1. All by one
protocol of 100 epochs ([robustness.md](robustness.md#validation-pictures)):

{steps}

The figures come from these commands, the last one for each of the models:

```
python benchmarks/common_protocol.py trials --data cifar-10-batches-py --rows akorn-conv no-proj
python benchmarks/common_protocol.py final --data cifar-10-batches-py --rows akorn-conv no-proj
akorn eval runs/common/RUN/model $C10 --attacks autoattack,autoattack-adaptive
```

For γ = 0.5 the first two also get `--runs runs/gamma-0.5 --model.gamma 0.5`, and for γ = 0.1 likewise.

## What remains true

All of `cifar10-conv`, on all 10,000 test pictures, with one random start for an answer and with the mean over sixteen.

- **Random noise.** With ±64/255 on every value, {noise1} % of the answers are right from one start and {noise16} % from
  sixteen: {noise_gain} points are the mean over starts. ResNet-18 has {noise_resnet} %. Neither has seen noise in
  training. A ResNet-18 that has, and adds noise to its own input, has {noisy_noise1} and {noisy_noise16} %.
- **Corruptions.** On average over fifteen kinds {right1} % are right from one start and {right16} % from sixteen:
  {right_gain} points are the mean over starts. ResNet-18 has {corrupted_resnet} %. The corruptions come from our own
  generator.
- **Calibration, by the mean over starts.** On corrupted pictures the calibration error is {ece1} from one start and
  {ece16} from sixteen. The ResNet-18 that adds noise to its own input has {noisy_ece1} and {noisy_ece16}: averaging
  over random starts calibrates it too.

## What would change our mind

A model of this kind, trained by anybody, that keeps its accuracy under `autoattack-adaptive` and passes
`akorn eval MODEL --checks`. [Robustness and calibration](robustness.md) explains the checks, and
[results/robustness.md](../results/robustness.md) has all tables. All figures here come from the records in `results/`,
through `python -m results.pages`.
"""
