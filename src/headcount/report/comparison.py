"""Runs side by side as text: a small extension point of its own, table ``COMPARISONS``. Knows nothing of how ratios
are made and said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.errors import ScenarioError
from headcount.records import RunFacts
from headcount.report import Report
from headcount.report.as_json import indented
from headcount.report.columns import columns
from headcount.report.figures import Figure, people_figures
from headcount.report.format import clean, moment
from headcount.report.markdown import escape
from headcount.report.page import page
from headcount.report.versus import (
    SideBySide,
    Versus,
    answers,
    choice_sentence,
    headings,
    rows,
    sentence,
    short_lines,
)
from headcount.report.words import Words, words

__all__ = ["COMPARISONS", "write_comparison"]


def write_comparison(name: str, both: SideBySide) -> str:
    """The comparison as text in the format ``name``, a key of ``COMPARISONS``."""
    if name not in COMPARISONS:
        raise ScenarioError(f"format {name!r} is not known for comparisons", f"known: {', '.join(COMPARISONS)}")
    return COMPARISONS[name](both)


def _reports(both: SideBySide) -> list[tuple[str, Report]]:
    """Every run once, with its name."""
    first = both.pairs[0]
    return [(first.names[0], first.first), *((pair.names[1], pair.second) for pair in both.pairs)]


def _terminal(both: SideBySide) -> str:
    _ = words(both.pairs[0].first.language)
    lines: list[str] = []
    for pair in both.pairs:
        lines += [sentence(pair, _), *(f"  {line}" for line in short_lines(pair, _)), ""]
        lines += _columns([["", *pair.names], *map(list, answers(pair, _))])
        lines += ["", *_columns([headings(pair, _), *rows(pair, _, few=True)])] if pair.comparison.levels else []
        if pair.differing:
            lines += ["", *(f"! {clean(_(text))}" for text in pair.differing)]
        lines.append("")
    return "\n".join([*lines, choice_sentence(both, _)]).rstrip() + "\n"


def _columns(table: list[list[str]]) -> list[str]:
    """The first two columns and the last one to the left."""
    return columns(table, (0, 1, len(table[0]) - 1))


def _markdown(both: SideBySide) -> str:
    _ = words(both.pairs[0].first.language)
    lines: list[str] = []
    for pair in both.pairs:
        lines += [f"## {escape(sentence(pair, _))}", "", *(f"- {escape(line)}" for line in short_lines(pair, _)), ""]
        table = [["", *pair.names], ["---"] * 3, *map(list, answers(pair, _))]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in table]
        if pair.comparison.levels:
            titles = headings(pair, _)
            table = [titles, ["---:", ":---", *["---:"] * (len(titles) - 3), ":---"], *rows(pair, _)]
            lines += ["", *(f"| {' | '.join(map(_cell, row))} |" for row in table)]
        if pair.differing:
            lines += ["", f"### {_('Not like with like')}", "", *(f"- {escape(_(text))}" for text in pair.differing)]
        lines.append("")
    return "\n".join([*lines, escape(choice_sentence(both, _))]).rstrip() + "\n"


def _cell(text: str) -> str:
    return text if set(text) <= set("-: ") else escape(text)


def _json(both: SideBySide) -> str:
    return indented({"schema_version": 1, "comparisons": [_object(pair) for pair in both.pairs], "choice": both.choice})


def _object(pair: Versus) -> dict[str, Any]:
    first, second = pair.first.verdict, pair.second.verdict
    return {
        "names": pair.names,
        "statement": pair.comparison.statement,
        "sentence": sentence(pair, words("en")),
        "limit_users": [first.limit_users, second.limit_users],
        "recommended_users": [first.recommended_users, second.recommended_users],
        "overall": pair.comparison.overall,
        "levels": pair.comparison.levels,
        "differing": pair.differing,
    }


def _html(both: SideBySide) -> str:
    """Curves of all runs over each other: to the plots, they are conditions of one."""
    reports = _reports(both)
    first = reports[0][1]
    _ = words(first.language)
    levels = [
        msgspec.structs.replace(level, condition=f"{name} {level.condition}".strip())
        for name, report in reports
        for level in report.verdict.levels
    ]
    together = msgspec.structs.replace(
        first.verdict, levels=tuple(levels), limit_users=None, limit_interval_users=None, fails_at_users=None
    )
    facts = reports[-1][1].facts
    said: dict[str, Any] = {
        "title": f"{clean(sentence(both.pairs[0], _), 120)} – headcount",
        "when": moment(facts.started_utc),
        "version": facts.headcount_version,
        "choice": choice_sentence(both, _),
        "pairs": [_section(pair, _) for pair in both.pairs],
    }
    return page("comparison.html.j2", first.language, _figures(together, facts, _), said)


def _figures(together: Verdict, facts: RunFacts, _: Words) -> list[Figure]:
    """Without the waits turn by turn, which are drawn of few levels and not held against each other."""
    return [figure for figure in people_figures(together, facts, _) if figure["key"] != "turns"]


def _section(pair: Versus, _: Words) -> dict[str, Any]:
    return {
        "sentence": sentence(pair, _),
        "short": short_lines(pair, _),
        "names": pair.names,
        "measured": [clean(" · ".join(filter(None, _run(report)))) for report in (pair.first, pair.second)],
        "answers": answers(pair, _),
        "differing": [clean(_(text)) for text in pair.differing],
        "headings": headings(pair, _),
        "rows": rows(pair, _) if pair.comparison.levels else [],
    }


def _run(report: Report) -> list[str | None]:
    engine = report.facts.engine
    simulated = words(report.language)("simulated") if report.facts.simulated else None
    server = " ".join(filter(None, [engine.engine, engine.version]))
    return [simulated, engine.model, server, *(gpu.name for gpu in report.facts.gpus), moment(report.facts.started_utc)]


COMPARISONS: dict[str, Callable[[SideBySide], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "html": _html,
}
