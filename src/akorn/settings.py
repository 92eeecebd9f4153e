"""Settings of models: frozen dataclasses, one per architecture, to and from JSON values. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from akorn.errors import AkornError

Config = TypeVar("Config")

CONFIG_FILE = "config.json"
"""The file in a model's folder that holds its settings."""
WEIGHTS_FILE = "model.safetensors"
"""The file beside it that holds the weights."""
StoredType = Literal["float16", "bfloat16", "float32", "int8"]
"""How weights are stored. In int8, large matrices and kernels have 8 bits and a scale per row; the rest is float16."""

LIMIT = 2**16
"""The largest whole number among the settings, unless `LIMITS` says otherwise: a mistyped or forged one would keep a
machine busy forever, or take all its memory."""
LIMITS = {"blocks": 1024, "steps": 100_000, "kernel": 255, "kernels": 255, "image_size": 4096, "size": 1024}
_LENGTH = 1024  # of settings that are lists, with one number per block


def as_json(config: Any) -> dict[str, Any]:
    """The config as JSON values, with its architecture."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}
    return {"architecture": config.architecture, **values}


def from_json(settings: Mapping[str, Any], classes: Mapping[str, type[Config]]) -> Config:
    """Read what `as_json` wrote, without checking values; AkornError names an unknown architecture or field.

    Settings that a class got later are listed in its `absent`, with the values for older models.
    """
    architecture = settings.get("architecture")
    kind = classes.get(architecture) if isinstance(architecture, str) else None
    if kind is None:
        raise AkornError(f"architecture is {architecture!r}, expected one of {', '.join(classes)}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings.items()
        if name != "architecture"
    }
    values = {**getattr(kind, "absent", {}), **values}
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if foreign := sorted(set(values) - known):
        raise AkornError(f"unknown setting {foreign[0]!r}, expected some of {', '.join(sorted(known))}")
    return kind(**values)


def check_fields(config: Any) -> None:
    """Refuse a field whose value is not of its type, or not positive, with what was expected."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        if get_origin(hint) is Literal:
            fine, expected = value in get_args(hint), f"one of {', '.join(get_args(hint))}"
        elif hint is bool:
            fine, expected = isinstance(value, bool), "true or false"
        elif hint == int | None:
            fine, expected = value is None or _whole(value), "a whole number of at least 1, or none"
        elif hint == float | None:
            fine, expected = value is None or _positive(value), "a number above 0, or none"
        elif hint is int:
            fine, expected = _whole(value), "a whole number of at least 1"
        elif get_origin(hint) is tuple:
            fine = isinstance(value, tuple) and bool(value) and all(map(_whole, value))
            expected = "one or more whole numbers of at least 1"
        else:
            fine, expected = _positive(value), "a number above 0"
        if not fine:
            raise AkornError(f"{field.name} is {value!r}, expected {expected}")
        _check_limit(field.name, value)


def _check_limit(name: str, value: object) -> None:
    """Refuse whole numbers that are too large to build a model."""
    limit = LIMITS.get(name, LIMIT)
    each = value if isinstance(value, tuple) else (value,)
    if len(each) > _LENGTH:
        raise AkornError(f"{name} has {len(each)} numbers, expected at most {_LENGTH}")
    if too_large := [one for one in each if isinstance(one, int) and one > limit]:
        digits = str(too_large[0])
        said = digits if len(digits) <= 20 else f"a number of {len(digits)} digits"
        raise AkornError(f"{name} is {said}, expected at most {limit}")


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
