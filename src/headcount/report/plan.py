"""What is about to be done, for a person to agree to before any load is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headcount.records import EngineFacts
from headcount.report.format import clean, duration, number
from headcount.report.words import people, words
from headcount.slo import parse_slo

__all__ = ["plan_text"]


class _Search(Protocol):
    @property
    def levels(self) -> tuple[int, ...]: ...
    @property
    def max_users(self) -> int: ...
    @property
    def max_time_s(self) -> float: ...
    @property
    def soak_s(self) -> float: ...


class _Condition(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def levels(self) -> tuple[int, ...]: ...


class _Scenario(Protocol):
    """The part of a ``Scenario`` that is told; its own module reaches the measuring half, this one must not."""

    @property
    def slo(self) -> tuple[str, ...] | str: ...
    @property
    def workload(self) -> Mapping[str, object]: ...
    @property
    def search(self) -> _Search: ...
    @property
    def condition(self) -> Sequence[_Condition]: ...


def plan_text(
    scenario: _Scenario,
    facts: EngineFacts,
    estimate_s: float,
    notes: tuple[str, ...],
    simulated: bool,
    *,
    language: str = "en",
) -> str:
    """Server, service level, workload, levels and time, one line each."""
    _ = words(language)
    search = scenario.search
    server = " ".join(filter(None, [facts.engine, facts.version]))
    lines = [_("simulated: no server is asked, nothing real is measured")] if simulated else []
    lines.append(clean(" · ".join(filter(None, [facts.model, server, facts.address]))))
    if facts.context_tokens:
        lines[-1] += " · " + _("context {n} tokens").format(n=number(facts.context_tokens, 9))
    lines.append(_("service level: {slo}").format(slo=", ".join(clause.text for clause in parse_slo(scenario.slo))))
    lines.append(_("people talk: {workload}").format(workload=clean(str(scenario.workload.get("kind", "chat")))))
    if scenario.condition:
        names = ", ".join(clean(_(one.name), 60) for one in scenario.condition)
        lines.append(_("conditions, in turn: {names}").format(names=names))
    levels = sorted({*search.levels, *(users for one in scenario.condition for users in one.levels)})
    if levels:
        lines.append(_("levels: {levels} people").format(levels=", ".join(map(str, levels))))
    else:
        lines.append(_("search: up to {people}").format(people=people(search.max_users, _)))
    if search.soak_s:
        lines.append(_("then: {time} at the recommended number").format(time=duration(search.soak_s, _)))
    most = duration(search.max_time_s + search.soak_s, _)
    time = _("about {time}, at most {most}").format(time=duration(estimate_s, _), most=most)
    lines.append(_("time: {time}").format(time=time))
    lines += [_("note: {note}").format(note=clean(note)) for note in notes]
    return "\n".join(lines)
