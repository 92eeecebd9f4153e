"""Sudoku's tables: the paper's rows, and which records fill them. Torch-free."""

from __future__ import annotations

from collections.abc import Callable

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table, matches
from results.pages import quoted
from results.pages.corrections import MARKED, corrected
from results.pages.sudoku_hard import BY_NODES, HARD, HARD_COMPARED, HARD_TRIED, SHARED, WELL_KNOWN
from results.pages.sudoku_votes import CONFIDENT, ID, OOD, OVER_VOTES, VOTES
from results.pages.trials import is_trial

TORCH, COARSE, SPLIT = "torch", "coarse", "split"
ATTENTION = {"8eab241": TORCH, "4ab1a02": TORCH, "36a98d6": TORCH, "52bcf87": COARSE, "834e632": COARSE}
"""How attention multiplied at commits of early records: as torch does, or fused in TF32 (10 bits); later in 16."""


def _attention(record: Record) -> str:
    return ATTENTION.get(str((record.get("commit") or {}).get("id"))[:7], SPLIT)


def gone(record: Record) -> bool:
    """Whether a record's attention multiplied in a way that no longer is."""
    return _attention(record) == COARSE


REPEATED = {"c10b3a0e": ("cb5e07d5", 0), "4cbb7732": ("fa35f14d", 2)}
"""Weights, by the first digits of their digests, of trainings that repeat an earlier one with the same seed: that
training's weights, and the seed. They were made for the votes of 1,000 starts and count only there."""


def _weights(record: Record) -> str:
    return str((record["extra"].get("training") or {}).get("weights_sha256"))[:8]


def _cell(name: str, data: tuple[str, int], paper: str, *, metric: str = "board_accuracy", **config: object) -> Cell:
    wanted = {"kind": "eval", "name": name, "config.data": data[0], "config.boards": data[1]}
    wanted |= {f"config.{key}": value for key, value in config.items()}

    def match(record: Record) -> bool:
        """The paper's rows run all samples to the end, with models trained as the recipe says."""
        if not matches(record, wanted) or _attention(record) == COARSE:
            return False
        trial = is_trial(record, "data.path", *(("train.steps",) if name == "sudoku_best" else ()))
        whole = record["config"].get("early_exit") is None and record["config"].get("effort") is None
        repeated = _weights(record) in REPEATED and record["config"]["votes"] < 1000
        return whole and not trial and not repeated

    return Cell(metric, match, paper, prime=corrected)


def _row(label: str, name: str, ids: str, ood: str, *, metric: str = "board_accuracy", **config: object) -> Row:
    cells = (_cell(name, ID, ids, metric=metric, **config), _cell(name, OOD, ood, metric=metric, **config))
    return Row(label, cells)


PAPER = Table(
    "The paper's protocol",
    ("ID, 1,000 boards", "OOD, 18,000 boards"),
    (
        _row("AKOrN, T = 16", "sudoku_akorn", "99.8 ± 0.1", "16.6 ± 2.1", steps=16, votes=1),
        _row("AKOrN, T = 128", "sudoku_akorn", "100.0 ± 0.0", "51.7 ± 3.3", steps=128, votes=1),
        _row(
            "AKOrN, T = 128, energy vote of 100, sum over steps",
            "sudoku_akorn", "100.0 ± 0.0", "81.6 ± 1.5", metric="sum", steps=128, votes=100,
        ),
        _row(
            "AKOrN, T = 128, energy vote of 100, last energy",
            "sudoku_akorn", "100.0 ± 0.0", "74.0 ± 5.6", metric="last", steps=128, votes=100,
        ),
        _row(
            "AKOrN, T = 128, majority vote of 100",
            "sudoku_akorn", "–", "–", metric="majority", steps=128, votes=100,
        ),
        _row("ItrSA, T = 16", "sudoku_itrsa", "99.7 ± 0.3", "14.1 ± 2.7", steps=16, votes=1),
        _row("ItrSA, T = 32", "sudoku_itrsa", "95.7 ± 8.5", "34.4 ± 5.4", steps=32, votes=1),
        _row("ItrSA with GTA positions, T = 16", "sudoku_itrsa_gta", "–", "–", steps=16, votes=1),
        _row("ItrSA with GTA positions, T = 32", "sudoku_itrsa_gta", "–", "24.3 ± 7.8", steps=32, votes=1),
        _row("Transformer, 8 blocks", "sudoku_transformer", "98.6 ± 0.3", "5.2 ± 0.2", steps=1, votes=1),
        _row("AKOrN without Ω, T = 16", "sudoku_akorn_no_omega", "99.8 ± 0.1", "16.6 ± 2.2", steps=16, votes=1),
        _row("AKOrN without Ω, T = 128", "sudoku_akorn_no_omega", "100.0 ± 0.0", "49.6 ± 3.3", steps=128, votes=1),
        _row("AKOrN symmetrised, T = 16", "sudoku_akorn_symmetric", "84.6 ± 14.2", "1.4 ± 1.7", steps=16, votes=1),
        _row("Energy Transformer, T = 16", "sudoku_energy_transformer", "1.0 ± 1.0", "0.0 ± 0.0", steps=16, votes=1),
        _row("AKOrN with absolute positions, T = 128", "sudoku_akorn_ape", "–", "48.1 ± 9.1", steps=128, votes=1),
        _row("AKOrN with rotary positions, T = 128", "sudoku_akorn_rope", "–", "48.4 ± 5.6", steps=128, votes=1),
        _row("AKOrN without Proj, T = 128", "sudoku_akorn_no_proj", "99.9 ± 0.0", "45.0 ± 1.9", steps=128, votes=1),
        _row("residual update, T = 128", "sudoku_akorn_residual", "59.8 ± 54.6", "17.1 ± 16.6", steps=128, votes=1),
        _row("AKOrN with N = 2, T = 128", "sudoku_akorn_n2", "0.3 ± 0.4", "0.0 ± 0.0", steps=128, votes=1),
        _row("AKOrN with N = 8, T = 128", "sudoku_akorn_n8", "–", "–", steps=128, votes=1),
        _row("AKOrN with N = 16, T = 128", "sudoku_akorn_n16", "–", "–", steps=128, votes=1),
        *quoted.rows(quoted.SUDOKU),
    ),
    note="Board accuracy in percent. Our models are trained on 9,000 boards with 31–42 givens. Without Ω the step is"
    " γ/(1 + γ), as in the published model; N′ of the readout follows N. Other methods' figures are quoted from the"
    " paper's Tables 3 and 19, on the paper's boards.",
    marked=MARKED,
)  # fmt: skip

LARGE = Table(
    "Larger votes, on a sample of 1,000 OOD boards",
    ("OOD, 1,000 boards evenly spread",),
    tuple(
        Row(
            f"AKOrN, T = {steps}, energy vote of {votes:,}",
            (_cell("sudoku_akorn", ("test-ood", 1000), "89.5 ± 2.5", metric="sum", steps=steps, votes=votes),),
        )
        for steps, votes in ((512, 1000), (128, 4096))
    ),
    note="On 1,000 of our 18,000 OOD boards; the number of seeds is in brackets. The paper gives the same 89.5 for"
    " T = 512 with 1,000 starts and for T = 128 with 4,096.",
    marked=MARKED,
)

WITHOUT_OMEGA = Table(
    "Votes without natural frequencies, on a sample of 1,800 OOD boards",
    ("ID, 1,000 boards", "OOD, 1,800 boards evenly spread"),
    tuple(
        Row(
            f"AKOrN without Ω, T = 128, {label}",
            tuple(
                _cell("sudoku_akorn_no_omega", data, paper, metric=metric, steps=128, votes=100)
                for data, paper in ((ID, ids), (("test-ood", 1800), ood))
            ),
        )
        for label, metric, ids, ood in (
            ("one start, the mean of 100", "single", "100.0 ± 0.0", "49.6 ± 3.3"),
            ("energy vote of 100, last energy", "last", "100.0 ± 0.0", "46.8 ± 9.0"),
            ("energy vote of 100, sum over steps", "sum", "–", "–"),
            ("confidence vote of 100", "confidence", "–", "–"),
        )
    ),
    note="How much the energy tells differs greatly from seed to seed: its vote helps one training a lot and harms two."
    " Confidence was recorded for seed 2 alone.",
)


def _same_weights(digest: str, seed: int, data: tuple[str, int], steps: int) -> Callable[[Record], bool]:
    """One start of these weights."""
    wanted = {"kind": "eval", "seed": seed, "config.data": data[0], "config.boards": data[1], "config.steps": steps}
    return lambda record: matches(record, wanted | {"config.votes": 1}) and _weights(record) == digest


AGAIN = Table(
    "The same seed, trained twice",
    ("ID, T = 16", "ID, T = 128", "OOD, T = 16", "OOD, T = 128"),
    tuple(
        Row(
            f"seed {seed}, {label} training",
            tuple(
                Cell("board_accuracy", _same_weights(digest, seed, data, steps))
                for data in (ID, OOD)
                for steps in (16, 128)
            ),
        )
        for again, (first, seed) in REPEATED.items()
        for label, digest in (("the first", first), ("the second", again))
    ),
    note="AKOrN by the paper's protocol, one start, in percent. The second trainings were for the votes of 1,000"
    " starts; no other table counts them. Recipe, boards, their order and the initial weights are the same, but on a"
    " GPU the order in which numbers are added is not always, unless one asks for it (`--train.deterministic`). These"
    " tiny differences grow, and the same seed may give a model that differs as much as another seed's.",
)

BEST = Table(
    "The first solver that shipped",
    ("ID, 1,000 boards", "OOD, 18,000 boards"),
    (
        _row("`sudoku-base`, T = 64, 1 vote", "sudoku_best", "–", "–", steps=64, votes=1),
        _row("`sudoku-base`, T = 64, 8 votes", "sudoku_best", "–", "–", steps=64, votes=8),
        _row("`sudoku-base`, T = 128, 16 votes", "sudoku_best", "100.0", "89.5 ± 2.5", steps=128, votes=16),
    ),
    note="This model is trained beyond the paper's protocol: on harder boards, with symmetries, over a range of T. The"
    " paper's figures beside it are those of its largest vote.",
    marked=MARKED,
)


def _trained(seeds: tuple[int, ...], attention: str = TORCH, **settings: object) -> Callable[[Record], bool]:
    """Votes on the validation boards by models trained with these settings; the recipe: 1e-3, tf32, average."""
    recipe = {"learning_rate": 1e-3, "precision": "tf32", "weights": "average"}
    places = {"learning_rate": "optimiser.learning_rate"}
    vote = {
        "kind": "eval",
        "name": "sudoku_akorn",
        "config.data": "valid-ood",
        "config.steps": 128,
        "config.votes": 100,
    }

    def match(record: Record) -> bool:
        overrides = (record.get("extra", {}).get("training") or {}).get("overrides", {})
        alike = all(
            overrides.get(f"train.{places.get(name, name)}", value) == settings.get(name, value)
            for name, value in recipe.items()
        )
        return alike and record["seed"] in seeds and _attention(record) == attention and matches(record, vote)

    return match


TRIED = Table(
    "Which learning rate, precision and weights reproduce the paper",
    ("one start", "vote of 100, sum over steps"),
    tuple(
        Row(label, tuple(Cell(metric, match) for metric in ("single", "sum")))
        for label, match in (
            ("the recipe: 1e-3, TF32, average of the weights, fused attention", _trained((0, 1, 2), SPLIT)),
            ("the same with torch's attention", _trained((0, 1, 2))),
            ("torch's attention, seed 2 alone", _trained((2,))),
            ("float32, torch's attention, seed 2", _trained((2,), precision="float32")),
            ("5e-4 as in the paper's table of settings, torch's attention, seed 2", _trained((2,), learning_rate=5e-4)),
            ("fused attention in TF32 (a trial)", _trained((0, 1, 2), COARSE)),
            ("the same, the last weights, seed 0", _trained((0,), COARSE, weights="last")),
        )
    ),
    note="AKOrN at T = 128 on the 1,800 validation boards of valid-ood. At the lower learning rate single answers are"
    " as good, but the energy no longer tells right answers from wrong ones. Fused attention multiplies with 16 bits of"
    " mantissa; in the trial with TF32's 10 bits the vote suffered.",
)


TABLES = (
    PAPER,
    LARGE,
    CONFIDENT,
    AGAIN,
    WITHOUT_OMEGA,
    OVER_VOTES,
    VOTES,
    BEST,
    HARD,
    WELL_KNOWN,
    BY_NODES,
    SHARED,
    HARD_COMPARED,
    HARD_TRIED,
    TRIED,
)

TITLE = "Sudoku: all tables"
INTRO = """\
A model fills the blanks of a board; **board accuracy** counts the boards on which every blank is right. **T** is the
number of Kuramoto steps, chosen at test time. A **start** is one random draw of the oscillators' initial states. An
**energy vote of K** answers from K starts and keeps the answer with the lowest energy, summed over the steps unless a
row says that the last energy counts. **ID** boards have as many givens (31–42) as the training boards, **OOD** boards
fewer (17–34).

The paper's files are not available, so the boards are **rebuilt**. The training and ID boards are a subset of
Kaggle's one million boards, with digits revealed until they have as many givens as SATNet's. The OOD boards are made
from Gordon Royle's list of puzzles with 17 givens by RRN's recipe: digits renamed, and squares revealed, 1,000 boards
for each number of givens. Boards of `akorn data make sudoku` are harder than the ID boards."""

DATA = (
    "Boards are in CSV files, here by the names that the records have. `train.csv` (9,000 boards with 31–42 givens),"
    " `test-id`, `test-ood` and `valid-ood` are the rebuilt boards that the top of this page describes; boards of"
    " `akorn data make sudoku` give other figures. [docs/sudoku.md](../docs/sudoku.md) says how hard boards were"
    " mixed."
)
"""Where the data in this page's commands comes from."""
