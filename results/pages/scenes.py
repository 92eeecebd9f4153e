"""Object discovery on scenes that we render: CLEVR, and textured scenes of our own. Torch-free.

A model that was trained on our CLEVR is also scored on scenes rendered from the original's files, which shows whether
ours can stand in for them. The textured scenes are modelled on CLEVRTex's description, but are not the same scenes, so
the paper's figures stand in a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table
from akorn.scenes.families import FAMILIES
from results.pages.objects_own import OTHERWISE, most_pictures
from results.pages.trials import epochs, is_trial

CLUSTERS = 11
COUNTS = {"clevr": 60_000, "clevrtex": 40_000}
"""Scenes of an epoch."""
EPOCHS = {"clevr": "300", "clevrtex": "500"}
"""For how many epochs the paper trains; its large model for twice as many."""
FEWEST = {"clevr": 320, "clevrtex": 1000, "clevrtex-ood": 1000, "clevrtex-camo": 1000}
"""Test scenes that a figure of ours needs at least."""
TRUE = 24
"""Scenes that were rendered from the original's files."""
TRUTH = "4036962bfbde8d2b64bfa449655841e27a98228f42c03e164b1694527cf60557"
"""The fingerprint of their pictures and masks, as `benchmarks/scenes.py truth` cuts them."""

BEGUN = {"clevr-60-epochs": 60}
"""Weights that a longer training went on from, by the name of their folder: for how many epochs they were trained."""

_STORED = ("data.endless", "data.path")  # how training scenes are kept changes nothing about the model


def harmless(record: Record) -> tuple[str, ...]:
    """Settings that make no trial of a model for scenes: a start from weights that the same recipe made is one."""
    return (*_STORED, *(("init",) if _init(record) in BEGUN else ()))


def trained_for(record: Record, data: str) -> float | None:
    """For how many epochs an evaluated model was trained, in one part or two; None if the record does not say."""
    last = epochs(record, COUNTS[data])
    return None if last is None else last + BEGUN.get(_init(record), 0)


def longest(record: Record) -> float:
    """A cell's preference: of several records of one seed, the one after most epochs, then on most pictures."""
    data = record["name"].partition("_")[0]
    return 1e6 * round(trained_for(record, data) or 0.0) + most_pictures(record)


def _init(record: Record) -> str:
    training = record.get("extra", {}).get("training") or {}
    return str(training.get("overrides", {}).get("init"))


def _scored(recipe: str, uptile: int) -> Callable[[Record], bool]:
    """Evaluations of a recipe's model by the paper's protocol, on any scenes."""
    steps = 1 if recipe.endswith("_vit") else 8

    def fits(record: Record) -> bool:
        config = record["config"]
        return (
            (record["kind"], record["name"]) == ("eval", recipe)
            and config.get("split") == "test"
            and (config.get("clusters"), config.get("method")) == (CLUSTERS, "average")
            and (config.get("components"), config.get("uptile"), config.get("bilinear")) == (128, uptile, 1)
            and (config.get("steps"), config.get("size"), config.get("input")) == (steps, None, None)
            and not OTHERWISE & set(config)
            and not is_trial(record, *harmless(record))
        )

    return fits


def _own(recipe: str, data: str, uptile: int) -> Callable[[Record], bool]:
    """Of these, those on test scenes that we rendered."""
    scored = _scored(recipe, uptile)

    def fits(record: Record) -> bool:
        config = record["config"]
        ours = config.get("source") == "generated" or _is_made(config.get("made"), data)
        return ours and config.get("data") == data and config.get("pictures", 0) >= FEWEST[data] and scored(record)

    return fits


def _original(recipe: str, uptile: int) -> Callable[[Record], bool]:
    """Of these, those on the scenes rendered from the original's files (`benchmarks/scenes.py truth`)."""
    scored = _scored(recipe, uptile)

    def fits(record: Record) -> bool:
        config = record["config"]
        theirs = config.get("data") == "clevr" and record.get("data") == TRUTH
        return theirs and config.get("pictures") == TRUE and scored(record)

    return fits


def _same(recipe: str, uptile: int) -> Callable[[Record], bool]:
    """Of these, those on our renders of the same scenes (`benchmarks/scenes.py truth --ours`)."""
    scored = _scored(recipe, uptile)

    def fits(record: Record) -> bool:
        made = record["config"].get("made")
        described = isinstance(made, dict) and made.get("described") and made.get("samples") == 16
        return bool(described) and record["config"].get("pictures") == TRUE and scored(record)

    return fits


def _is_made(made: object, data: str) -> bool:
    """Whether a file says that `akorn data make` rendered these scenes as they are rendered for evaluation."""
    family = FAMILIES[data]
    usual = {"scenes": data, "split": "test", "objects": [family.least, family.most], "samples": 16, "size": 128}
    return isinstance(made, dict) and {**made, **usual} == made


def _trained(recipe: str, scored: Callable[[Record], bool], only: int | None = None) -> tuple[Cell, Cell]:
    """Epochs of the training, and how many minutes it took, from its own record.

    only: of a training for this number of epochs.
    """
    data = recipe.partition("_")[0]

    def fits(record: Record) -> bool:
        mine = (record["kind"], record["name"]) == ("train", recipe) and "train.steps" not in record["overrides"]
        return mine and only in (record["config"].get("epochs"), None)

    def minutes(record: Record) -> float | None:
        return float(record["wall_time"]) / 60 if record.get("wall_time") else None

    paper = "1,000" if recipe.endswith("_large") else EPOCHS[data]
    return Cell(partial(trained_for, data=data), scored, paper, longest), Cell(minutes, fits)


_Pair = tuple[str, str]
_BOTH = ("fg_ari", "mbo")


def _pair(match: Callable[[Record], bool], paper: _Pair = ("–", "–")) -> tuple[Cell, ...]:
    return tuple(Cell(metric, match, said, longest) for metric, said in zip(_BOTH, paper, strict=True))


def _clevr(label: str, recipe: str, uptile: int, paper: _Pair = ("–", "–"), only: int | None = None) -> Row:
    """A row; only: of a model that was trained for this number of epochs."""

    def so_long(fits: Callable[[Record], bool]) -> Callable[[Record], bool]:
        return lambda record: fits(record) and (only is None or round(trained_for(record, "clevr") or 0) == only)

    own, true, same = (
        so_long(fits) for fits in (_own(recipe, "clevr", uptile), _original(recipe, uptile), _same(recipe, uptile))
    )
    return Row(label, (*_pair(own, paper), *_pair(true), *_pair(same), *_trained(recipe, own, only)))


def _errors(records: Sequence[Record], wanted: Sequence[Callable[[Record], bool]]) -> str:
    """The standard errors of FG-ARI over the pictures, in words."""
    found = [record["metrics"].get("fg_ari_error") for record in records if any(fits(record) for fits in wanted)]
    known = [error for error in found if is_number(error)]
    return f"{min(known):.1f} to {max(known):.1f}" if known else "not recorded"


_CLEVR = ("clevr_akorn", "clevr_itrsa", "clevr_akorn_conv", "clevr_itrconv")

CLEVR_SCENES = Table(
    "CLEVR, rendered by ours and from the original's files",
    (
        "ours, FG-ARI", "ours, MBO", "original's, FG-ARI", "original's, MBO", "the same scenes by ours, FG-ARI",
        "the same scenes by ours, MBO", "epochs", "training, minutes",
    ),
    (
        _clevr("ItrConv", "clevr_itrconv", 1, ("49.3 ± 5.1", "29.7 ± 3.0")),
        _clevr("AKOrN, convolution", "clevr_akorn_conv", 1, ("59.0 ± 4.3", "44.4 ± 2.0")),
        _clevr("ItrSA", "clevr_itrsa", 1, ("82.5 ± 1.7", "39.4 ± 1.9")),
        _clevr("ItrSA, up-tiling ×4", "clevr_itrsa", 4),
        _clevr("AKOrN, attention, after 60 epochs", "clevr_akorn", 1, only=60),
        _clevr("AKOrN, attention, after 60 epochs, up-tiling ×4", "clevr_akorn", 4, only=60),
        _clevr("AKOrN, attention", "clevr_akorn", 1, ("91.0 ± 0.5", "45.5 ± 1.4")),
        _clevr("AKOrN, attention, up-tiling ×4", "clevr_akorn", 4, ("94.6 ± 0.7", "44.7 ± 0.7")),
    ),
    note=lambda records: "In percent, for models trained on scenes that `akorn.scenes` rendered. “Ours”: at least"
    f" {FEWEST['clevr']} test scenes of the same renderer, with standard errors of FG-ARI of"
    f" {_errors(records, [_own(name, 'clevr', uptile) for name in _CLEVR for uptile in (1, 4)])}; beside them the"
    f" paper's figures on CLEVR. “Original's”: the same weights on {TRUE} scenes rendered from the original's files,"
    f" with standard errors of {_errors(records, [_original(name, uptile) for name in _CLEVR for uptile in (1, 4)])};"
    " beside them our renders of the same scenes."
    f" {CLUSTERS} clusters, average linkage. Minutes are those on one H200, and of the last part of a training"
    " that had two.",
)  # fmt: skip


def _textured(label: str, recipe: str, uptile: int, *papers: _Pair) -> Row:
    sets = zip(("clevrtex", "clevrtex-ood", "clevrtex-camo"), papers, strict=True)
    cells = sum((_pair(_own(recipe, data, uptile), paper) for data, paper in sets), ())
    return Row(label, (*cells, *_trained(recipe, _own(recipe, "clevrtex", uptile))))


TEXTURED_SCENES = Table(
    "Textured scenes of our own, modelled on CLEVRTex",
    (
        *(f"{data} {metric}" for data in ("textured", "OOD", "CAMO") for metric in ("FG-ARI", "MBO")),
        "epochs", "training, minutes",
    ),
    (
        _textured("ViT, 8 blocks", "clevrtex_vit", 1, ("46.4 ± 0.6", "25.1 ± 0.7"), ("44.1 ± 0.5", "27.2 ± 0.5"),
                  ("32.5 ± 0.6", "16.1 ± 1.1")),
        _textured("ItrSA, L = 1", "clevrtex_itrsa_l1", 1, ("65.7 ± 0.3", "44.6 ± 0.9"), ("64.6 ± 0.8", "45.1 ± 0.4"),
                  ("49.0 ± 0.7", "30.2 ± 0.8")),
        _textured("ItrSA, L = 2", "clevrtex_itrsa_l2", 1, ("76.3 ± 0.4", "48.5 ± 0.1"), ("74.9 ± 0.8", "46.4 ± 0.5"),
                  ("61.9 ± 1.3", "37.1 ± 0.5")),
        _textured("AKOrN, L = 1", "clevrtex_akorn_l1", 1, ("75.6 ± 0.2", "55.0 ± 0.0"), ("73.4 ± 0.4", "56.1 ± 1.1"),
                  ("59.9 ± 0.1", "44.3 ± 0.9")),
        _textured("AKOrN, L = 2", "clevrtex_akorn_l2", 1, ("80.5 ± 1.5", "54.9 ± 0.6"), ("79.2 ± 1.2", "55.7 ± 0.5"),
                  ("67.7 ± 1.5", "46.2 ± 0.9")),
        _textured("AKOrN, L = 2, up-tiling ×4", "clevrtex_akorn_l2", 4, ("87.7 ± 1.0", "55.3 ± 2.1"),
                  ("85.2 ± 0.9", "55.6 ± 1.5"), ("74.5 ± 1.2", "45.6 ± 3.4")),
        _textured("large AKOrN, L = 2, up-tiling ×4", "clevrtex_akorn_large", 4, ("88.5 ± 0.9", "59.7 ± 0.9"),
                  ("87.7 ± 0.3", "60.8 ± 0.6"), ("77.0 ± 0.5", "53.4 ± 0.7")),
    ),
    note=f"In percent, on at least {FEWEST['clevrtex']:,} test scenes each; {CLUSTERS} clusters, average linkage. Our"
    " scenes have materials and shapes of their own, so the paper's figures, on CLEVRTex and its variants, stand here"
    " for orientation only. Minutes are those on one H200.",
)  # fmt: skip
