"""RESULTS.md and the pages of tables: what the records say, in words that the figures support."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from akorn.errors import AkornError
from akorn.ledger import Cell, Row, Table, read_records
from akorn.ledger.overview import MARK
from akorn.ledger.tables import anchor

render = pytest.importorskip("results.pages.render", reason="the repository's folder results/ is not here")
claims = pytest.importorskip("results.pages.claims")
figures = pytest.importorskip("results.pages.figures")

ROOT = Path(__file__).parents[2]
RECORDS = read_records(ROOT / "results")
PAGES: dict[str, str] = render.pages(RECORDS)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_what_the_records_say(name: str) -> None:
    """`python -m results.pages` rewrites it."""
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]


def test_evaluations_of_shipped_weights_fill_the_cells_of_their_recipe() -> None:
    """They have the weights' own name; the first ones had the recipe's."""
    renamed = [
        {**found, "name": "renamed"} if (found.get("extra") or {}).get("training") else found for found in RECORDS
    ]
    assert sum(found["name"] == "renamed" for found in renamed) > 50
    assert render.pages(renamed) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    headings = {anchor(line.lstrip("# ")) for line in PAGES[name].splitlines() if line.startswith("#")}
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[name]):
        if target.startswith("#"):
            assert target[1:] in headings
        else:
            file, _, heading = target.partition("#")
            assert (ROOT / name).parent.joinpath(file).exists(), target
            page = PAGES.get(f"results/{file}", "")
            assert not heading or any(anchor(line.lstrip("# ")) == heading for line in page.splitlines()), target


@pytest.mark.parametrize("name", PAGES)
def test_headings_make_the_same_link_everywhere(name: str) -> None:
    """GitHub and MkDocs agree only on plain letters."""
    for line in PAGES[name].splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"#+ [A-Za-z0-9 ,.:;'?/-]+", line), line
            assert "--" not in anchor(line.lstrip("# "))


def test_what_stands_in_every_page() -> None:
    for name, text in PAGES.items():
        assert "python -m results.pages" in text
        assert MARK not in text  # so that `akorn results` does not take it for a page of its own
        assert text.count("\n# ") == 0
        assert text.startswith("# ")
        unused = [found["file"] for found in RECORDS if found["file"].startswith("train-")]
        assert not any(file in text for file in unused), f"{name} lists records that no figure rests on"
    results = PAGES["RESULTS.md"]
    for word in ("FG-ARI (the adjusted", "MBO (mean best", "ECE, the expected", "T is the number", "A start is"):
        assert word in results
    top = results.split("## Robustness")[1].split("###")[0]
    assert "In our reproduction" in top.split(".")[0]


def test_every_claim_has_its_line_and_its_section() -> None:
    results = PAGES["RESULTS.md"]
    for section in claims.SECTIONS:
        assert f"\n## {section.title}\n" in results
        for claim in section.claims:
            assert results.count(f"### {claim.claim}\n") == 1
            assert (f"[{claim.claim}]" in results) != section.ours


def test_no_figure_is_typed_into_a_claim() -> None:
    """Numbers with a decimal point in the words are looked up; settings such as a learning rate have none."""
    for section in claims.SECTIONS:
        said = [each for claim in section.claims for each in claim.alternatives()]
        assert all(each.claim == claim.claim for claim in section.claims for each in claim.alternatives())
        for words in (section.words, *(claim.words + claim.ours + claim.paper for claim in said)):
            assert not re.search(r"\d\.\d", words), words


# A claim of our own, on a table of one row.


def record(seed: int, **metrics: float) -> dict[str, Any]:
    return {
        "kind": "eval",
        "name": "m",
        "seed": seed,
        "metrics": metrics,
        "config": {},
        "date": "2030",
        "file": f"{seed}.json",
    }


TABLE = Table("t", ("a", "b"), (Row("r", (Cell("a", {}, "50.0 ± 2.0"), Cell("b", {}, "1,000"))),))


def figure(heading: str = "a", row: str = "r") -> Any:
    return figures.Figure("the figure", TABLE, row, heading)


def claim(**changes: Any) -> Any:
    one = figures.Claim(
        "It works", figures.Verdict.CONFIRMED, "Ours is {a}, theirs {a.paper}.", {"a": figure()},
        lambda of: of["a"].mean > 40, "{a.paper} %", "{a} %",
    )  # fmt: skip
    return replace(one, **changes)


def page(*records: dict[str, Any], **changes: Any) -> str:
    section = figures.Section("Task", "What it is.", "results/task.md", (claim(**changes),))
    return str(render.claims_page(records, [section]))


def test_a_claim_shows_its_figures_seeds_and_records() -> None:
    text = page(record(1, a=48.0), record(0, a=44.0))
    assert "## The claims: 1 confirmed, 0 refuted, 0 open\n" in text
    assert "| [It works](#it-works) | **confirmed** | 50.0 ± 2.0 % | 46.0 ± 2.8 % | 2 | data" in text
    assert "**Confirmed.** Ours is 46.0 ± 2.8, theirs 50.0 ± 2.0." in text
    data = "data that the record does not name †"
    assert f"| the figure | 50.0 ± 2.0 | 46.0 ± 2.8 | 2 | {data} | [0](results/0.json) [1](results/1.json) |" in text
    assert text.endswith("All tables: [results/task.md](results/task.md).\n")


def test_a_verdict_that_the_figures_do_not_support_is_not_rendered() -> None:
    with pytest.raises(AkornError, match=r"'It works' is no longer confirmed by its figures: the figure 39\.0"):
        page(record(0, a=39.0))


def test_a_figure_that_is_missing_is_not_passed_over() -> None:
    for records in ([], [record(0, b=1.0)], [record(0, a=float("nan"))]):
        with pytest.raises(AkornError, match="'the figure' has no figure"):
            page(*records)
    for wrong in (figure("c"), figure(row="s")):
        with pytest.raises(AkornError, match="has no cell"):
            page(record(0, a=48.0), figures={"a": wrong})


def test_an_open_claim_is_judged_anew_when_its_figure_comes() -> None:
    waiting = {"verdict": figures.Verdict.OPEN, "awaited": {"b": figure("b")}}
    text = page(record(0, a=48.0), **waiting, words="Theirs is {b.paper}.")
    assert "**Open.** Theirs is 1,000." in text
    assert "| the figure | 1,000 | – | – | – | – |" in text
    with pytest.raises(AkornError, match="open for want of 'the figure', which now has a record"):
        page(record(0, a=48.0, b=1.0), **waiting)


def test_a_claim_says_what_its_figures_support() -> None:
    """Of several outcomes the first that holds; the last if a figure is missing."""
    waiting = figures.Claim("It works", figures.Verdict.OPEN, "Not yet: {b}.", partly={"a": figure(), "b": figure("b")})
    weak = figures.Claim(
        "It works", figures.Verdict.REFUTED, "It does not.", {"a": figure()}, lambda of: of["a"].mean < 20,
        otherwise=waiting,
    )  # fmt: skip
    for found, words in (
        ([record(0, a=48.0)], "**Confirmed.** Ours is 48.0"),
        ([record(0, a=10.0)], "**Refuted.** It does not."),
        ([record(0, a=30.0)], "**Open.** Not yet: –."),
        ([record(0, b=7.0)], "**Open.** Not yet: 7.0."),
        ([], "**Open.** Not yet: –."),
    ):
        assert words in page(*found, otherwise=weak)
    with pytest.raises(AkornError, match="has no cell"):  # a mistyped row is no missing figure
        page(record(0, a=48.0), figures={"a": figure(row="s")}, otherwise=weak)


@pytest.mark.parametrize(("ours", "paper", "reached"), [
    (48.0, "50.0 ± 2.0", True), (47.9, "50.0 ± 2.0", False), (50.0, "50.0", True), (999.0, "1,000", False),
])  # fmt: skip
def test_reaching_the_paper_is_within_its_deviation(ours: float, paper: str, reached: bool) -> None:
    assert figures.Found("", ours, paper, ()).reaches_the_paper == reached


@pytest.mark.slow
def test_the_command_checks_and_needs_no_torch() -> None:
    check = [sys.executable, "-m", "results.pages", "--check"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    code = "import sys, results.pages.render; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.slow
def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    """On a copy of the folder: a page that was edited, then a record that is missing."""
    code = "import sys, results.pages.render as r, pathlib; here = pathlib.Path(sys.argv[1]);"
    code += "r.ROOT = r.RECORDS = here; sys.argv = ['pages', *sys.argv[2:]]; import results.pages.__main__"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, str(tmp_path), *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    for found in RECORDS:
        (tmp_path / found["file"]).symlink_to(ROOT / "results" / found["file"])
    for folder in ("results", "docs"):
        (tmp_path / folder).mkdir()
    assert run("--check").returncode == 1  # there is no page at all
    assert run().stdout.count("wrote") == len(PAGES)
    (tmp_path / "RESULTS.md").write_text("edited")
    told = run("--check")
    assert (told.returncode, told.stderr) == (1, "RESULTS.md is not what the records say\n")
    assert (tmp_path / "RESULTS.md").read_text() == "edited"
    behind = next(
        found for found in RECORDS if found["name"] == "cifar10_akorn_conv" and "autoattack" in found["metrics"]
    )
    (tmp_path / behind["file"]).unlink()
    told = run()
    assert told.returncode == 2
    assert told.stderr.startswith("results.pages: ")
    assert told.stderr.count("\n") == 1
    assert (tmp_path / "RESULTS.md").read_text() == "edited"


def test_every_table_is_on_a_page() -> None:
    shown = {id(table) for page in render._TABLES.values() for table in page.TABLES}
    pages = importlib.import_module("results.pages")
    modules = [importlib.import_module(f"results.pages.{each.name}") for each in pkgutil.iter_modules(pages.__path__)
               if not each.name.startswith("__")]  # fmt: skip
    tables = {f"{module.__name__}.{name}": value for module in modules for name, value in vars(module).items()
              if isinstance(value, Table)}  # fmt: skip
    assert len(tables) > 20
    public = {name: table for name, table in tables.items() if "._" not in name}  # others are looked into by words
    assert [name for name, table in public.items() if id(table) not in shown] == []
