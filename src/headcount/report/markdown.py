"""The answer fit for an issue or a forum post: GitHub-flavoured Markdown, every foreign text escaped."""

from __future__ import annotations

import re

from headcount.report import Report, conditions, cost, observed, outline
from headcount.report.format import clean
from headcount.report.outline import Warned
from headcount.report.rows import Row, level_rows
from headcount.report.words import Words, words_for

__all__ = ["escape", "write"]


def escape(text: str) -> str:
    r"""A foreign text that shows as it is: no link, image, tag, heading, mention or table cell can come of it.

    >>> print(escape("[x](http://y) <b>|a_b"))
    \[x\](http\://y) \<b\>\|a\_b
    """
    escaped = re.sub(r"([\\`*_\[\]|<>~&$#])", r"\\\1", clean(text, 600))
    escaped = escaped.replace("://", r"\://").replace("www.", r"www\.").replace("@", "&#64;")
    return re.sub(r"^(\d+)([.)])(?=\s|$)|^([-+=])", r"\1\\\2\3", escaped)


def write(report: Report) -> str:
    """The report as Markdown."""
    verdict, facts, _ = report.verdict, report.facts, words_for(report.facts.verb, report.language)
    headline = " · ".join([*outline.marks(verdict, facts, _), escape(_(verdict.sentence))])
    lines = [f"## {headline}", ""]
    answer = [*outline.answer_lines(verdict, facts, _, escape), *cost.answer_lines(verdict, report.prices, _)]
    lines += [f"- **{name}:** {value}" for name, value in answer]
    if found := conditions.findings(verdict, _):
        lines += ["", *(f"- {escape(text)}" for text in found)]
    if limits := conditions.rows(verdict, _):
        table = [conditions.headings(verdict, _), ["---"] * len(limits[0]), *([*map(escape, row)] for row in limits)]
        lines += ["", *(f"| {' | '.join(line)} |" for line in table)]
    if rows := level_rows(verdict):
        lines += ["", *_table(rows, _)]
        if note := outline.footnote(rows, _):
            lines += ["", note]
    if said := observed.observations(verdict, facts, _):
        lines += ["", f"### {_('What the machine did')}", "", *(f"- {escape(text)}" for text in said)]
    if verdict.cautions:
        lines += ["", f"### {_('Cautions')}", "", *(_caution(one, _) for one in outline.caution_groups(verdict))]
    if verdict.advice:
        lines += ["", f"### {_('What to do next')}", "", *(f"- {escape(_(text))}" for text in verdict.advice)]
    return "\n".join(lines) + "\n"


def _table(rows: list[Row], _: Words) -> list[str]:
    headings = outline.headings(rows, _)
    with_condition = any(row.condition for row in rows)
    lines = [headings, ["---:"] * (len(headings) - 1) + [":---"]]
    lines += [outline.cells(row, with_condition, _, escape) for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _caution(one: Warned, _: Words) -> str:
    mark = f"**{_('void')}:** " if one.caution.fatal else ""
    where = f"{outline.warned_at(one, _)}: " if one.users else ""
    remedy = f" – *{escape(_(one.caution.remedy))}*" if one.caution.remedy else ""
    return f"- {mark}{where}{escape(_(one.caution.sentence))}{remedy}"
