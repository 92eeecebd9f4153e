"""docs/sceptic.md: the evidence about AKOrN's adversarial robustness on one page. Torch-free.

The words are here, the figures come from the records: `{name}` is what `FIGURES` finds under that name. Where a record
contradicts the words, the page is not rendered; where a figure is still missing, the page says what it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.ledger.tables import Table, chosen, markdown, summary, value
from results.pages import robustness
from results.pages.chaos import EXPONENTS, GRADIENTS
from results.pages.figures import Figure, Found, look

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
    "noise": _noise(_PAPER),
    "noise_resnet": _noise("ResNet-18"),
    "corrupted": _model(_PAPER, _CORRUPTED),
    "corrupted_resnet": _model("ResNet-18", _CORRUPTED),
    **{
        f"{name}{count}": _starts(model, count, heading)
        for model, of in ((_SHIPPED, ""), (_NOISY, "noisy_"))
        for name, heading in ((f"{of}ece", "ECE on corrupted"), (f"{of}right", "corrupted"))
        for count in (1, 16)
    },
}

_COMMON = ("AKOrN-conv, N = 2", "AKOrN-conv without Proj")


def _supported(of: Mapping[str, Found]) -> bool:
    """Whether the figures support the words."""
    return (
        min(of["rand"].mean, of["shipped"].mean, of["undefended"].mean) > 50
        and max(of["last"].mean, of["shipped_last"].mean, of["undefended_last"].mean) < 25
        and of["fixed"].mean < 5
        and of["start"].mean > 80
        and of["noise"].mean > 2 * of["noise_resnet"].mean
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
        "attacks": _table(records, robustness.ATTACKS[0], (_PAPER, _SHIPPED, "AKOrN-conv, last step", "ResNet-18")),
        "proj": _proj(records),
        "exponents": _rows(records, EXPONENTS) or _WAITS.format(what="`benchmarks/lyapunov.py`"),
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


def _table(records: Sequence[Record], table: Table, models: Sequence[str]) -> str:
    rows = [[words, *_figures(records, table, label, models)] for label, words in _ROWS.items()]
    clean = [_figures(records, robustness.SCRATCH, model, [_CLEAN])[0] for model in models]
    return "\n".join(markdown(["", *models], [["no attack, all 10,000 pictures", *clean], *rows]))


def _rows(records: Sequence[Record], table: Table) -> str:
    rows = [[row.label, *_figures(records, table, row.label, table.headings)] for row in table.rows]
    return "\n".join(markdown(["", *table.headings], rows)) if any(set(row[1:]) != {"–"} for row in rows) else ""


def _proj(records: Sequence[Record]) -> str:
    """With and without Proj by the common protocol, or what that waits for."""
    table = robustness.COMMON_RUNS
    headings = table.headings[:4]
    rows = [[label, *_figures(records, table, label, headings)] for label in _COMMON]
    if any("–" in row for row in rows):
        words = "`python benchmarks/common_protocol.py trials --rows akorn-conv no-proj`, then `final`"
        return _WAITS.format(what=f"the common protocol ({words})")
    return "\n".join(markdown(["", *headings], rows))


_WAITS = "*No figures yet: they wait for {what}.*"

_BEFORE = """\
*Not all models on this page were trained after the mends of 18 November 2026 (the moving average warms up, AugMix has
thirteen operations; [results/robustness.md](../results/robustness.md) says which). Their figures change as records of
later trainings arrive; where one contradicts the words, the page cannot be rendered.*"""

TEXT = """\
# For a sceptic: is the robustness real?

**In our reproduction it is not. The attack that the paper reports leaves {rand} % of the answers right (in the paper
{rand.paper} %). The same attack with a better gradient leaves {last} %.** For the model that ships, which was trained
for 80 more epochs, they leave {shipped} and {shipped_last} %, and an attack on one fixed start leaves {fixed} %. The
paper's weights are not public, so this page is about models that we trained by the paper's description. You can check
it in an hour.{before}

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

On an H200 the three evaluations took {shipped_seconds}, {shipped_last_seconds} and {fixed_seconds} seconds. On a CPU,
try `--limit 100 --attacks pgd,pgd-adaptive --attack-limit 32 --attack-steps 10 --eot 4`.

![Eight drawings and what the attack makes of them; the model now gives other answers](images/adversarial.png)

*`python examples/adversarial.py`: the same attack within 64/255. CIFAR-10's pictures are not ours to show; `akorn eval
… --attacks pgd-adaptive --plots DIR` draws the same figure of them.*

## The figures

Accuracy in percent, on 1,000 test pictures at 8/255 unless a row says otherwise; one training each.

{attacks}

“Last step” is a model that was *trained* with gradients of the last step: it has no defence at all, and AutoAttack as
the paper runs it still reports {undefended} % (with the better gradient {undefended_last} %). On a chaotic model such a
figure is no evidence.

## Why: the layers are chaotic

The largest Lyapunov exponent λ of each layer of `cifar10-conv`, per step (`benchmarks/lyapunov.py`). If λ is
above 0, a difference, and so a gradient, grows by a factor of exp(λ) in every step. The model was trained with γ = 1.

{exponents}

How far a gradient of an *untrained* network is valid: the cosine, in percent, between gradients a quarter of a grey
level apart (`benchmarks/gradients.py --untrained`). Chaos comes with the large steps, before any training.

{gradients}

## With and without Proj

The paper's ablation is the sharpest test. If hidden gradients were all there is, a model without Proj, whose gradients
are at least as rough, should survive the same attack; the paper reports 0.1 %. Both models by one protocol:

{proj}

## What remains true

- **Random noise.** With ±64/255 on every value, {noise} % of the answers are right; ResNet-18 has {noise_resnet} %. The
  model has seen no noise in training.
- **Corruptions.** On average over fifteen kinds {corrupted} % are right; ResNet-18 has {corrupted_resnet} %. The
  corruptions come from our own generator.
- **Calibration, by the mean over starts.** On corrupted pictures the calibration error of `cifar10-conv` is {ece1} from
  one start and {ece16} from sixteen, at {right1} and {right16} % right. A ResNet-18 that adds noise to its own input
  has {noisy_ece1} and {noisy_ece16}: averaging over random starts calibrates it too.

## What would change our mind

A model of this kind, trained by anybody, that keeps its accuracy under `autoattack-adaptive` and passes
`akorn eval MODEL --checks`. [Robustness and calibration](robustness.md) explains the checks, and
[results/robustness.md](../results/robustness.md) has all tables. All figures here come from the records in `results/`,
through `python -m results.pages`.
"""
