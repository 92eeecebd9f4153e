"""Named tensors in safetensors files, none larger than a limit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from akorn.errors import AkornError

# Bytes per tensor in a file's header besides its name: braces, dtype, shape and offsets as JSON.
_ENTRY = 160


def write(folder: Path, stem: str, tensors: Mapping[str, Tensor], limit: int) -> dict[str, Any]:
    """Write the tensors to `stem-00001.safetensors` and so on, each at most `limit` bytes; return their index.

    The index maps a name to its shape and files. A tensor that is too large for one file is split: its flattened pieces
    are stored under its name in several files. Other tensors keep their shape, so that a file can be read by itself.
    """
    files: list[dict[str, Tensor]] = []
    index: dict[str, Any] = {}
    room = 0
    for name, tensor in tensors.items():
        whole = tensor.detach().cpu().contiguous()
        overhead = len(name.encode()) + _ENTRY
        largest = (limit - 2 * overhead) // whole.element_size()  # in elements
        if largest < 1:
            raise ValueError(f"limit {limit} is too small for a file with tensor {name!r}")
        pieces: Sequence[Tensor] = whole.flatten().split(largest) if whole.numel() > largest else [whole]
        places = []
        for piece in pieces:
            size = piece.numel() * piece.element_size() + overhead
            if not files or size > room:
                files.append({})
                room = limit - _ENTRY
            files[-1][name] = piece.clone()  # tied tensors share memory, which safetensors refuses
            room -= size
            places.append(f"{stem}-{len(files):05d}.safetensors")
        index[name] = {"shape": list(whole.shape), "files": places}
    for number, content in enumerate(files, start=1):
        (folder / f"{stem}-{number:05d}.safetensors").write_bytes(save(content))
    return index


def read(contents: Mapping[str, bytes], index: Mapping[str, Any], where: Path) -> dict[str, Tensor]:
    """Assemble the tensors of `index` from the files' contents."""
    parsed: dict[str, dict[str, Tensor]] = {}
    tensors: dict[str, Tensor] = {}
    for name, entry in index.items():
        try:
            for file in entry["files"]:
                if file not in parsed:
                    parsed[file] = load(contents[file])
            pieces = [parsed[file][name] for file in entry["files"]]
            flat = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
            tensors[name] = flat.reshape(entry["shape"])
        except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
            raise AkornError(f"{where}: tensor {name!r} cannot be assembled ({error!r})") from error
    return tensors
