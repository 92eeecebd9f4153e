"""Files of programs: the formats by name, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from akorn.errors import AkornError
from akorn.export.program import Program
from akorn.runtime.files import check_writable, replacing

Writer = Callable[[Program, Mapping[str, str], Path], None]


def check_target(path: Path, ending: str, *, overwrite: bool) -> None:
    """AkornError unless a file of that ending may be written there; asked before any work is done."""
    if path.suffix.lower() != f".{ending}":
        raise AkornError(f"{path}: the file's name must end in .{ending}")
    check_writable(path)
    if os.path.exists(path) and not overwrite:
        raise AkornError(f"{path}: is there already; --overwrite replaces it")


def check_packages(ending: str) -> None:
    """AkornError unless what the format needs is installed."""
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
