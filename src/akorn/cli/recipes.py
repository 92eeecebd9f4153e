"""`akorn recipes`: what can be trained."""

from __future__ import annotations

from dataclasses import dataclass

from akorn.cli.common import CommonOptions, print_json
from akorn.registry import summary
from akorn.rooms import recipes


@dataclass(frozen=True)
class Options(CommonOptions):
    """List the recipes for akorn train. The tables and figures that they name are the paper's."""


def run(options: Options) -> int:
    """Print one line per recipe."""
    told = {name: summary(recipe) for name, recipe in recipes().items()}
    if options.json:
        print_json(told)
        return 0
    width = max(map(len, told))
    for name, what in told.items():
        print(f"{name:<{width}}  {what}")
    return 0
