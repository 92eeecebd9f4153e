"""`akorn eval MODEL` for CIFAR models: accuracy and calibration, clean and noisy, and on request attacked or corrupted.

Scores are in percent; each says over how many random starts it was averaged. With --json, `starts_of` has these
numbers, `scores` has the details of each score, and `corruptions` and `checks` list each corruption and each check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from akorn.cli.common import LEDGER, CommonOptions, check_ledger, check_seed, print_json, say
from akorn.errors import AkornError
from akorn.robustness.attack_suite import ATTACKS
from akorn.robustness.commands.evaluate_shown import as_json, print_report, so_far
from akorn.robustness.protocol import EOT, EPSILON, NOISE, QUERIES, STEPS, Request
from akorn.runtime.files import check_writable, make_folder

if TYPE_CHECKING:
    from akorn.robustness.net import CifarNet
    from akorn.robustness.report import Report


def _number(words: list[str]) -> float:
    """A number, or a fraction such as 8/255; for anything else ValueError, as from float."""
    above, line, below = words[0].partition("/")
    try:
        return float(above) / float(below) if line else float(above)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"could not convert string to float: {words[0]!r}") from None


_Size = Annotated[
    float,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT|N/255",
        instance_from_str=_number,
        is_instance=lambda value: isinstance(value, float | int),
        str_from_instance=lambda size: [f"{255 * size:g}/255"],
    ),
]
"""The size of a change, for pixels from 0 to 1."""


@dataclass(frozen=True)
class Options(CommonOptions):
    """Score a CIFAR-10 model: clean accuracy, random noise and calibration; attacks and corruptions on request."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WEIGHTS|NAME")] = "cifar10-conv"
    """Shipped weights by name (akorn models), or a model's folder."""
    data: Path | None = None
    """CIFAR-10: cifar-10-batches-py, cifar-10-python.tar.gz, or a folder that holds one of them."""
    split: Literal["test", "valid"] = "test"
    """Score its test pictures, or the 5,000 that --data.split train holds out from training. Use these to choose
    between models."""
    limit: int | None = None
    """Score only this many pictures, drawn at random with the seed."""
    starts: int = 1
    """Number of random starts K whose probabilities are averaged for every answer."""
    attacks: Annotated[str, tyro.conf.arg(help=f"Comma-separated: {ATTACKS.help()}.")] = ""
    attack_limit: int | None = None
    """Attack only this many pictures, drawn at random with the seed; by default all that are scored."""
    epsilon: _Size = EPSILON
    """Size of the attacks in the ℓ∞ norm, for pixels from 0 to 1: 0.0314 or 8/255."""
    eot: int = EOT
    """Number of starts over which an attack averages its gradients; for pgd-smooth also the number of noisy copies."""
    attack_steps: int = STEPS
    """Number of PGD steps."""
    queries: int = QUERIES
    """Number of queries of Square."""
    source: str | None = None
    """The model whose adversarial pictures are transferred, for transfer and the checks: a ResNet-18's folder."""
    noise: _Size = NOISE
    """Size ε of the random noise: `noise` has ±ε on every value, `noise_uniform` is uniform between −ε and ε."""
    corrupted: Path | None = None
    """A folder in CIFAR-10-C's layout (akorn data make cifar10-c DIR)."""
    severity: int = 5
    """Severity of the corruptions, 1 to 5."""
    checks: bool = False
    """Check on 200 pictures whether the defence is real (akorn.robustness.checks). A model with a random start takes
    some 16,000 forward and backward passes per picture, which is work for a GPU. The checks have their own
    numbers of steps and starts; of the attacks' options they use --epsilon, and --queries up to 1,000."""
    batch: int = 500
    """Number of pictures that run at once. It affects the random starts, so scores differ slightly with it."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Precision of the matrix products."""
    plots: Path | None = None
    """A folder for plots: reliability diagrams, and adversarial pictures of size 64/255 (PGD on eight pictures with
    --attack-steps and --eot: half an hour on a CPU core; adaptive if one of --attacks is)."""
    results: Path | None = LEDGER
    """Folder for the record of the evaluation; None for no record."""


def run(options: Options) -> int:
    """Evaluate, and print the scores."""
    wanted = _check(options)
    if options.plots is not None:
        make_folder(options.plots)
    options = replace(options, results=check_ledger(options.results))
    from akorn.models import training_of
    from akorn.robustness.data import load_split
    from akorn.robustness.evaluate import EvalSettings
    from akorn.robustness.evaluation_plots import PLOTS, shown_passes
    from akorn.robustness.recipes import trained_on
    from akorn.robustness.report import evaluate
    from akorn.runtime.devices import pick_device
    from akorn.runtime.processes import is_main

    if not is_main():  # the work is not shared: one process does it all
        return 0
    if options.plots is not None:
        for name in PLOTS:
            check_writable(options.plots / name)
    assert options.data is not None
    began = time.monotonic()
    device = pick_device(options.device)
    model = _load(options.model).to(device)
    training = training_of(options.model)  # the record will hold it: a damaged file is reported before any work
    source = _load(options.source).to(device) if options.source is not None else None
    request = Request(
        wanted, limit=options.limit, attack_limit=options.attack_limit, epsilon=options.epsilon, eot=options.eot,
        steps=options.attack_steps, queries=options.queries, noise=options.noise, corrupted=options.corrupted,
        severity=options.severity, checks=options.checks, plots=options.plots, split=options.split,
    )  # fmt: skip
    settings = EvalSettings(options.starts, options.seed, options.batch, options.precision)
    if options.plots is not None:
        count, forward, backward = shown_passes(model, request)
        say(f"--plots attacks {count} pictures with PGD: {forward:,} forward and {backward:,} backward passes each")
    if wanted and device.type == "cpu":
        passes = options.attack_steps * (options.eot if model.random_start else 1)
        say(f"attacks are slow on a CPU: PGD takes {passes:,} forward and backward passes per picture, AutoAttack more")
    pictures = load_split(options.data, options.split)
    seen = options.split == "valid" and trained_on(training or {}) == "all"
    if seen:
        say(f"according to its folder, {options.model} was trained on all 50,000 pictures, so on these too")
    reports: list[Report] = []

    def begun(report: Report) -> None:
        if seen:
            report.facts["seen_in_training"] = True
        if options.source is not None:
            report.facts["source"] = _named(options.source)
        reports.append(report)

    try:
        found = _watched(
            lambda tell: evaluate(model, pictures, request, settings, source=source, tell=tell, begun=begun)
        )
    except BaseException:  # Ctrl-C after an hour of attacks, or the device is out of memory
        if reports and reports[0].metrics:
            reports[0].facts["finished"] = False
            _keep(options, reports[0], time.monotonic() - began, str(device))
        raise
    seconds = time.monotonic() - began
    if options.results is not None:
        say(f"recorded in {_record(options, found, seconds, str(device))}")
    if options.json:
        print_json(as_json(found, seconds))
    else:
        print_report(found, seconds)
    return 0


def _check(options: Options) -> tuple[str, ...]:
    """The attacks that were asked for; AkornError for impossible options, before torch is imported."""
    check_seed(options.seed)
    wanted = tuple(dict.fromkeys(name.strip() for name in options.attacks.split(",") if name.strip()))
    foreign = [name for name in wanted if name not in ATTACKS]
    if foreign or (options.attacks and not wanted):
        wrong = foreign[0] if foreign else options.attacks
        raise AkornError(f"--attacks: there is no {wrong!r}, expected some of {', '.join(ATTACKS)}")
    for name in ("limit", "attack_limit", "starts", "eot", "attack_steps", "queries", "batch"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise AkornError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    for name in ("epsilon", "noise"):
        if not 0 <= getattr(options, name) <= 1:
            raise AkornError(f"--{name} must be from 0 to 1 (8/255 is 0.0314), got {getattr(options, name)}")
    if not 1 <= options.severity <= 5:
        raise AkornError(f"--severity must be from 1 to 5, got {options.severity}")
    transferred = [name for name in wanted if ATTACKS[name].transferred]
    if transferred and options.source is None:
        raise AkornError(
            f"--attacks {transferred[0]} needs --source, the model whose adversarial pictures are transferred"
        )
    if options.source is not None and not options.checks and not transferred:
        raise AkornError("--source is for --attacks transfer and for --checks, and neither was asked for")
    if options.data is None:
        where = "docs/training.md says where to get it"
        raise AkornError(f"--data is missing: CIFAR-10's folder, cifar-10-batches-py ({where})")
    if options.checks or any(ATTACKS[name].needs_extra for name in wanted):
        from importlib.util import find_spec

        if find_spec("pyautoattack") is None:
            raise AkornError("AutoAttack, Square and --checks need a package: pip install 'akorn[attacks]'")
    return wanted


def _load(name: str) -> CifarNet:
    """A model that classifies CIFAR-10's pictures."""
    from akorn.models import load_model
    from akorn.robustness.config import check_classifier
    from akorn.robustness.net import CifarNet

    model = load_model(name)
    if not isinstance(model, CifarNet):
        raise AkornError(f"{name}: not a CIFAR-10 classifier, but a model for {model.task}")
    try:
        check_classifier(model.config)
    except AkornError as error:
        raise AkornError(f"{name}: {error}") from None
    return model


def _watched(work: Callable[[Callable[[str, int, int], None]], Report]) -> Report:
    """Run the evaluation with a progress bar on stderr."""
    from akorn.runtime.progress import progress_bar

    with progress_bar("scoring") as bar:
        return work(lambda what, done, total: bar(done, total, text=what))


def _named(model: str) -> str:
    """The name of a model in records."""
    from akorn.ledger import model_name
    from akorn.models import training_of

    return model_name(model, training_of(model))


def _record(options: Options, found: Report, seconds: float, device: str) -> Path:
    """Write one record, under the model's name and, where its folder has it, the seed of its training."""
    from akorn.ledger import record_evaluation
    from akorn.models import training_of
    from akorn.robustness.recipes import CONTINUES

    assert options.results is not None
    origin = training_of(options.model)
    config = {
        "pretrained": bool(origin and origin.get("overrides", {}).get("init") and origin["recipe"] not in CONTINUES),
        "data_split": options.split, "start_seed": options.seed, "precision": options.precision, "batch": options.batch,
        **found.facts,
    }  # fmt: skip
    return record_evaluation(
        options.model, found.metrics, training=origin, config=config, data_fingerprint=found.fingerprint,
        wall_time=seconds, device=device, folder=options.results, extra=found.details,
    )  # fmt: skip


def _keep(options: Options, found: Report, seconds: float, device: str) -> None:
    """Record what an unfinished evaluation has scored, or print it where no record is wanted."""
    if options.results is not None:
        say(f"not finished; what was scored is recorded in {_record(options, found, seconds, device)}")
        return
    say(f"not finished; scored so far: {so_far(found)}")
