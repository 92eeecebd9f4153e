"""The error if the packages for ONNX are missing. Torch-free."""

from __future__ import annotations

from akorn.errors import AkornError


def missing(error: ImportError) -> AkornError:
    """One line that names the extra."""
    return AkornError(f"ONNX needs packages that are not installed: pip install 'akorn[onnx]' ({error})")
