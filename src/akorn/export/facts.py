"""What an exported file says about itself, as named texts: ONNX's metadata, and a .pt2's extra files. Torch-free."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from akorn._version import __version__

if TYPE_CHECKING:
    from akorn.export.program import Program
    from akorn.hub import HubModel

KIND = "akorn-export"
"""The name under which a file says that it is one of ours, and its version."""
VERSION = "1"


def facts_of(program: Program, model: HubModel, name: str, card: str) -> dict[str, str]:
    """Everything that a file says: which model it is, how it is used, and its licence."""
    licence = re.search(r"^license:\s*(\S.*)$", card, re.M)  # in the card's first lines, as on the hub
    return {
        KIND: VERSION,
        "akorn_version": __version__,
        "name": name,
        "task": model.task,
        "architecture": model.architecture,
        "steps": str(program.steps),
        "license": licence[1].strip() if licence is not None else "apache-2.0",
        "config": json.dumps({"task": model.task, **model.settings()}),
        "interface": json.dumps(
            {side: [asdict(port) for port in getattr(program, side)] for side in ("inputs", "outputs")}
        ),
        "card": card,
    }
