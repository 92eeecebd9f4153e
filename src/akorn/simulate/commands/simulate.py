"""`akorn simulate`: oscillators without learning, as an animation and a figure. Nothing here imports torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from akorn.cli import parse as parse_options
from akorn.cli.common import CommonOptions, print_json, say
from akorn.errors import AkornError
from akorn.runtime.progress import progress_bar

_PRESETS = "(default: the preset's)"
Whole = Annotated[int | None, arg(metavar="INT", help_behavior_hint=_PRESETS)]
Number = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint=_PRESETS)]
Word = Annotated[str | None, arg(metavar="WORD", help_behavior_hint=_PRESETS)]


@dataclass(frozen=True)
class Options(CommonOptions):
    """Simulate oscillators without learning; write an animation and a figure (PNG).

    Options that are not given have the preset's values; an option that the preset does not have is an error.
    """

    preset: str = "fish"
    """fish (64×64 oscillators, Gaussian kernel: the energy falls), waves (a random 9×9 kernel: travelling waves)
    or classic (the scalar Kuramoto model on a network, swept over the coupling strength)."""
    out: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="(default: PRESET.gif)")] = None
    """The animation, .gif or .mp4; the figure gets the same name with .png."""
    overwrite: bool = False
    """Replace existing files with these two names; without this option nothing is simulated if they exist."""
    steps: Whole = None
    """Number of steps."""
    gamma: Number = None
    """Step size γ."""
    frames: Whole = None
    """The largest number of frames in the animation."""
    dtype: Word = None
    """float32 or float64."""
    size: Whole = None
    """fish, waves: oscillators along each side."""
    n: Whole = None
    """fish, waves: rotating dimensions N, 2 or more."""
    kernel_size: Whole = None
    """fish, waves: width of the coupling kernel, odd."""
    kernel_width: Number = None
    """fish, waves: standard deviation of the Gaussian, or of the random kernel's blur."""
    strength: Number = None
    """fish, waves: strength of the coupling J."""
    omega: Number = None
    """fish, waves: natural frequency of all oscillators."""
    oscillators: Whole = None
    """classic: number of oscillators."""
    network: Word = None
    """classic: the network, which is all, ring, small-world or random."""
    degree: Whole = None
    """classic: mean number of neighbours on a network."""
    rewiring: Number = None
    """classic: share of rewired edges in a small world."""
    frequencies: Word = None
    """classic: distribution of the natural frequencies, lorentzian or gaussian."""
    spread: Number = None
    """classic: half width of the Lorentzian, standard deviation of the Gaussian."""
    k_min: Number = None
    """classic: smallest coupling strength."""
    k_max: Number = None
    """classic: largest coupling strength."""
    k_count: Whole = None
    """classic: number of coupling strengths."""


def parse(words: Sequence[str]) -> Options:
    """The options; a preset's name without --preset before it is the mistake that is made most often."""
    from akorn.simulate.presets import PRESETS

    if words and words[0] in PRESETS:
        raise AkornError(f"unexpected argument {words[0]!r}: did you mean --preset {words[0]}? (akorn simulate --help)")
    return parse_options(Options, words, "simulate")


def run(options: Options) -> int:
    """Run the simulation, write its files and say what happened to the energy."""
    changes = _changes(options)
    from akorn.simulate.presets import settings_of

    settings = settings_of(options.preset, **changes)  # mistakes are found before the work starts
    from akorn.simulate.run import simulate
    from akorn.simulate.saving import check_output, write_animation, write_figure

    out = options.out if options.out is not None else Path(f"{options.preset}.gif")
    figure = check_output(out)
    for path in (out, figure):
        if path.exists() and not options.overwrite:
            raise AkornError(f"{path} already exists: --overwrite replaces it, --out chooses another name")
    try:
        with progress_bar("simulating", settings.steps) as bar:
            result = simulate(options.preset, progress=bar, **changes)
    except (ValueError, MemoryError) as error:  # the layers' objections to these settings
        raise AkornError(str(error) or "there is not enough memory for these settings") from error
    with progress_bar("drawing", len(result.frames)) as bar:
        write_animation(result, out, bar)
    write_figure(result, figure)
    if options.json:
        print_json(result.summary() | {"animation": str(out), "figure": str(figure)})
    else:
        print(result.describe())
    say(f"wrote {out} and {figure}")
    return 0


def _changes(options: Options) -> dict[str, Any]:
    """The given options, for `akorn.simulate.simulate`."""
    own = {"preset", "out", "overwrite", "json"}
    named = {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.name not in own}
    return {name: value for name, value in named.items() if value is not None}
