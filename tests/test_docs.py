"""The code in README and docs runs, and what they link to exists."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(page, text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S))
]

WITH_CODE = sorted({page for page, _ in (block.values for block in BLOCKS)})
SLOW = ("models.md", "simulator.md", "calibration.md", "export.md", "layer.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else []) for page in WITH_CODE],
)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for where, text in (block.values for block in BLOCKS):
        if where == page:
            exec(compile(text, str(page), "exec"), names)


def test_the_readme_has_a_layer_in_a_network() -> None:
    code = "\n".join(text for page, text in (block.values for block in BLOCKS) if page.name == "README.md")
    assert "KuramotoLayer(" in code
    assert ".backward()" in code
    assert "Solver.from_pretrained()" in code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"(?:\]\(|src=\")([^)#\"]+)[)#\"]", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_states_the_figures_of_results() -> None:
    """Each figure of ours is a cell of RESULTS.md or of the pages of tables behind it."""
    pages = [TOP / "RESULTS.md", *(TOP / "results").glob("*.md")]
    rows = [row for page in pages for row in page.read_text(encoding="utf-8").splitlines()]
    cells = {re.sub(r" \(\d+\)$", "", cell.strip()) for row in rows for cell in row.split("|")}
    table = (TOP / "README.md").read_text(encoding="utf-8").split("## The paper's figures and ours")[1]
    ours = [row.split("|")[3] for row in table.splitlines() if row.startswith("|")][2:]
    assert len(ours) >= 8
    for figure in (part.strip() for row in ours for part in row.split("/")):
        assert figure in cells, f"{figure} is in no table of the results"


def test_the_readme_states_figures_of_results_in_its_prose_too() -> None:
    pages = [TOP / "RESULTS.md", *(TOP / "results").glob("*.md")]
    results = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    prose = [line for line in (TOP / "README.md").read_text(encoding="utf-8").splitlines() if not line.startswith("|")]
    figures = re.findall(r"\b(\d+\.\d)\b(?= (?:%|ms|/))", "\n".join(prose))
    assert len(figures) >= 5
    for figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", results), f"{figure} is in no page of the results"
