"""`akorn models`: what can be loaded or built by name."""

from __future__ import annotations

from dataclasses import dataclass

from akorn.cli.common import CommonOptions, print_json
from akorn.models import WEIGHTS, list_models


@dataclass(frozen=True)
class Options(CommonOptions):
    """List the models: those whose weights ship, and those that can be built and trained."""


def run(options: Options) -> int:
    """Print one line per model."""
    shipped = list_models(pretrained=True)
    if options.json:
        print_json({name: {"pretrained": name in shipped} for name in list_models()})
        return 0
    width = max(map(len, list_models()))
    for name in list_models():
        size = (WEIGHTS / name / "model.safetensors").stat().st_size / 1e6 if name in shipped else 0
        print(f"{name:<{width}}  {f'weights ship ({size:.1f} MB)' if name in shipped else 'untrained'}")
    return 0
