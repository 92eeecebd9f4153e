"""Files of models: the formats by name, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from akorn import rooms
from akorn.errors import AkornError
from akorn.export.facts import facts_of
from akorn.export.program import Program
from akorn.hub import HubModel, default_card
from akorn.models import card_of, load_model
from akorn.runtime.files import check_writable, replacing

Writer = Callable[[Program, Mapping[str, str], Path], None]


def export_model(
    model: HubModel | str | Path, path: str | Path, steps: int | None = None, *, overwrite: bool = False
) -> Program:
    """Write a model as one file, ONNX or .pt2 by the file's ending; returns the program that the file runs.

    Args:
        model: a model, or the name of shipped weights, or a model's folder.
        path: the file.
        steps: Kuramoto steps in one call, if they can be chosen.
        overwrite: replace an existing file.

    """
    path = Path(path)
    _check(path, overwrite)
    if isinstance(model, HubModel):
        name, card = path.stem, default_card(model)
    else:
        name, found = Path(model).name, load_model(model)
        card, model = card_of(model) or default_card(found), found
    describing = rooms.parts("export")
    if model.task not in describing:
        raise AkornError(f"models of {model.task} can only be exported as folders")
    program: Program = describing[model.task].program(model, steps)
    write(program, facts_of(program, model, name, card), path)
    return program


def _check(path: Path, overwrite: bool) -> None:
    """AkornError unless the file may be written and its packages are installed; called before any work is done."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in WRITERS:
        raise AkornError(f"{path}: the file's name must end in {' or '.join(f'.{known}' for known in WRITERS)}")
    check_writable(path)
    if os.path.exists(path) and not overwrite:
        raise AkornError(f"{path}: already exists; --overwrite replaces it")
    if ending == "onnx":
        from akorn.export import onnx_file  # noqa: F401


def write(program: Program, facts: Mapping[str, str], path: Path) -> None:
    """Write a program in the format that the file's ending names."""
    program.eval()
    with replacing(path) as temporary:
        WRITERS[path.suffix.lower().removeprefix(".")](program, facts, temporary)


def _write_onnx(program: Program, facts: Mapping[str, str], path: Path) -> None:
    from akorn.export.onnx_file import to_onnx

    path.write_bytes(to_onnx(program, facts))


def _write_pt2(program: Program, facts: Mapping[str, str], path: Path) -> None:
    """A program of `torch.export`; `facts` are its extra files."""
    batch = torch.export.Dim("batch", min=1)
    given = program.examples()
    with torch.no_grad():
        made = torch.export.export(program, given, dynamic_shapes={"inputs": tuple({0: batch} for _ in given)})
    torch.export.save(made, path, extra_files=dict(facts))


WRITERS: dict[str, Writer] = {"onnx": _write_onnx, "pt2": _write_pt2}
"""A file's ending → what writes it."""
