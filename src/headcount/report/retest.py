"""What a recheck found, for people, programs and CI: terminal, Markdown (a GitHub job summary), JSON, JUnit XML.

Knows nothing of how it was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

import msgspec

from headcount.analysis.recheck import Recheck
from headcount.errors import ScenarioError
from headcount.records import RunFacts
from headcount.report.as_json import indented
from headcount.report.format import clean, moment
from headcount.report.markdown import escape
from headcount.report.words import Words, words

__all__ = ["RETESTS", "Retest", "write_retest"]


UNDECIDED = 5
"""The exit code of a recheck that cannot tell."""


class Retest(msgspec.Struct, frozen=True):
    """What is told."""

    result: Recheck
    baseline: RunFacts
    facts: RunFacts
    language: str = "en"


def write_retest(name: str, told: Retest) -> str:
    """As text in the format ``name``, a key of ``RETESTS``."""
    if name not in RETESTS:
        raise ScenarioError(f"format {name!r} is not known for rechecks", f"known: {', '.join(RETESTS)}")
    return RETESTS[name](told)


def _headline(told: Retest, _: Words) -> str:
    return {
        "unchanged": _("The server is as it was."),
        "worse": _("The server is worse than it was."),
        "better": _("The server is better than it was."),
        "cannot-tell": _("Whether the server is as it was cannot be told."),
        "not-trusted": _("No level could be trusted, so there is no answer."),
    }[told.result.statement]


def _changes(told: Retest, _: Words) -> list[str]:
    return [clean(_(text)) for text in told.result.changes] or [_("nothing that is known to change the answer")]


def _terminal(told: Retest) -> str:
    _ = words(told.language)
    lines = [_headline(told, _), ""]
    if told.facts.simulated:
        lines[0] = f"{_('simulated')} · {lines[0]}"
    lines += [f"{'✗' if one.failed else '·'} {clean(_(one.sentence))}" for one in told.result.results]
    lines += ["", _("Since {when}:").format(when=moment(told.baseline.started_utc))]
    lines += [f"  {text}" for text in _changes(told, _)]
    return "\n".join(lines) + "\n"


def _markdown(told: Retest) -> str:
    _ = words(told.language)
    mark = {1: "❌", UNDECIDED: "❔"}.get(told.result.exit_code, "✅")
    lines = [f"## {mark} {escape(_headline(told, _))}", ""]
    lines += [f"- {'❌ ' if one.failed else ''}{escape(_(one.sentence))}" for one in told.result.results]
    lines += ["", f"### {escape(_('Since {when}:').format(when=moment(told.baseline.started_utc)))}", ""]
    lines += [f"- {escape(text)}" for text in _changes(told, _)]
    return "\n".join(lines) + "\n"


def _json(told: Retest) -> str:
    result = told.result
    whole: dict[str, Any] = {
        "schema_version": 1,
        "simulated": told.facts.simulated,
        "exit_code": result.exit_code,
        **{name: getattr(result, name) for name in result.__struct_fields__},
    }
    return indented(whole)


def _junit(told: Retest) -> str:
    """One test case a question; whatever CI shows of JUnit shows it."""
    cases = []
    for result in told.result.results:
        name, sentence = clean(result.name), clean(result.sentence)
        inside = (
            f"<failure message={quoteattr(sentence)}/>"
            if result.failed
            else f"<system-out>{xml_escape(sentence)}</system-out>"
        )
        cases.append(f'    <testcase classname="headcount.recheck" name={quoteattr(name)}>{inside}</testcase>')
    failed = sum(result.failed for result in told.result.results)
    errors = 0
    if told.result.exit_code == UNDECIDED:
        errors = 1
        said = quoteattr(_headline(told, words("en")))
        cases.append(f'    <testcase classname="headcount.recheck" name="answer"><error message={said}/></testcase>')
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{errors}" skipped="0"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<testsuites>",
            f'  <testsuite name="headcount recheck" {counts}>',
            *cases,
            "  </testsuite>",
            "</testsuites>",
            "",
        ]
    )


RETESTS: dict[str, Callable[[Retest], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "junit": _junit,
}
