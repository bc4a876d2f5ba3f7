"""Runs over time: a line each, by server and question, and how the limit went. Knows nothing of folders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.analysis.fingerprint import changes
from headcount.errors import ScenarioError
from headcount.records import RunFacts
from headcount.report.as_json import indented
from headcount.report.format import clean, moment, sparkline, users_interval
from headcount.report.markdown import escape
from headcount.report.outline import cause_name, promises
from headcount.report.rows import level_rows
from headcount.report.words import Words, words

__all__ = ["HISTORIES", "Past", "write_history"]


class Past(msgspec.Struct, frozen=True):
    """One run."""

    folder: str
    facts: RunFacts
    verdict: Verdict
    asked: str = ""
    """What its people did, in words that are alike for runs that can be told as one series."""

    @property
    def exact(self) -> bool:
        """Whether its limit is a number that held, with one above that did not: no bound, no guess, no few levels."""
        verdict = self.verdict
        known = verdict.limit_users is not None and not verdict.at_least and verdict.confirmations > 0
        return known and self.facts.verb != "recheck"


def write_history(name: str, past: Sequence[Past], language: str = "en") -> str:
    """As text in the format ``name``, a key of ``HISTORIES``."""
    if name not in HISTORIES:
        raise ScenarioError(f"format {name!r} is not known for histories", f"known: {', '.join(HISTORIES)}")
    return HISTORIES[name](past, language)


def _asked(one: Past) -> tuple[str, str, tuple[str, ...], str, bool, bool]:
    """What must be alike for two limits to be of one trend."""
    facts, engine = one.facts, one.facts.engine
    return engine.engine, engine.model or "", facts.slo, one.asked, facts.simulated, facts.verb == "import"


def _groups(past: Sequence[Past]) -> list[list[Past]]:
    """Runs of one server and question, the oldest first."""
    ordered = sorted(past, key=lambda one: (_asked(one), one.facts.started_utc))
    return [list(group) for _, group in itertools.groupby(ordered, key=_asked)]


def _title(group: list[Past], _: Words) -> str:
    engine, model, _slo, asked, simulated, imported = _asked(group[0])
    marks = [*([_("simulated")] if simulated else []), *([_("imported")] if imported else [])]
    parts = [*marks, clean(model, 80), clean(engine, 60), promises(group[0].facts, _), clean(asked, 120)]
    return " · ".join(filter(None, parts))


def _headings(_: Words) -> list[str]:
    return [
        _("begun"),
        _("verb"),
        _("limit"),
        _("95 % interval"),
        _("Recommended"),
        _("change"),
        _("What gives out first"),
        _("since then"),
    ]


def _rows(group: list[Past], _: Words) -> list[list[str]]:
    rows = []
    before: int | None = None
    earlier: RunFacts | None = None
    for one in group:
        verdict = one.verdict
        change = "–"
        if before and verdict.limit_users is not None and one.exact:
            change = f"{verdict.limit_users / before - 1.0:+.0%}".replace("%", " %")
        differing = changes(earlier, one.facts) if earlier is not None else []
        rows.append(
            [
                moment(one.facts.started_utc),
                one.facts.verb,
                _limit(one, _),
                users_interval(verdict.limit_interval_users),
                "–" if verdict.recommended_users is None else str(verdict.recommended_users),
                change,
                cause_name(verdict.cause, _),
                clean("; ".join(_(text) for text in differing), 120),
            ]
        )
        if one.exact:
            before = verdict.limit_users
        if one.facts.verb != "recheck":
            earlier = one.facts
    return rows


def _limit(one: Past, _: Words) -> str:
    """A recheck holds few levels on purpose: what became of them is said, its largest is no limit."""
    verdict = one.verdict
    if one.facts.verb == "recheck":
        return ", ".join(f"{row.users} {_(row.decision)}" for row in level_rows(verdict))
    if verdict.limit_users is None:
        return "–"
    return f"{'≥ ' if verdict.at_least else '' if verdict.confirmations else '≈ '}{verdict.limit_users}"


def _trend(group: list[Past], _: Words) -> str:
    """How the limits went; a bound (≥) and a guess (≈) have no height."""
    searched = [one for one in group if one.facts.verb != "recheck" and one.verdict.limit_users is not None]
    if sum(one.exact for one in searched) < 2:
        return ""
    bars = sparkline([one.verdict.limit_users if one.exact else None for one in searched])
    marks = ["" if one.exact else "≥" if one.verdict.at_least else "≈" for one in searched]
    return f"{_('limit')} {''.join(mark or bar for mark, bar in zip(marks, bars, strict=True))}"


def _terminal(past: Sequence[Past], language: str) -> str:
    from rich.cells import cell_len

    _ = words(language)
    lines: list[str] = []
    for group in _groups(past):
        table = [_headings(_), *_rows(group, _)]
        widths = [max(cell_len(row[place]) for row in table) for place in range(len(table[0]))]
        lines += [_title(group, _)]
        lines += [
            "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        lines += [*filter(None, [_trend(group, _)]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown(past: Sequence[Past], language: str) -> str:
    _ = words(language)
    lines: list[str] = []
    for group in _groups(past):
        headings = _headings(_)
        lines += [f"## {escape(_title(group, _))}", "", f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
        lines += [f"| {' | '.join(map(escape, row))} |" for row in _rows(group, _)]
        lines += ["", *filter(None, [_trend(group, _)]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _json(past: Sequence[Past], _language: str) -> str:
    return indented({"schema_version": 1, "runs": [_object(one) for group in _groups(past) for one in group]})


def _object(one: Past) -> dict[str, Any]:
    verdict, facts = one.verdict, one.facts
    return {
        "folder": one.folder,
        "started_utc": facts.started_utc,
        "verb": facts.verb,
        "simulated": facts.simulated,
        "engine": facts.engine.engine,
        "version": facts.engine.version,
        "model": facts.engine.model,
        "slo": facts.slo,
        "workload": one.asked,
        "limit_users": verdict.limit_users,
        "at_least": verdict.at_least,
        "limit_interval_users": verdict.limit_interval_users,
        "recommended_users": verdict.recommended_users,
        "cause": verdict.cause,
        "trusted": verdict.trusted,
    }


HISTORIES: dict[str, Callable[[Sequence[Past], str], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
}
