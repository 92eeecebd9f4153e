"""The documentation's site: every public name has its place in the reference, and links still work on the site.

`mkdocs build --strict`, which `.ci/run` calls, finds what is wrong with the pages themselves.
"""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[1]
REFERENCE = TOP / "docs" / "reference"
DIRECTIVES = {
    name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)
}
MODULES = (
    "akorn",
    "akorn.augment",
    "akorn.baselines",
    "akorn.engine",
    "akorn.execution",
    "akorn.export",
    "akorn.hub",
    "akorn.kernels",
    "akorn.ledger",
    "akorn.lyapunov",
    "akorn.models",
    "akorn.nn",
    "akorn.objects",
    "akorn.oscillators",
    "akorn.robustness",
    "akorn.scenes",
    "akorn.simulate",
    "akorn.sudoku",
    "akorn.theory",
)


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", TOP / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert names
    pages = {name for name in names if name in MODULES and (REFERENCE / f"{name.removeprefix('akorn.')}.md").is_file()}
    assert not names - DIRECTIVES - pages


def test_every_package_that_akorn_exports_is_asked() -> None:
    akorn = importlib.import_module("akorn")
    assert {name for name in akorn.__all__ if isinstance(getattr(akorn, name), ModuleType)} <= {
        name.removeprefix("akorn.") for name in MODULES
    }


@pytest.mark.parametrize("name", sorted(DIRECTIVES))
def test_the_reference_names_nothing_that_is_gone(name: str) -> None:
    """What `akorn.a.b.c` names can be imported, as a reader would."""
    first, *rest = name.split(".")
    found = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        ("docs/objects.md", "[x](../results/objects.md)", "[x](results/objects.md)"),
        ("docs/objects.md", "[x](objects-examples.md#shapes)", "[x](objects-examples.md#shapes)"),
        ("docs/sudoku.md", "[x](../src/akorn/weights/sudoku-base/README.md)", "[x](cards/sudoku-base.md)"),
        ("docs/robustness.md", "[x](../src/akorn/theory.py)", "[x](files/src/akorn/theory.py)"),
        ("docs/tutorials/layer.md", "[x](../../RESULTS.md#speed)", "[x](../results/index.md#speed)"),
        ("RESULTS.md", "[x](docs/robustness.md)", "[x](../robustness.md)"),
        ("docs/layers.md", "B, [speed.md](speed.md#errors)", "B, [Where the time goes](speed.md#errors)"),
        ("docs/web.md", "[x](../src/akorn/web/static/index.html)", "[x](play/index.html)"),
        ("RESULTS.md", "[x](results/trials.toml)", "[x](../files/results/trials.toml)"),
        ("results/speed.md", "[x](../RESULTS.md) [y](#here)", "[x](index.md) [y](#here)"),
        ("CHANGELOG.md", "[x](docs/models.md) ![y](docs/images/waves.png)", "[x](models.md) ![y](images/waves.png)"),
        ("docs/index.md", "[x](https://example.org/a.md) [y](gone.md)", "[x](https://example.org/a.md) [y](gone.md)"),
    ],
)
def test_links_lead_to_the_place_in_the_site(source: str, before: str, after: str) -> None:
    assert hooks().relinked(before, source) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("New\n- one\n  more\n- two\n", "New\n\n- one\n  more\n- two\n"),
        ("New\n\n- one\n- two\n", "New\n\n- one\n- two\n"),
        ("```\nx\n- y\n```\n", "```\nx\n- y\n```\n"),
    ],
)
def test_a_list_behind_a_paragraph_is_a_list(before: str, after: str) -> None:
    assert hooks().lists_apart(before) == after


def test_every_page_of_the_results_and_every_card_is_in_the_site() -> None:
    wanted = [TOP / "RESULTS.md", TOP / "CHANGELOG.md", TOP / "CONTRIBUTING.md", *(TOP / "results").glob("*.md")]
    wanted += (TOP / "src" / "akorn" / "weights").glob("*/README.md")
    menu = (TOP / "mkdocs.yml").read_text("utf-8")
    for page in wanted:
        place = hooks().PAGES[page.relative_to(TOP).as_posix()]
        assert re.search(rf"[-:] {re.escape(place)}$", menu, re.M), f"{place} is not in the menu of mkdocs.yml"


def test_the_home_page_states_the_figures_of_results() -> None:
    """Each figure of its table is in a cell of RESULTS.md, ours and the paper's."""
    cells = {
        cell.strip().removesuffix(" %")
        for row in (TOP / "RESULTS.md").read_text("utf-8").splitlines()
        for cell in row.split("|")
    }
    home = (TOP / "docs" / "index.md").read_text("utf-8").split("## What we found")[1]
    rows = [row.split("|")[2:4] for row in home.splitlines() if row.startswith("|")][2:]
    assert len(rows) >= 6
    for figure in (cell.strip().removesuffix(" %").removesuffix(" ms") for row in rows for cell in row):
        assert figure in cells, f"{figure} is in no table of RESULTS.md"
