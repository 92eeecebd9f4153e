"""Object discovery's tables: the paper's rows, and which records fill them. Torch-free.

A record of `akorn eval` fills a cell if its config says so: `data` is the data set's name (or that of a file
`tetrominoes-test.npz`) and `split` the one that the paper tests on, `source` is `generated` for the sets that we
generate and not a file of that name, `pictures` are at least as many as there, and
`size`, `clusters`, `components`, `method`, `uptile` and `steps` are the paper's. Trials, whose models were not trained
as their recipe says, are in none of these tables; fewer epochs do not make a trial, since the record states them. Of
several records of a seed, the one on the most pictures counts: a quick look at a few hundred replaces no figure of
thousands. Trainings after the corrections replace those before (`corrections`). What was tried is in `objects_own`,
other methods' figures in `quoted`. Textured scenes of our own have a table of their own (`scenes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table, chosen
from results.pages import quoted
from results.pages.clustering import NUMBERS, UPTILING
from results.pages.corrections import MARKED, corrected
from results.pages.objects_own import OTHERWISE, TRIED, WEIGHTS, is_ours, most_pictures
from results.pages.photos import CHOICES, LOSSES, PHOTOS
from results.pages.scenes import CLEVR_SCENES, TEXTURED_SCENES, harmless, longest
from results.pages.trials import epochs, is_trial


@dataclass(frozen=True)
class _Set:
    """A test set of the paper: its name, pictures and clusters."""

    name: str
    pictures: int
    clusters: int
    size: int
    splits: tuple[str, ...] = ("test",)
    generated: bool = False
    """Only pictures that we generate count: the benchmark's own fill no cell."""
    original: bool = False
    """Only the benchmark's own pictures count: ours are of another kind (`scenes`)."""

    def named(self, data: str) -> bool:
        """Whether a record's data is this set's test part."""
        return data.lower().replace("_", "-").removesuffix("-test") == self.name


# Tables 9, 10 and 11.
TETROMINOES = _Set("tetrominoes", 320, 4, 32, generated=True)
DSPRITES = _Set("dsprites", 320, 7, 64, generated=True)
CLEVR = _Set("clevr", 320, 11, 128)
SHAPES = _Set("shapes", 1000, 5, 40, generated=True)
_SHAPES_TRAINED = 40_000  # pictures of an epoch
CLEVRTEX = _Set("clevrtex", 5000, 11, 128, original=True)
OOD = _Set("clevrtex-ood", 10_000, 11, 128, original=True)
CAMO = _Set("clevrtex-camo", 2000, 11, 128, original=True)
VOC = _Set("voc", 1449, 4, 256, ("test", "valid"))  # both are their val: the test masks are not public
COCO = _Set("coco", 5000, 7, 256, ("test", "valid"))


def _match(recipe: str, data: _Set, steps: int, uptile: int, weights: str | None = None) -> Callable[[Record], bool]:
    """Evaluations by the paper's protocol, with the recipe's weights or with `weights`, "average" or "last"."""
    free = (*(() if data.generated else ("data.path",)), *(() if weights is None else ("train.weights",)))

    def fits(record: Record) -> bool:
        config, training = record["config"], record.get("extra", {}).get("training") or {}
        pictures = config.get("pictures")
        return (
            (record["kind"], record["name"]) == ("eval", recipe)
            and data.named(str(config.get("data")))
            and config.get("split", "test") in data.splits
            and (not data.generated or config.get("source", "generated") == "generated")
            and not (data.original and is_ours(config))
            and isinstance(pictures, int)
            and pictures >= data.pictures
            and config.get("size") in (data.size, None)  # None: as in the data
            and (config.get("clusters"), config.get("method")) == (data.clusters, "average")
            and config.get("components", 128) == 128
            and config.get("fit", "crop") != "stretch"
            and config.get("input") in (data.size, None)
            and not OTHERWISE & set(config)
            and (config.get("uptile"), config.get("bilinear", 1)) == (uptile, 1)
            and config.get("steps") in (steps, None)  # None: as in training
            and weights in (training.get("weights", "average"), None)  # at first there were no others
            and not is_trial(record, *free, *(harmless(record) if data is CLEVR else ()))
        )

    return fits


_Pair = tuple[str, str]
"""FG-ARI and MBO (or MBO_i and MBO_c) in the paper."""


def _cells(
    recipe: str,
    data: _Set,
    paper: _Pair,
    steps: int = 8,
    uptile: int = 1,
    metrics: _Pair = ("fg_ari", "mbo"),
    weights: str | None = None,
) -> tuple[Cell, ...]:
    match = _match(recipe, data, steps, uptile, weights)
    each = zip(metrics, paper, strict=True)
    prefer = longest if data is CLEVR else most_pictures
    return tuple(Cell(metric, match, value, prefer, corrected) for metric, value in each)


def _synth(label: str, kind: str, uptile: int, *papers: _Pair) -> Row:
    sets = (TETROMINOES, DSPRITES, CLEVR)
    pairs = zip(sets, papers, strict=True)
    return Row(label, sum((_cells(f"{data.name}_{kind}", data, paper, 8, uptile) for data, paper in pairs), ()))


def _behind(records: Sequence[Record]) -> str:
    """What is behind our figures of `SYNTH`: numbers of test pictures, and standard errors where records have them."""
    cells = [cell for row in SYNTH.rows for cell in row.cells]
    found = [(record, cell.metric) for cell in cells for record in chosen(records, cell)]
    pictures = sorted({int(most_pictures(record)) for record, _ in found})
    errors = [record["metrics"].get(f"{metric}_error") for record, metric in found]
    known = [error for error in errors if is_number(error)]
    numbers = " to ".join(f"{number:,}" for number in sorted({pictures[0], pictures[-1]}))
    text = f"{numbers} test pictures"
    if known and len(known) == len(errors):
        text += f", with standard errors of {min(known):.1f} to {max(known):.1f}"
    return text


_HEADINGS = ("FG-ARI", "MBO")
_MOST = "Of several records of one seed, the one with the most pictures counts."

SYNTH = Table(
    "Tetrominoes, dSprites, CLEVR",
    tuple(f"{data} {metric}" for data in ("Tetrominoes", "dSprites", "CLEVR") for metric in _HEADINGS),
    (
        _synth(
            "ItrConv", "itrconv", 1,
            ("59.0 ± 2.9", "51.6 ± 2.2"), ("29.1 ± 6.2", "38.5 ± 5.2"), ("49.3 ± 5.1", "29.7 ± 3.0"),
        ),
        _synth(
            "AKOrN, convolution", "akorn_conv", 1,
            ("76.4 ± 0.8", "51.9 ± 1.5"), ("63.8 ± 7.7", "50.7 ± 4.7"), ("59.0 ± 4.3", "44.4 ± 2.0"),
        ),
        _synth(
            "ItrSA", "itrsa", 1,
            ("85.8 ± 0.8", "54.9 ± 3.4"), ("68.1 ± 1.4", "63.0 ± 1.2"), ("82.5 ± 1.7", "39.4 ± 1.9"),
        ),
        _synth(
            "AKOrN, attention", "akorn", 1,
            ("88.6 ± 1.7", "56.4 ± 0.9"), ("78.3 ± 1.3", "63.0 ± 1.8"), ("91.0 ± 0.5", "45.5 ± 1.4"),
        ),
        _synth(
            "AKOrN, attention, up-tiling ×4", "akorn", 4,
            ("93.1 ± 0.3", "56.3 ± 0.0"), ("87.1 ± 1.0", "60.2 ± 1.9"), ("94.6 ± 0.7", "44.7 ± 0.7"),
        ),
        *quoted.rows(quoted.SYNTH),
    ),
    note=lambda records: "In percent, as in the paper's Table 14; ours on"
    f" {_behind(records)}, the paper's on 320. Our Tetrominoes, dSprites and CLEVR are our own sets. {_MOST}"
    f" “{CLEVR_SCENES.title}” says for how many epochs CLEVR's models were trained. The weights are those of the"
    " recipes, the moving average; with its last weights ItrSA has a better FG-ARI on Tetrominoes (see"
    f" “{WEIGHTS.title}”).",
    marked=MARKED,
)  # fmt: skip


def _shapes(label: str, recipe: str, fg_ari: str, mbo: str, steps: int = 4, weights: str | None = None) -> Row:
    match = _match(recipe, SHAPES, steps, 1, weights)
    trained = Cell(partial(epochs, pictures=_SHAPES_TRAINED), match, "100", most_pictures, corrected)
    return Row(label, (*_cells(recipe, SHAPES, (fg_ari, mbo), steps, weights=weights), trained))


_BLOCKS = (
    ("ItrSA, L = 1", "shapes_itrsa_l1", "48.9 ± 1.0", "38.8 ± 1.3"),
    ("ItrSA, L = 2", "shapes_itrsa_l2", "49.3 ± 2.5", "37.2 ± 2.1"),
    ("ItrSA, L = 3", "shapes_itrsa_l3", "57.0 ± 5.5", "34.8 ± 4.6"),
    ("AKOrN, attention, L = 1", "shapes_akorn_l1", "52.5 ± 4.8", "40.2 ± 2.1"),
    ("AKOrN, attention, L = 2", "shapes_akorn_l2", "65.5 ± 2.0", "44.6 ± 1.2"),
    ("AKOrN, attention, L = 3", "shapes_akorn_l3", "71.3 ± 4.2", "46.9 ± 1.4"),
)


SHAPES_TABLE = Table(
    "Shapes",
    (*_HEADINGS, "epochs"),
    (
        _shapes("ItrConv", "shapes_itrconv", "21.0 ± 0.8", "18.7 ± 0.5"),
        _shapes("AKOrN, convolution", "shapes_akorn_conv", "46.6 ± 2.1", "30.0 ± 0.6"),
        *(_shapes(*row) for row in _BLOCKS),
        _shapes("ViT, 8 blocks, about as many parameters as L = 3", "shapes_vit", "–", "–", steps=1),
        *(
            _shapes(f"AKOrN, attention, L = 1, T = 8, N = {n}", f"shapes_akorn_n{n}", "–", "–", steps=8)
            for n in (2, 4, 8, 16)
        ),
    ),
    note="In percent, as in the paper's Tables 15 and 16. T = 4 unless a row says otherwise. For N the"
    " paper has a plot without numbers (Figure 15). The size of the convolutions' kernel is not published; ours is 7."
    " The weights are those of the recipes: the last ones where L = 3, the moving average elsewhere; the next table has"
    f" both. {_MOST}",
    marked=MARKED,
)

SHAPES_WEIGHTS = Table(
    "Shapes by either kind of weights",
    SHAPES_TABLE.headings,
    tuple(
        _shapes(f"{label}: {words}", recipe, fg_ari, mbo, weights=which)
        for label, recipe, fg_ari, mbo in _BLOCKS
        for words, which in (("the average", "average"), ("the last weights", "last"))
    ),
    note="The same models as above, each with the moving average of its weights and with the last ones: to compare"
    " numbers of blocks, compare rows of one kind. Before the corrections the decay of the average was constant from"
    f" the start, so that after 50 epochs it still had 22 % of the first weights in it. {_MOST}",
    marked=MARKED,
)


def _clevrtex(label: str, recipe: str, papers: tuple[_Pair, ...], steps: int = 8, uptile: int = 1) -> Row:
    none = ("–", "–")
    padded = (*papers, *[none] * (3 - len(papers)))
    pairs = zip((CLEVRTEX, OOD, CAMO), padded, strict=True)
    return Row(label, sum((_cells(recipe, data, paper, steps, uptile) for data, paper in pairs), ()))


CLEVRTEX_TABLE = Table(
    "CLEVRTex, OOD, CAMO",
    tuple(f"{data} {metric}" for data in ("CLEVRTex", "OOD", "CAMO") for metric in _HEADINGS),
    (
        _clevrtex(
            "ViT, 8 blocks, about as many parameters as L = 2", "clevrtex_vit",
            (("46.4 ± 0.6", "25.1 ± 0.7"), ("44.1 ± 0.5", "27.2 ± 0.5"), ("32.5 ± 0.6", "16.1 ± 1.1")), steps=1,
        ),
        _clevrtex(
            "ViT, 8 blocks of 256 channels", "clevrtex_vit_wide",
            (("46.4 ± 0.6", "25.1 ± 0.7"), ("44.1 ± 0.5", "27.2 ± 0.5"), ("32.5 ± 0.6", "16.1 ± 1.1")), steps=1,
        ),
        _clevrtex(
            "ItrSA, L = 1", "clevrtex_itrsa_l1",
            (("65.7 ± 0.3", "44.6 ± 0.9"), ("64.6 ± 0.8", "45.1 ± 0.4"), ("49.0 ± 0.7", "30.2 ± 0.8")),
        ),
        _clevrtex(
            "ItrSA, L = 2", "clevrtex_itrsa_l2",
            (("76.3 ± 0.4", "48.5 ± 0.1"), ("74.9 ± 0.8", "46.4 ± 0.5"), ("61.9 ± 1.3", "37.1 ± 0.5")),
        ),
        _clevrtex(
            "AKOrN, L = 1", "clevrtex_akorn_l1",
            (("75.6 ± 0.2", "55.0 ± 0.0"), ("73.4 ± 0.4", "56.1 ± 1.1"), ("59.9 ± 0.1", "44.3 ± 0.9")),
        ),
        _clevrtex(
            "AKOrN, L = 2", "clevrtex_akorn_l2",
            (("80.5 ± 1.5", "54.9 ± 0.6"), ("79.2 ± 1.2", "55.7 ± 0.5"), ("67.7 ± 1.5", "46.2 ± 0.9")),
        ),
        _clevrtex(
            "AKOrN, L = 2, up-tiling ×4", "clevrtex_akorn_l2",
            (("87.7 ± 1.0", "55.3 ± 2.1"), ("85.2 ± 0.9", "55.6 ± 1.5"), ("74.5 ± 1.2", "45.6 ± 3.4")), uptile=4,
        ),
        _clevrtex(
            "large AKOrN, L = 2, up-tiling ×4", "clevrtex_akorn_large",
            (("88.5 ± 0.9", "59.7 ± 0.9"), ("87.7 ± 0.3", "60.8 ± 0.6"), ("77.0 ± 0.5", "53.4 ± 0.7")), uptile=4,
        ),
        _clevrtex("AKOrN, L = 2, N = 2", "clevrtex_akorn_n2", (("44.6 ± 2.5", "28.0 ± 1.0"),)),
        _clevrtex("AKOrN, L = 2, without Proj", "clevrtex_akorn_no_proj", (("79.0 ± 2.5", "56.2 ± 1.0"),)),
        _clevrtex("residual update, L = 2", "clevrtex_akorn_residual", (("66.2 ± 1.6", "51.4 ± 0.1"),)),
        _clevrtex("AKOrN, L = 1, absolute positions", "clevrtex_akorn_ape", (("72.0", "51.4"),)),
        _clevrtex("AKOrN, L = 1, rotary positions", "clevrtex_akorn_rope", (("65.7", "50.2"),)),
        _clevrtex("ItrSA, L = 1, GTA positions", "clevrtex_itrsa_gta", (("66.1", "43.4"),)),
        *quoted.rows(quoted.CLEVRTEX),
    ),
    note=f"In percent, as in the paper's Tables 5, 6, 7, 13 and 17. {_MOST}",
    marked=MARKED,
    always=True,
)  # fmt: skip


def _natural(label: str, uptile: int, voc: _Pair, coco: _Pair) -> Row:
    pairs = ((VOC, voc), (COCO, coco))
    each = (_cells("imagenet_akorn", data, paper, 4, uptile, ("mbo_i", "mbo_c")) for data, paper in pairs)
    return Row(label, sum(each, ()))


NATURAL = Table(
    "Natural pictures",
    ("PascalVOC MBO_i", "PascalVOC MBO_c", "COCO MBO_i", "COCO MBO_c"),
    (
        _natural("AKOrN, pre-trained on ImageNet", 1, ("50.3", "58.2"), ("30.2", "38.2")),
        _natural("AKOrN, pre-trained on ImageNet, up-tiling ×4", 4, ("52.0", "60.3"), ("31.3", "40.3")),
        *quoted.rows(quoted.NATURAL),
    ),
    note=f"In percent, as in the paper's Table 18. {_MOST}",
    marked=MARKED,
    always=True,
)

TABLES = (
    SYNTH, SHAPES_TABLE, SHAPES_WEIGHTS, CLEVR_SCENES, TEXTURED_SCENES, CLEVRTEX_TABLE, NATURAL,
    PHOTOS, LOSSES, CHOICES, WEIGHTS, UPTILING, NUMBERS, TRIED,
)  # fmt: skip

TITLE = "Object discovery: all tables"
INTRO = """\
A model is trained on pictures without labels, and its features are clustered into objects. **FG-ARI**, the adjusted
Rand index on the foreground, says how reliably pixels of one object end up in the same cluster, with the background
left out; 0 is chance. **MBO**, mean best overlap, is the overlap (intersection over union) of each true object with the
cluster that fits it best. On natural pictures MBO_i is for instances and MBO_c for classes. **L** is the number of
blocks, **N** the dimension of an oscillator. **Up-tiling ×4** clusters finer features, made from shifted copies of the
picture. **ItrSA** and **ItrConv** are the same networks with iterated self-attention or convolution instead of the
oscillators. We generate Tetrominoes, dSprites and Shapes from the benchmarks' descriptions; they stand in for the
originals."""
DATA = (
    "Tetrominoes, dSprites, Shapes, CLEVR and textured scenes are generated: a name after `--data` is enough. For"
    " photographs, [docs/photos.md](../docs/photos.md) says how packs (`packs`, `voc-….pack`) are made; other names are"
    " those of folders in Pascal VOC's or COCO's layout."
)
"""Where the data in this page's commands comes from."""
