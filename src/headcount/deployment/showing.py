"""A plan for people and programs: terminal, Markdown and JSON; a small extension point of its own, table ``PLANS``.

Knows nothing of how the plan came to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headcount.deployment.advice import Advice, Part
from headcount.deployment.rehearsal import Rehearsal
from headcount.deployment.statements import Statement
from headcount.errors import ScenarioError
from headcount.report.as_json import indented
from headcount.report.format import clean, percent
from headcount.report.markdown import escape
from headcount.report.words import Words, people, words

if TYPE_CHECKING:
    from headcount.deployment.proof import Proof

__all__ = ["PLANS", "Told", "write_plan", "write_proof"]


class Told(msgspec.Struct, frozen=True):
    """What is told."""

    advice: Advice
    rehearsal: Rehearsal
    statements: tuple[Statement, ...]
    simulated: bool
    """Whether a run it rests on was itself simulated."""
    language: str = "en"


def write_plan(name: str, told: Told) -> str:
    """As text in the format ``name``, a key of ``PLANS``."""
    if name not in PLANS:
        raise ScenarioError(f"format {name!r} is not known for plans", f"known: {', '.join(PLANS)}")
    return PLANS[name](told)


def _headline(told: Told, _: Words) -> str:
    advice = told.advice
    said = _("Plan for {people}, so that it feels {comfort} at worst.").format(
        people=people(advice.people, _), comfort=_(advice.demand.comfort)
    )
    if not advice.carried:
        said += " " + _("The servers measured do not carry them.")
    return said if not told.simulated else f"{_('simulated')} · {said}"


def _verdict(told: Told, _: Words) -> str:
    """What the simulation said."""
    return {
        True: _("Checked by simulation: it holds."),
        False: _("Checked by simulation: it does not hold."),
        None: _("Not all of it could be checked by simulation."),
    }[told.rehearsal.holds]


def _headings(_: Words) -> list[str]:
    return [
        _("model"),
        _("for"),
        _("people"),
        _("share"),
        _("servers"),
        _("carries"),
        _("cap"),
        _("streaming"),
        _("headroom"),
    ]


def _row(part: Part, _: Words) -> list[str]:
    roles = {"simple": _("simple questions"), "complex": _("complex questions"), "all": _("all questions")}
    return [
        clean(part.name, 40),
        roles[part.role],
        str(part.users),
        percent(part.share),
        str(part.servers),
        str(part.carries_users * part.servers),
        str(part.cap_requests),
        _("mandatory") if part.streamed else _("optional"),
        percent(part.headroom_fraction),
    ]


def _by_model(told: Told) -> list[tuple[str, list[Statement]]]:
    return [(part.name, [one for one in told.statements if one.model == part.name]) for part in told.advice.parts]


def _figures(one: Statement, _: Words) -> str:
    return f" [{'; '.join(_figure(text, _) for text in one.figures)}]" if one.figures else ""


def _figure(text: str, _: Words) -> str:
    """What stands before the first comma says where, what stands behind it says what was seen there."""
    where, comma, what = text.partition(", ")
    return f"{_(where)}{comma}{_(what)}"


def _terminal(told: Told) -> str:
    from headcount.report.columns import columns

    _ = words(told.language)
    lines = [_headline(told, _), _verdict(told, _), ""]
    lines += columns([_headings(_), *(_row(part, _) for part in told.advice.parts)])
    for name, them in _by_model(told):
        lines += ["", clean(name)]
        lines += [f"  {clean(_(one.sentence) + _figures(one, _), 1000)}" for one in them]
    return "\n".join(lines) + "\n"


def _markdown(told: Told) -> str:
    _ = words(told.language)
    headings = _headings(_)
    table = [headings, [":---", ":---", *["---:"] * (len(headings) - 2)]]
    lines = [f"## {escape(_headline(told, _))}", "", escape(_verdict(told, _)), ""]
    lines += [f"| {' | '.join(row)} |" for row in table]
    lines += [f"| {' | '.join(map(escape, _row(part, _)))} |" for part in told.advice.parts]
    for name, them in _by_model(told):
        lines += ["", f"### {escape(name)}", ""]
        lines += [f"- {escape(_(one.sentence))}{escape(_figures(one, _))}" for one in them]
    return "\n".join(lines) + "\n"


def _json(told: Told) -> str:
    advice, demand = told.advice, told.advice.demand
    whole: dict[str, Any] = {
        "schema_version": 1,
        "simulated": told.simulated,
        "people": advice.people,
        "comfort": demand.comfort,
        "complex_share": demand.complex_share,
        "growth_factor": demand.growth_factor,
        "carried": advice.carried,
        "overflow_users": advice.overflow_users,
        "checked_holds": told.rehearsal.holds,
        "models": [_model(part) for part in advice.parts],
        "rehearsed": told.rehearsal.parts,
        "unchecked": told.rehearsal.unchecked,
        "statements": told.statements,
    }
    return indented(whole)


def _model(part: Part) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__struct_fields__ if name != "capacity"} | {
        "whole_users": part.capacity.whole_users,
        "most_users": part.capacity.users,
    }


PLANS: dict[str, Callable[[Told], str]] = {"terminal": _terminal, "markdown": _markdown, "json": _json}


def write_proof(name: str, proof: Proof, language: str = "en") -> str:
    """What a plan's test showed, in the format ``name``, a key of ``PLANS``."""
    if name == "json":
        return indented(
            {
                "schema_version": 1,
                "holds": proof.holds,
                "runs": [str(path) for path in proof.paths],
                "findings": proof.findings,
                "overheads": proof.overheads,
            }
        )
    _ = words(language)
    head = _("The plan holds.") if proof.holds else _("The plan does not hold.")
    said = [(one.holds, _(one.sentence)) for one in proof.findings]
    if name == "markdown":
        return (
            "\n".join([f"## {escape(head)}", "", *(f"- {'✅' if ok else '❌'} {escape(text)}" for ok, text in said)])
            + "\n"
        )
    return "\n".join([head, "", *(f"{'✓' if ok else '✗'} {clean(text, 600)}" for ok, text in said)]) + "\n"
