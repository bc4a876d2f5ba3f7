"""The answer in about fifteen lines of a terminal.

Builds rich's ``Text`` and ``Table`` only, never markup strings: foreign text cannot become markup.
"""

from __future__ import annotations

import io

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headcount.analysis.conclusions import Verdict
from headcount.prices import Prices
from headcount.records import RunFacts
from headcount.report import Report, conditions, cost, outline
from headcount.report.format import clean, sparkline
from headcount.report.outline import Warned
from headcount.report.rows import Row, level_rows, near_limit
from headcount.report.words import Words, words_for

__all__ = ["render", "write"]

_MOST_ROWS = 5
_MOST_BARS = 30
_MOST_CAUTIONS = 3
_STYLES = {"holds": "green", "fails": "red", "undecided": "yellow", "void": "dim"}


def write(report: Report) -> str:
    """The report as plain text, without colour."""
    text = io.StringIO()
    console = Console(file=text, width=report.width, color_system=None, legacy_windows=False)
    shown = render(report.verdict, report.facts, width=report.width, language=report.language, prices=report.prices)
    console.print(shown)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def render(
    verdict: Verdict, facts: RunFacts, *, width: int = 100, language: str = "en", prices: Prices | None = None
) -> RenderableType:
    """What ``headcount find`` prints at its end."""
    _ = words_for(facts.verb, language)
    parts: list[RenderableType] = [_headline(verdict, facts, _), _answer(verdict, facts, prices, _)]
    parts += _conditions(verdict, _)
    if rows := level_rows(verdict):
        shown = near_limit(rows, verdict.limit_users, _MOST_ROWS * max(1, len(verdict.conditions)))
        parts += [Text(), _levels(shown, width, _)]
        if len(shown) > 2 and not verdict.conditions:
            parts.append(_shape(near_limit(rows, verdict.limit_users, _MOST_BARS), _))
        if not verdict.conditions and (feelings := outline.feelings(rows, _)):
            parts.append(Text(feelings, "dim"))
        hidden = len(rows) - len(shown)
        many = _("{n} more levels in the report").format(n=hidden) if hidden else None
        more = _("1 more level in the report") if hidden == 1 else many
        if notes := " · ".join(filter(None, [outline.footnote(shown, _), more])):
            parts.append(Text(notes, style="dim"))
    if verdict.cautions:
        parts += [Text(), _cautions(outline.caution_groups(verdict), _)]
    if verdict.advice:
        parts += [Text(), _list([(Text("→ "), Text(clean(_(text), 400))) for text in verdict.advice])]
    return Group(*parts)


def _headline(verdict: Verdict, facts: RunFacts, _: Words) -> Text:
    line = Text()
    for mark in outline.marks(verdict, facts, _):
        line.append(f"{mark} · ", style="magenta")
    return line.append(clean(_(verdict.sentence), 600), style="bold")


def _answer(verdict: Verdict, facts: RunFacts, prices: Prices | None, _: Words) -> Table:
    lines = [*outline.answer_lines(verdict, facts, _, clean, brief=True), *cost.answer_lines(verdict, prices, _)]
    return _list([(Text(f"{name}  ", "dim"), Text(value)) for name, value in lines])


def _conditions(verdict: Verdict, _: Words) -> list[RenderableType]:
    """Findings, and the limit of each condition where one was looked for."""
    parts: list[RenderableType] = []
    if found := conditions.findings(verdict, _):
        parts += [Text(), _list([(Text("· "), Text(text)) for text in found])]
    if rows := conditions.rows(verdict, _):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
        for heading in conditions.headings(verdict, _):
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        parts += [Text(), table]
    return parts


def _levels(rows: list[Row], width: int, _: Words) -> Table:
    """Numbers stand to the right; headings break over two lines where columns are dear."""
    gap = (0, 1, 0, 0) if width >= 90 else 0
    table = Table(box=box.SIMPLE_HEAD, padding=gap, pad_edge=False, show_edge=False)
    *left, last = outline.headings(rows, _, feeling=False)
    for heading in left:
        table.add_column("\n".join(heading.split(" ", 1)) if width < 110 else heading, justify="right", no_wrap=True)
    table.add_column(last, overflow="fold")
    with_condition = any(row.condition for row in rows)
    for row in rows:
        *numbers, decision = outline.cells(row, with_condition, _, lambda text: clean(text, 20), feeling=False)
        table.add_row(*map(Text, numbers), Text(decision, style=_STYLES[row.decision]))
    return table


def _shape(rows: list[Row], _: Words) -> Text:
    """How latency and throughput go over all levels, at a glance."""
    latency = _("answer") if all(row.whole for row in rows) else _("TTFT")
    p95 = sparkline([row.latency_s.p95 for row in rows])
    throughput = sparkline([row.throughput_tokens_per_s for row in rows])
    who = f"{rows[0].users}–{rows[-1].users}"
    return Text(f"{latency} p95 {p95}   {_('tokens/s')} {throughput}   ({_('people')} {who})", "dim")


def _cautions(cautions: list[Warned], _: Words) -> RenderableType:
    """What voids a level or concerns the answer in full, the worst first; what stands far from it is counted."""
    shown = [one for one in cautions if one.near][:_MOST_CAUTIONS]
    parts: list[RenderableType] = [_list([_caution(one, _) for one in shown])] if shown else []
    if hidden := len(cautions) - len(shown):
        many = _("… and {n} more cautions in the report").format(n=hidden)
        more = _("… and 1 more caution in the report") if hidden == 1 else many
        parts.append(Text(f"  {more}", style="dim"))
    return Group(*parts)


def _caution(one: Warned, _: Words) -> tuple[Text, Text]:
    mark = Text("✗ ", "red") if one.caution.fatal else Text("! ", "yellow")
    remedy = f" – {clean(_(one.caution.remedy))}" if one.caution.remedy else ""
    return mark, Text(_headed(one, _)).append(remedy, "dim")


def _headed(one: Warned, _: Words) -> str:
    where = outline.warned_at(one, _)
    return f"{where}: {clean(_(one.caution.sentence))}" if where else clean(_(one.caution.sentence))


def _list(lines: list[tuple[Text, Text]]) -> Table:
    """Marks or names to the left, texts that wrap beside them."""
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for mark, text in lines:
        grid.add_row(mark, text)
    return grid
