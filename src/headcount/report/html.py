"""The report as one file: opens offline, in light and dark, and asks nothing of the network.

Everything foreign is escaped by the template; nothing a server or a model said can run. Knows nothing of how the plots
are drawn.
"""

from __future__ import annotations

import re
from typing import Any

from headcount.report import Report, conditions, cost, observed, outline, tables
from headcount.report.figures import people_figures, time_figures
from headcount.report.format import clean, moment
from headcount.report.page import page
from headcount.report.rows import level_rows
from headcount.report.timeline import timeline
from headcount.report.traffic import Traffic, read_traffic
from headcount.report.words import Words, people, words_for

__all__ = ["write"]

_SECRET = re.compile(
    r"""(?i)(["']?[\w-]*(?:authorization|cookie|secret|password|passwd|api[-_]?key|token|credential)[\w-]*["']?\s*=\s*)"""
    r"""("[^"]*"|'[^']*')"""
)
_USERINFO = re.compile(r"(\w+://)[^/@\s\"']+@")


def write(report: Report) -> str:
    """The whole page."""
    verdict, facts, _ = report.verdict, report.facts, words_for(report.facts.verb, report.language)
    traffic = _traffic(report)
    figures = people_figures(verdict, facts, _)
    if report.run is not None:
        figures += time_figures(verdict, facts, report.run.samples, _)
    said: dict[str, Any] = {
        "verdict": verdict,
        "facts": facts,
        "version": facts.headcount_version,
        "title": f"{clean(_(verdict.sentence), 120)} – headcount",
        "when": moment(facts.started_utc),
        "timeline": timeline(traffic, _timeline_title(report, _), _),
        "scenario_text": _without_secrets(report.run.scenario_text) if report.run is not None else "",
        **_answer(report, _),
        "findings": conditions.findings(verdict, _),
        "condition_headings": conditions.headings(verdict, _),
        "condition_rows": conditions.rows(verdict, _),
        **_levels(report, _),
        "observations": [clean(text, 600) for text in observed.observations(verdict, facts, _)],
        "tables": [
            *tables.tables(verdict, traffic, _),
            *observed.tables(verdict, traffic, facts, _),
            *cost.tables(verdict, report.prices, _),
        ],
        "provenance": [*tables.provenance(facts, _), (_("people"), outline.coming(verdict, _))],
        "server_details": tables.server_details(facts),
        "definitions": tables.definitions(_),
    }
    return page("report.html.j2", report.language, figures, said)


def _answer(report: Report, _: Words) -> dict[str, Any]:
    """The first screen."""
    verdict, facts = report.verdict, report.facts
    engine = " ".join(filter(None, [facts.engine.engine, facts.engine.version]))
    recommended, headroom = "–", ""
    if verdict.recommended_users is not None:
        recommended = str(verdict.recommended_users)
        headroom = " · ".join(filter(None, [outline.headroom(verdict, _), outline.enough_for(verdict, _)]))
    cautions = outline.caution_groups(verdict)
    return {
        "measured": clean(
            " · ".join(filter(None, [facts.engine.model, engine, *(gpu.name for gpu in facts.gpus)])), 400
        ),
        "sentence": clean(_(verdict.sentence), 600),
        "recommended": recommended,
        "recommended_unit": people(verdict.recommended_users or 0, _).replace(recommended, "").strip(),
        "headroom": headroom,
        "sure_name": outline.sure_name(verdict, _),
        "sure": [clean(text, 600) for text in outline.sure_lines(verdict, _)],
        "cause_name": outline.cause_name(verdict.cause, _),
        "cause": [clean(text, 600) for text in outline.cause_lines(verdict, _)],
        "advice": [clean(text, 600) for text in outline.next_steps(verdict, _)],
        "cautions": [
            {
                "where": outline.warned_at(one, _),
                "sentence": clean(_(one.caution.sentence), 600),
                "remedy": clean(_(one.caution.remedy), 600),
                "fatal": one.caution.fatal,
            }
            for one in cautions
        ],
        "cautions_link": _("Cautions: {n}").format(n=len(cautions)),
    }


def _levels(report: Report, _: Words) -> dict[str, Any]:
    """The table of levels; what was decided stands beside the people, where a narrow screen shows it too."""
    rows = level_rows(report.verdict)
    with_condition = any(row.condition for row in rows)
    place = 2 if with_condition else 1

    def early(cells: list[str]) -> list[str]:
        return [*cells[:place], cells[-1], *cells[place:-1]]

    return {
        "headings": early(outline.headings(rows, _)),
        "decision_place": place,
        "rows": [
            {
                "cells": early(outline.cells(row, with_condition, _, lambda text: clean(text, 60))),
                "decision": row.decision,
                "at_limit": row.users == report.verdict.limit_users,
            }
            for row in rows
        ],
        "footnote": outline.footnote(rows, _),
        "slo": outline.promises(report.facts, _),
    }


def _traffic(report: Report) -> Traffic | None:
    """One pass over all requests; the timeline is that of the last level held at the limit."""
    if report.run is None:
        return None
    levels = [level for level in report.verdict.levels if level.users == report.verdict.limit_users]
    levels = levels or list(report.verdict.levels)
    if not levels:
        return None
    shown = levels[-1]
    begin_at_s = shown.steady_at_s if shown.steady_at_s is not None else shown.began_at_s
    return read_traffic(report.run.requests(), shown.index, begin_at_s)


def _timeline_title(report: Report, _: Words) -> str:
    users = report.verdict.limit_users
    return _("One minute at the limit") if users else _("One minute of the last level")


def _without_secrets(text: str) -> str:
    """Values of keys that may hold secrets (headers, mostly), and names in addresses, are taken out."""
    return _USERINFO.sub(r"\1…@", _SECRET.sub(r'\1"…"', text))
