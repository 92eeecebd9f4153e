"""The pages themselves: RESULTS.md from the claims, and one page of tables for each task. Torch-free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from akorn.ledger import read_records, recipe_of, render
from akorn.ledger.records import Record
from akorn.ledger.tables import anchor, markdown
from results.pages import commands, objects, robustness, sceptic, speed, sudoku
from results.pages.claims import INTRO, SECTIONS
from results.pages.corrections import WORDS, earlier
from results.pages.figures import Claim, Figure, Found, Section, Verdict, look
from results.pages.standing import stands_on

RECORDS = Path(__file__).parents[1]
ROOT = RECORDS.parent

_TABLES: dict[str, ModuleType] = {
    "results/sudoku.md": sudoku,
    "results/objects.md": objects,
    "results/robustness.md": robustness,
    "results/speed.md": speed,
}
_HOW = (
    "This page is rendered from the records in this folder by `python -m results.pages`, and never edited by hand."
    " [RESULTS.md](../RESULTS.md) says what the figures mean for the paper's claims.\n\n"
    "“Ours” is the mean ± the sample standard deviation over seeds, with the number of seeds in brackets. Of several"
    " records of one seed the newest counts, unless the note of a table says otherwise. – means no figure. Rows of"
    " other methods are quoted from the paper: we have not run them.\n\n" + WORDS
)


def pages(records: Sequence[Record] | None = None) -> dict[str, str]:
    """Return every page by its path from the root of the repository. records: by default those of this folder."""
    found = read_records(RECORDS) if records is None else records
    found = [
        {**record, "name": recipe_of(record)} for record in found
    ]  # tables ask for recipes, also of shipped weights
    tables = {path: _tables_page(found, module) for path, module in _TABLES.items()}
    return {"RESULTS.md": claims_page(found, SECTIONS), **tables, sceptic.PAGE: sceptic.page(found)}


def _tables_page(records: Sequence[Record], module: ModuleType) -> str:
    """A page of tables, with the commands behind its figures where the module says what data they need."""
    tables, intro = [*module.TABLES, *earlier(records, module.TABLES)], f"{module.INTRO}\n\n{_HOW}"
    data = getattr(module, "DATA", None)
    if data is None:
        return render(records, tables, module.TITLE, intro)
    intro += f"\n\n**Commands.** [{commands.TITLE}](#{anchor(commands.TITLE)}) names the recipe behind each row."
    return render(records, tables, module.TITLE, intro) + commands.section(records, module.TABLES, data)


def claims_page(records: Sequence[Record], sections: Sequence[Section]) -> str:
    """Return RESULTS.md; AkornError where a claim's figures are missing or no longer support its verdict."""
    checked = [[claim.judged(records) for claim in section.claims] for section in sections]
    pairs = list(zip(sections, checked, strict=True))
    verdicts = Counter(claim.verdict for section, each in pairs if not section.ours for claim, _ in each)
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict)
    summary = [_in_short(claim, found) for section, each in pairs if not section.ours for claim, found in each]
    lines = ["# Results", "", INTRO, "", f"## The claims: {counts}", ""]
    lines += markdown(["claim", "verdict", "paper", "ours", "seeds", "ours is on"], summary)
    for section, each in pairs:
        behind = {name: look(records, figure) for name, figure in section.figures.items()}
        lines += ["", f"## {section.title}", "", section.words.format(**behind)]
        for claim, found in each:
            lines += _claim(claim, found)
        lines += ["", f"All tables: [{section.page}]({section.page})."]
    return "\n".join(lines) + "\n"


def _in_short(claim: Claim, found: Mapping[str, Found]) -> list[str]:
    """A claim's line of the summary; its seeds and its data are those of the figures shown there."""
    figures = claim.all_figures
    shown = {name: each for name, each in found.items() if f"{{{name}}}" in claim.ours and each.records}
    counts = sorted({len(each.records) for each in shown.values()})
    seeds = "–" if not counts else " to ".join(str(count) for count in sorted({counts[0], counts[-1]}))
    data = "; ".join(dict.fromkeys(stands_on(each.records, figures[name].cell.metric) for name, each in shown.items()))
    link = f"[{claim.claim}](#{anchor(claim.claim)})"
    return [link, f"**{claim.verdict}**", claim.paper.format(**found), claim.ours.format(**found), seeds, data or "–"]


def _claim(claim: Claim, found: Mapping[str, Found]) -> list[str]:
    """A claim with its verdict, its words and, where there are any, its figures."""
    lines = ["", f"### {claim.claim}", "", f"**{str(claim.verdict).capitalize()}.** {claim.words.format(**found)}"]
    if found:
        figures = claim.all_figures
        rows = [_figure(figures[name], each) for name, each in found.items()]
        beside = next(iter(figures.values())).table.beside
        lines += ["", *markdown(["", beside, "ours", "seeds", "on", "records"], rows)]
    return lines


def _figure(figure: Figure, found: Found) -> list[str]:
    behind = sorted(found.records, key=lambda record: int(record["seed"]))
    links = " ".join(f"[{record['seed']}](results/{record['file']})" for record in behind)
    data = stands_on(behind, figure.cell.metric)
    return [figure.what, found.paper, found.text, str(len(behind) or "–"), data, links or "–"]
