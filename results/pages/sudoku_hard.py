"""Sudoku's tables about hard boards. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table, matches
from akorn.runtime.nested import flatten
from results.pages.sudoku_votes import OOD

LIMIT, ON_CPU = "64x2048", "64x256"  # of `akorn solve` on a GPU and on a CPU
FORUM, HARDEST, MAGICTOUR = ("forum-valid", 500), ("hardest-1106", 375), ("magictour", 1408)
_SETS = {
    "forum hardest, 500 boards of rating 11+": FORUM,
    "forum hardest 1106, 375 boards": HARDEST,
    "magictour, 1,408 boards": MAGICTOUR,
    "our OOD, 18,000 boards": OOD,
}
HALFWAY = "`sudoku` halfway"
_WEIGHTS = {
    "sudoku": "20aa0766f29f64d18d69ffded2962da5d38f65f764b5603c1b3ba0141d7caabb",
    HALFWAY: "d6908845f994fa9a0b3705a82ff0673e0a5da56f1305edccc58a5eac3f508a87",
    "sudoku-base": "634c90932eeac497f400bf4268bfde6878daa02a9637903caf1535e26cb149d7",
}
"""The digests of the weights: on the pages, records have the name of the recipe."""


def _is(model: str, record: Record) -> bool:
    """Whether a record is of these weights."""
    training = (record.get("extra") or {}).get("training") or {}
    return bool(training.get("weights_sha256") == _WEIGHTS[model])


def _named(model: str) -> str:
    return model if "`" in model else f"`{model}`"


def _solved(
    model: str, data: tuple[str, int], effort: str | None, symmetries: bool = False, draw: int = 0
) -> Callable[[Record], bool]:
    """Evaluations of a shipped model, with adaptive effort up to a limit or at T = 64 from one start.

    `draw` is the seed of the starts and of their symmetries.
    """
    wanted: dict[str, object] = {"kind": "eval", "config.data": data[0], "config.boards": data[1]}
    if effort is None:
        wanted |= {"config.steps": 64, "config.votes": 1}
    else:
        wanted |= {"config.effort": effort, "config.stop": "confidence"}

    def match(record: Record) -> bool:
        config = record["config"]  # older records name no symmetries: there were none
        same = config.get("effort") == effort and config.get("symmetries", False) == symmetries
        drawn = config.get("start_seed", 0) == draw
        return matches(record, wanted) and same and drawn and _is(model, record)

    return match


_ONCE = (("T = 64, one start", "board_accuracy", None, False, 0),)
_PLAIN = (
    ("adaptive effort, at most 64 starts and T = 2,048", "board_accuracy", LIMIT, False, 0),
    ("the same: sample-steps per board", "sample_steps_per_board", LIMIT, False, 0),
)
_TURNED = (
    ("the same effort, later starts under symmetries", "board_accuracy", LIMIT, True, 0),
    ("the same, a second draw of starts and symmetries", "board_accuracy", LIMIT, True, 1),
    ("the same, a third draw", "board_accuracy", LIMIT, True, 2),
    ("under symmetries: sample-steps per board", "sample_steps_per_board", LIMIT, True, 0),
    ("at most 64 starts and T = 256, under symmetries", "board_accuracy", ON_CPU, True, 0),
    ("at most T = 256: sample-steps per board", "sample_steps_per_board", ON_CPU, True, 0),
)
_SCORED = {"sudoku": _ONCE + _PLAIN + _TURNED, HALFWAY: _ONCE + _PLAIN, "sudoku-base": _ONCE}
"""How each model is scored: label, metric, limit of the effort, symmetries, and the draw of the starts."""

HARD = Table(
    "Hard boards",
    tuple(_SETS),
    tuple(
        Row(
            f"{_named(model)}, {label}",
            tuple(Cell(metric, _solved(model, data, effort, symmetries, draw)) for data in _SETS.values()),
        )
        for model, scored in _SCORED.items()
        for label, metric, effort, symmetries, draw in scored
    ),
    note="Board accuracy in percent. A board gets no more effort once the confidence of an answer is high enough; the"
    " solution and the rules of Sudoku are not used. Under symmetries every start but the first sees the board with its"
    " digits renamed, its lines permuted, or transposed. A sample-step is one step of one start. People have collected"
    " these boards as hard ones, and none was in training; they are not Sudoku-Extreme. `sudoku` has 4.0 million"
    " parameters and was trained in two parts on one H200, one seed: 10,705 steps (halfway, about eight minutes), and"
    " 7,700 steps (346 s) from those weights, with up to 24 segments instead of 16 and a rate that fell from 1.2e-3."
    " The end of the second part ships, since it was best on held-out boards of the forum (58.6 % at T = 128 from one"
    " start); it solves fewer of the 1106 boards than the weights halfway do. `sudoku-base` is the solver that shipped"
    " before. Some of the boards share their solution with a board of the training files: see below.",
    digits=2,
)

FAMOUS = ("famous", 8)


def _solved_of(record: Record) -> str | None:
    accuracy, boards = record["metrics"].get("board_accuracy"), record["config"].get("boards")
    return None if accuracy is None or boards is None else f"{round(accuracy * boards / 100)} of {boards}"


WELL_KNOWN = Table(
    "Eight boards that are well known as hard",
    ("solved", "sample-steps per board", "seconds for all eight"),
    tuple(
        Row(
            f"`sudoku`, {draw} draw of starts and symmetries",
            tuple(
                Cell(metric, _solved("sudoku", FAMOUS, LIMIT, True, number))
                for metric in (_solved_of, "sample_steps_per_board", "seconds")
            ),
        )
        for number, draw in enumerate(("first", "second", "third"))
    ),
    note="AI Escargot, Easter Monster, Golden Nugget, Platinum Blonde, Fata Morgana, Cheese, and two boards that Arto"
    " Inkala published in 2010 and 2012, with at most 64 starts and T = 2,048 on one H200 that had other work too. None"
    " of the files for training has a board with the same solution, up to symmetry. AI Escargot and Easter Monster are"
    " not solved, and the solver says that it is not sure of its answers to them.",
)

NODES = ("1", "2-10", "11-30", "31-100", "101-300", "301-1000", "1001+")
"""The groups of boards by search nodes."""


def by_nodes(record: Record) -> Mapping[str, Mapping[str, float]]:
    """For each group of boards by search nodes, the accuracy in percent and the number of boards."""
    found: Mapping[str, Mapping[str, float]] = (record.get("extra") or {}).get("by_nodes") or {}
    return found


def _group(name: str) -> Callable[[Record], str | None]:
    """The accuracy on a group, and of how many boards."""

    def value(record: Record) -> str | None:
        found = by_nodes(record).get(name)
        return None if found is None else f"{found['accuracy']:.1f} of {int(found['boards']):,}"

    return value


def with_effort(data: tuple[str, int]) -> Callable[[Record], bool]:
    """The shipped solver with the most effort, its later starts under symmetries."""
    return _solved("sudoku", data, LIMIT, symmetries=True)


BY_NODES = Table(
    "By difficulty: the search nodes of the exact solver",
    tuple(_SETS),
    tuple(
        Row(
            f"`sudoku`, {name.replace('-', '–')} node{'' if name == '1' else 's'}",
            tuple(Cell(_group(name), with_effort(data)) for data in _SETS.values()),
        )
        for name in NODES
    ),
    note="With adaptive effort, at most 64 starts and T = 2,048, later starts under symmetries; board accuracy in"
    " percent, and the number of boards in the group. A node is the board itself or a guess, with everything that"
    " follows from it by singles and locked candidates; the search also proves that there is no other solution.",
)


_SHARED: dict[str, object] = {"kind": "bench", "name": "shared-solutions"}

SHARED = Table(
    "Boards whose solution is in a file for training",
    tuple(_SETS),
    tuple(
        Row(label, tuple(Cell(f"{test}_in_{file}", _SHARED) for test, _ in _SETS.values()))
        for label, file in (("the forum's boards", "forum-train"), ("boards with 17 givens", "pool-17-clue"))
    ),
    note="How many boards have the same solution as some board of the two files that the training boards of `sudoku`"
    " came from, up to a symmetry of Sudoku. The puzzles are others. `sudoku-base` was trained on the boards with 17"
    " givens, `sudoku-paper` on neither.",
    digits=0,
)

_TRIAL: dict[str, object] = {
    "optimiser.name": "adamw",
    "optimiser.learning_rate": 5e-4,
    "batch_size": 512,
    "carry.segments": [1, 8],
    "task.model.steps": 16,
    "task.model.expansion": 2,
    "task.noise": None,
    "task.loss": None,
}
"""The settings of all trials, except for what each changed; None for a setting that the record leaves out."""


def _tried(changed: Mapping[str, object] | None = None) -> Callable[[Record], bool]:
    """Short trainings of `sudoku_hard` with these settings, scored on the held-out boards."""
    wanted = _TRIAL | dict(changed or {})

    def match(record: Record) -> bool:
        if record["kind"] != "train" or record["name"] != "sudoku_hard" or record["wall_time"] > _SHORT:
            return False
        settings = flatten(record["config"])
        alike = all(settings.get(name) == value for name, value in wanted.items())
        return alike and record["overrides"].get("valid.path") == "forum-held.csv"

    return match


def _steps(record: Record) -> float | None:
    return (record.get("extra") or {}).get("steps")


def _seconds(record: Record) -> float | None:
    return record.get("wall_time")


_SHORT = 100.0  # seconds; the trainings of the shipped weights took longer

HARD_TRIED = Table(
    "What was tried on hard boards",
    ("board accuracy", "training steps", "seconds"),
    tuple(
        Row(
            label,
            (
                Cell("board_accuracy", match),
                Cell(_steps, match),
                Cell(_seconds, match),
            ),
        )
        for label, match in (
            ("an MLP behind the attention, AdamW at 5e-4, batches of 512, 16 steps a segment, 1–8 segments", _tried()),
            ("the same without the MLP", _tried({"task.model.expansion": None})),
            ("at the rate 1e-3", _tried({"optimiser.learning_rate": 1e-3})),
            ("with batches of 256", _tried({"batch_size": 256})),
            ("with 8 steps a segment, 1–16 segments", _tried({"task.model.steps": 8, "carry.segments": [1, 16]})),
            ("with noise of 0.1 on the states", _tried({"task.noise": 0.1})),
            ("with the loss on the blanks alone", _tried({"task.loss": "blanks"})),
            (
                "with Muon at the rate 2e-3",
                _tried({"optimiser.name": "muon", "optimiser.learning_rate": 2e-3}),
            ),
        )
    ),
    note="Each training took less than a minute on one H200, with one seed, from the weights of `sudoku-base`, with"
    " states carried over; scored on 1,000 boards held out of the forum's (T = 128, one start, a standard error of"
    " about 1.2 points). Each row except the first changes one thing. Only Muon is clearly better; the MLP learns as"
    " much in 1,200 steps as the model without it in 2,100. The shipped model has both. Not tried: two or three blocks,"
    " more channels, curricula over search nodes, and a step size γ that is learned or falls in tests.",
)


_COMPARED: dict[str, tuple[str, str | None]] = {
    "AKOrN": ("sudoku_hard", None),
    "AKOrN without Ω": ("sudoku_hard", "model.omega"),
    "AKOrN without Proj": ("sudoku_hard", "without-projection"),
    "AKOrN without Proj and Π": ("sudoku_hard", "residual"),
    "ItrSA with an MLP in every step": ("sudoku_hard_itrsa", None),
}
"""The rows of `benchmarks/hard_boards.py compare`: the recipe, and which rule or switch it overrides."""
_ALIKE = {"data.path": "mixed.csv", "data.revealed": 0.5, "train.steps": 2500}


def _compared(row: str, data: str | None = None) -> Callable[[Record], bool]:
    """Trainings of the comparison, or the votes on some boards by the models that they made."""
    recipe, changed = _COMPARED[row]

    def match(record: Record) -> bool:
        if record["name"] != recipe or record["kind"] != ("train" if data is None else "eval"):
            return False
        overrides = record["overrides"] if data is None else record["extra"]["training"]["overrides"]
        if any(overrides.get(name) != value for name, value in _ALIKE.items()):
            return False
        if overrides.get("model.rule", "model.omega" if "model.omega" in overrides else None) != changed:
            return False
        wanted = {"config.data": data, "config.steps": 256, "config.votes": 64}
        return data is None or matches(record, wanted)

    return match


HARD_COMPARED = Table(
    "Which parts earn their place on hard boards",
    (
        "held out, T = 128, one start",
        "held out, T = 256, vote of 64",
        "forum-valid, T = 256, one start",
        "forum-valid, T = 256, vote of 64",
        "training steps",
        "seconds",
    ),
    tuple(
        Row(
            row,
            (
                Cell("board_accuracy", _compared(row)),
                Cell("confidence", _compared(row, "held-out")),
                Cell("first", _compared(row, "forum-valid")),
                Cell("confidence", _compared(row, "forum-valid")),
                Cell(_steps, _compared(row)),
                Cell(_seconds, _compared(row)),
            ),
        )
        for row in _COMPARED
    ),
    note="Board accuracy in percent, one seed, on one H200. All are trained from scratch by the recipe of the shipped"
    " solver with the same boards in the same order: Muon at 2e-3, batches of 512, states carried over, and half of the"
    " boards with digits revealed. AKOrN has 4.0 million parameters, ItrSA 3.7. These trainings are short, so the"
    " figures rank the parts rather than say what each can reach; the rate was chosen with AKOrN, and ItrSA might want"
    " another. Held out are 1,000 boards of the forum, forum-valid are 500 others of its hardest. The vote takes the"
    " most confident answer of 64. Without Proj and Π the loss was no number at step 50, so that row has no figures."
    " The times without Proj were measured before the fused kernels knew that rule.",
)
