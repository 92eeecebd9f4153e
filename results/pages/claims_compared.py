"""Claims that compare models with each other: blocks, and AKOrN with ItrSA. Torch-free.

Their records arrive one by one, so each claim says in advance what every outcome would mean: the first alternative that
the figures support is the one on the page.
"""

from __future__ import annotations

from collections.abc import Mapping

from akorn.ledger.tables import Table
from results.pages import objects, objects_own
from results.pages.figures import Claim, Figure, Found, Verdict, judge

CONFIRMED, REFUTED, OPEN = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.OPEN


def _object(what: str, row: str, heading: str, table: Table = objects.SYNTH) -> Figure:
    return Figure(what, table, row, heading)


def _shape(what: str, row: str, heading: str = "FG-ARI") -> Figure:
    return Figure(what, objects.SHAPES_TABLE, row, heading)


def _blocks() -> Claim:
    claim = "More blocks separate objects better"
    row = "AKOrN, attention, L = "
    figures = {
        word: _shape(f"Shapes, L = {count}, FG-ARI", f"{row}{count}")
        for word, count in (("one", 1), ("two", 2), ("three", 3))
    }
    figures["mbo"] = _shape("Shapes, L = 3, MBO", f"{row}3", "MBO")
    figures["epochs"] = _shape("Shapes, L = 3, epochs of training", f"{row}3", "epochs")
    paper, ours = "FG-ARI on Shapes {one.paper}, {two.paper}, {three.paper}", "{one}, {two}, {three}"

    def rises(of: Mapping[str, Found]) -> bool:
        return of["one"].mean < of["two"].mean < of["three"].mean

    words = "FG-ARI on Shapes rises with the number of blocks L"
    return judge(
        claim, figures, paper, ours,
        Claim(claim, OPEN, "In our figures FG-ARI on Shapes does not rise with every further block.", figures,
              paper=paper, ours=ours),
        (CONFIRMED, f"{words}.", lambda of: rises(of) and of["epochs"].mean >= 100),
        (CONFIRMED, f"{words}; the model with L = 3 was trained for {{epochs}} of the paper's {{epochs.paper}} epochs.",
         rises),
    )  # fmt: skip


BLOCKS = _blocks()


def _lead(of: Mapping[str, Found]) -> list[float]:
    """By how much AKOrN's FG-ARI is ahead of ItrSA's better weights, on each set."""
    return [
        of["tetro"].mean - max(of["tetro_sa"].mean, of["last"].mean),
        of["sprites"].mean - of["sprites_sa"].mean,
        of["shapes"].mean - of["shapes_sa"].mean,
    ]


def _all_mended(of: Mapping[str, Found]) -> bool:
    """Whether both models were trained after the mends, on every set."""
    return all(each.mended for each in of.values())


def _ahead() -> Claim:
    claim = "AKOrN separates objects better than iterated self-attention"
    attention = "AKOrN, attention"
    figures = {
        "tetro": _object("Tetrominoes, AKOrN, FG-ARI", attention, "Tetrominoes FG-ARI"),
        "tetro_sa": _object("Tetrominoes, ItrSA, FG-ARI", "ItrSA", "Tetrominoes FG-ARI"),
        "last": _object("Tetrominoes, ItrSA, last weights, FG-ARI", "Tetrominoes, ItrSA: the last weights",
                        "FG-ARI, test", objects_own.WEIGHTS),
        "sprites": _object("dSprites, AKOrN, FG-ARI", attention, "dSprites FG-ARI"),
        "sprites_sa": _object("dSprites, ItrSA, FG-ARI", "ItrSA", "dSprites FG-ARI"),
        "mbo": _object("dSprites, AKOrN, MBO", attention, "dSprites MBO"),
        "mbo_sa": _object("dSprites, ItrSA, MBO", "ItrSA", "dSprites MBO"),
        "shapes": _shape("Shapes, AKOrN, L = 3, FG-ARI", f"{attention}, L = 3"),
        "shapes_sa": _shape("Shapes, ItrSA, L = 3, FG-ARI", "ItrSA, L = 3"),
        "epochs_sa": _shape("Shapes, ItrSA, L = 3, epochs of training", "ItrSA, L = 3", "epochs"),
    }  # fmt: skip
    paper = "FG-ARI on dSprites {sprites.paper} against {sprites_sa.paper}"
    ours = "{sprites} against {sprites_sa}"
    itrsa = (
        "ItrSA is the same network with iterated self-attention in place of the Kuramoto steps. On Tetrominoes its last"
        " weights have an FG-ARI of {last}, and the moving average, which counts here, one of {tetro_sa}."
    )
    return judge(
        claim, figures, paper, ours,
        Claim(
            claim, OPEN, f"{itrsa} Not all of these models were trained after the mends, and AKOrN's FG-ARI is not"
            " higher on all three sets.", figures, paper=paper, ours=ours,
        ),
        (CONFIRMED, f"{itrsa} AKOrN's FG-ARI is higher on all three sets, even than that of ItrSA's better weights.",
         lambda of: _all_mended(of) and min(_lead(of)) > 1),
        (REFUTED, f"{itrsa} On none of the three sets is AKOrN's FG-ARI higher.",
         lambda of: _all_mended(of) and max(_lead(of)) < 0),
        (OPEN, f"{itrsa} AKOrN's FG-ARI is not clearly higher on all three sets.", _all_mended),
        (OPEN, f"{itrsa} Our figures point the paper's way, but do not settle it: the ItrSA of a figure with † lacks"
         " the final LayerNorm that the published one has.",
         lambda of: min(_lead(of)) > 0),
    )  # fmt: skip


AHEAD = _ahead()
