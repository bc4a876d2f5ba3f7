"""The plan in sentences, each with the figures it rests on. Finished English; the catalogue knows them by pattern.

Knows nothing of formats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from headcount.analysis.comfort import writing_speed
from headcount.analysis.conclusions import LevelSummary
from headcount.deployment.advice import Advice, Part
from headcount.deployment.capacity import Measured, figure, latency_figure
from headcount.deployment.power_advice import power_advice
from headcount.deployment.rehearsal import Option, Rehearsal, Rehearsed

__all__ = ["Statement", "statements"]


class Statement(msgspec.Struct, frozen=True):
    """One sentence of the plan."""

    topic: str
    """``carries``, ``streaming``, ``routing``, ``cap``, ``headroom``, ``growth``, ``flags``, ``power`` or ``check``."""
    model: str
    sentence: str
    figures: tuple[str, ...] = ()
    """Where its numbers come from: the run, the level, what it showed."""


def statements(advice: Advice, measured: Sequence[Measured], rehearsal: Rehearsal) -> tuple[Statement, ...]:
    """Model by model, in the plan's order."""
    found: list[Statement] = []
    rehearsed = {each.name: each for each in rehearsal.parts}
    for part in advice.parts:
        runs = [each for each in measured if each.name == part.name]
        simulated = rehearsed.get(part.name)
        found += _carries(part, runs)
        found += _streaming(part, runs)
        found += _routing(part, advice)
        found += [_cap(part), _headroom(part)]
        found += _growth(part, advice, simulated.option if simulated is not None else None)
        found += _flags(part, runs)
        found += [Statement("power", part.name, *said) for each in runs if (said := power_advice(each)) is not None]
        found.append(_check(part, simulated, rehearsal))
    return tuple(found)


def _level(part: Part) -> LevelSummary:
    """The level that the part rests on."""
    capacity = part.capacity
    level = capacity.level if part.streamed else capacity.whole_level or capacity.level
    assert level is not None  # else there would be no plan
    return level


def _shown(part: Part) -> str:
    """The figure of that level."""
    return latency_figure(part.name, _level(part), whole=not part.streamed)


def _carries(part: Part, runs: Sequence[Measured]) -> Iterator[Statement]:
    way = "streamed" if part.streamed else "whole or streamed"
    shown = [_shown(part)]
    level, recommended = _level(part), runs[0].verdict.recommended_users
    if recommended is not None and recommended < level.users:
        where, what = f"{part.name}: limit {runs[0].verdict.limit_users}", f"{recommended} recommended"
        shown.append(f"{where}, {what}")
    missed = part.capacity.missed
    if missed is not None:
        shown.append(latency_figure(part.name, missed, whole=missed.ttft_s.n == 0))
    yield Statement(
        "carries", part.name, f"One server carries {part.carries_users} people, {way}.", tuple(dict.fromkeys(shown))
    )
    if missed is None:
        said = f"Nothing larger than {level.users} people was measured: it may carry more."
        yield Statement("carries", part.name, said, (_shown(part),))


def _streaming(part: Part, runs: Sequence[Measured]) -> Iterator[Statement]:
    capacity, level = part.capacity, _level(part)
    speed = writing_speed(level) or 0.0
    if not part.streamed:
        if capacity.whole_level is not None:
            yield Statement("streaming", part.name, "Streaming is not needed: whole answers hold.", (_shown(part),))
        return
    waits = figure(part.name, level, f"p50 {level.e2e_s.p50 or 0.0:.1f} s")
    writes = figure(part.name, level, f"{speed:.0f} tokens/s each")
    if capacity.whole_users is None:
        said = f"Streaming is mandatory: a whole answer takes {level.e2e_s.p50 or 0.0:.1f} s with {level.users} people."
    else:
        said = f"Streaming is mandatory: whole answers hold up to {capacity.whole_users} people only."
    yield Statement("streaming", part.name, said, (waits, writes))
    if not capacity.streamed_measured:
        said = "That streamed answers hold follows from how fast whole ones were written: measure them streamed."
        yield Statement("streaming", part.name, said, (writes,))


def _routing(part: Part, advice: Advice) -> Iterator[Statement]:
    if part.role == "all":
        return
    kind = "complex questions" if part.role == "complex" else "simple questions"
    said = f"Route {part.share:.0%} of the people here, {part.users} of {advice.people}: {kind}."
    yield Statement("routing", part.name, said, (_shown(part),))
    if part.role == "complex" and advice.overflow_users:
        said = f"{advice.overflow_users} people more have complex questions: the smaller model answers them."
        yield Statement("routing", part.name, said, (_shown(part),))


def _cap(part: Part) -> Statement:
    level = _level(part)
    seen = f"{level.users} people, each with one request"
    if level.server_running_max is not None:
        waited = level.server_waiting_mean or 0.0
        seen = f"ran at most {level.server_running_max:.0f} at once, {waited:.1f} waited"
    said = f"Let at most {part.cap_requests} requests in flight reach a server."
    return Statement("cap", part.name, said, (figure(part.name, level, seen),))


def _headroom(part: Part) -> Statement:
    carried, held = part.carries_users * part.servers, part.held_users * part.servers
    if part.users > carried:
        said = f"Too little: {part.users} people come, {carried} are carried."
    else:
        said = f"Headroom: {part.headroom_fraction:.0%}; {part.users} people come, {held} were held."
    return Statement("headroom", part.name, said, (_shown(part),))


def _growth(part: Part, advice: Advice, option: Option | None) -> Iterator[Statement]:
    said = f"From {part.further_from_users} people in all on, a further GPU is needed for this model."
    yield Statement("growth", part.name, said, (_shown(part),))
    if part.capacity.whole_users and part.whole_until_users < part.further_from_users - 1:
        whole = part.capacity.whole_level
        said = f"Without streaming it is needed from {part.whole_until_users + 1} people on."
        shown = () if whole is None else (latency_figure(part.name, whole, whole=True),)
        yield Statement("growth", part.name, said, shown)
    if part.servers_needed > part.servers:
        people = math.ceil(advice.people * advice.demand.growth_factor)
        said = f"For {people} people it takes {part.servers_needed} servers of this model."
        yield Statement("growth", part.name, said, (_shown(part),))
    if option is not None:
        twice = 2 * (part.capacity.users or 0)
        if option.low_users > twice:
            better = "they are the better buy"
        elif option.high_users < twice:
            better = "two servers are the better buy"
        else:
            better = "neither is clearly better, and two servers survive the loss of one"
        said = (
            f"{option.gpus} GPUs that compute together (tensor parallelism) would carry {option.users} people as well "
            f"as now (simulated, 90 % interval {option.low_users} to {option.high_users}), "
            f"two servers {twice}: {better}."
        )
        yield Statement("growth", part.name, said, (_shown(part),))


def _flags(part: Part, runs: Sequence[Measured]) -> Iterator[Statement]:
    """What to change of the engine, by what gave out first."""
    for verdict in (each.verdict for each in runs):
        if verdict.cause in ("", "not-seen", "client"):
            continue
        fails = verdict.fails_at_users
        where = f"{part.name}: fails at {fails}"
        shown = (f"{where}, {verdict.cause}",) if fails is not None else ()
        for text in (verdict.cause_sentence, *verdict.advice):
            if text:
                yield Statement("flags", part.name, text, shown)


def _check(part: Part, simulated: Rehearsed | None, rehearsal: Rehearsal) -> Statement:
    if simulated is None:
        said = f"Not checked by simulation: {rehearsal.unchecked[part.name]}."
        return Statement("check", part.name, said)
    answer, first = simulated.prediction.e2e_p50_s, simulated.prediction.ttft_p95_s
    said = f"Simulated: {simulated.users} people on one server feel {simulated.feels}."
    if answer is not None and first is not None:
        said = (
            f"Simulated: {simulated.users} people on one server feel {simulated.feels}; an answer takes "
            f"{answer.value:.1f} s ({answer.low:.1f} to {answer.high:.1f}), its first token {first.value:.2f} s (p95)."
        )
    shown: tuple[str, ...] = ()
    if simulated.error_fraction is not None:
        off = f"simulated {simulated.error_fraction:+.0%} against measured"
        shown = (figure(part.name, _level(part), off),)
    return Statement("check", part.name, said, shown)
