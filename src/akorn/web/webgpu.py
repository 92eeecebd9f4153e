"""onnxruntime-web's build for WebGPU, from its npm package: it is too large to ship, so a user may add it.

Only the exact files of the pinned version are accepted, so what a browser runs is known.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from akorn.errors import AkornError

VERSION = "1.23.2"
FOLDER = "/vendor/onnxruntime-web/"
FILES = {
    "ort.webgpu.bundle.min.mjs": "84b7de59dab2a4c81e48a3f8bdb7bcdf6024f532495a0e3679a7bea70444d62c",
    "ort-wasm-simd-threaded.asyncify.wasm": "babec0bbddb6d3082623b99b7e1391b75e0729bcca076ff8424d7753af97fada",
}
"""Name → SHA-256."""
SETTINGS = "/runtime.json"
"""The path at which the page checks whether they are there."""


def webgpu_files(package: Path) -> dict[str, bytes]:
    """Path of a URL → content, from onnxruntime-web-1.23.2.tgz as `npm pack` writes it."""
    found = {SETTINGS: b'{"webgpu": true}\n'}
    try:
        with tarfile.open(package, "r:gz") as archive:
            for name in FILES:
                member = archive.extractfile(f"package/dist/{name}")
                if member is None:
                    raise KeyError(name)
                found[FOLDER + name] = member.read()
    except OSError as error:
        raise AkornError(f"{package}: cannot be read ({error.strerror or error})") from error
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise AkornError(f"{package}: not onnxruntime-web-{VERSION}.tgz as `npm pack` writes it") from error
    for name, digest in FILES.items():
        if hashlib.sha256(found[FOLDER + name]).hexdigest() != digest:
            raise AkornError(f"{package}: its {name} is not that of onnxruntime-web {VERSION}")
    return found
