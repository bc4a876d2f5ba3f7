"""A plan proved by test: the whole mix through the gateway, first as many people as planned, then too many.

Each finding is one sentence that holds or does not. Knows nothing of how configurations are written.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from headcount.analysis.comfort import BANDS, band, felt_whole
from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.deployment.advice import Advice, Part
from headcount.deployment.capacity import Measured
from headcount.deployment.gateway import Overhead, overhead_of, places_alive, usable
from headcount.deployment.mixture import mix_scenario
from headcount.deployment.places import AUTO, Place, word
from headcount.deployment.watch import Inside, ServersWatch
from headcount.measure import Intent, measure
from headcount.records import Level, Request
from headcount.session import Watcher
from headcount.slo import Comfort, parse_slo
from headcount.store import open_run

__all__ = ["Finding", "Held", "Proof", "judged", "prove"]

CLEAN = frozenset({"http_429", "http_503"})
"""How a full gateway may refuse."""
HELD_FRACTION = 0.2
"""Of the requests in flight; when so many are neither written nor waiting at a server, the gateway holds them."""
MOST_CHARS = 160
"""Of what a gateway says of a refusal."""
_LATE = frozenset({"client-lag", "send-delay", "client-cpu"})


class Finding(msgspec.Struct, frozen=True):
    """One thing that was to be shown."""

    name: str
    """``comfort``, ``cap``, ``overflow``, ``overhead`` or ``client``."""
    model: str
    sentence: str
    holds: bool


class Proof(msgspec.Struct, frozen=True):
    """What the test showed."""

    findings: tuple[Finding, ...]
    overheads: tuple[Overhead, ...]
    paths: tuple[Path, ...]
    """The run folders with their facts: as planned, and overflowing."""
    interrupted: bool = False

    @property
    def holds(self) -> bool:
        """Whether everything that was to be shown was shown."""
        return all(finding.holds for finding in self.findings)


def prove(
    advice: Advice,
    measured: Sequence[Measured],
    places: Sequence[Place],
    url: str,
    *,
    api_key: str | None,
    keys: Mapping[str, str],
    out: Path,
    watcher: Watcher,
    agree: Callable[[Intent], bool],
    routed_by: str = "client",
    level_time_s: float = 60.0,
) -> Proof | None:
    """Check the gateway and its servers, measure its overhead unloaded, drive the mix; None when ``agree`` said no.

    Raises ``ServerError`` for a wrong key, an unknown model or a server that does not answer.
    """
    overheads = asyncio.run(_before(advice, places, url, api_key, keys, routed_by))
    kinds = {each.name: each.facts.engine.engine for each in measured}
    comfort = {each.name: each.comfort for each in measured}
    findings: list[Finding] = []
    paths: list[Path] = []
    for overflow in (False, True):
        # Who overflows asks for a model by name: a gateway that chooses may never send enough to one of them.
        chosen_by = "client" if overflow else routed_by
        scenario = mix_scenario(
            advice, measured, url, overflow=overflow, routed_by=chosen_by, level_time_s=level_time_s
        )
        watch = ServersWatch(places, keys, kinds.__getitem__, watcher)
        outcome = measure(scenario, verb="plan", out=out, api_key=api_key, watcher=watch, agree=agree)
        if outcome is None:
            return None
        paths.append(outcome.path)
        if outcome.interrupted or not outcome.verdict.levels:
            return Proof(tuple(findings), tuple(overheads), tuple(paths), interrupted=True)
        held = _held(outcome.path, outcome.verdict.levels[-1], watch)
        findings += judged(advice, places, held, comfort, is_overflow=overflow)
    findings += [_overhead(one) for one in overheads]
    return Proof(tuple(findings), tuple(overheads), tuple(paths))


def _held(path: Path, summary: LevelSummary, watch: ServersWatch) -> Held:
    """The last level of a run; one that was void had been held twice."""
    run = open_run(path)
    level = next(level for level in run.levels() if level.index == summary.index)
    return Held(level, summary, list(run.requests(summary.index)), watch.inside[summary.index])


async def _before(
    advice: Advice,
    places: Sequence[Place],
    url: str,
    api_key: str | None,
    keys: Mapping[str, str],
    routed_by: str,
) -> list[Overhead]:
    await places_alive(places, keys)
    names = [part.name for part in advice.parts]
    await usable(url, api_key, [*names, AUTO] if routed_by == "gateway" and len(names) > 1 else names)
    first = {place.name: place for place in reversed(places)}
    return [await overhead_of(first[name], url, api_key, keys) for name in names]


class Held(msgspec.Struct, frozen=True):
    """One level, and what was seen of it."""

    level: Level
    summary: LevelSummary
    requests: list[Request]
    inside: Mapping[str, Inside]


def judged(
    advice: Advice, places: Sequence[Place], held: Held, comfort: Mapping[str, Comfort], *, is_overflow: bool
) -> list[Finding]:
    """What one level shows of each model."""
    findings = []
    for part in advice.parts:
        own = [request for request in held.requests if request.persona == word(part.name)]
        if not is_overflow:
            findings.append(_comfort(part, own, held, comfort[part.name], advice.demand.comfort))
        findings += [_cap(place, held, own if is_overflow else None) for place in places if place.name == part.name]
        if is_overflow:
            findings.append(_overflow(part, own, held))
    if not is_overflow:
        findings += _held_back(places, held)
    late = [caution for caution in held.summary.cautions if caution.code in _LATE]
    if late and not all(finding.holds for finding in findings):
        findings.append(Finding("client", "", f"This client was late itself: {late[0].sentence}", holds=False))
    return findings


def _comfort(part: Part, own: Sequence[Request], held: Held, comfort: Comfort, wanted: str) -> Finding:
    """What these people felt, and whether any of them was refused."""
    slo = parse_slo(())
    table = RequestTable(slo)
    for request in own:
        table.add(request)
    summary = summarize(held.level, table, [], slo, ended_at_s=held.level.stopped_at_s)
    people = held.level.users
    if summary.n_errors > 0.01 * max(1, summary.n_requests):
        kinds = ", ".join(f"{n} x {kind}" for kind, n in sorted(summary.error_kinds.items()))
        said = (
            f"With {people} people {summary.n_errors} of {summary.n_requests} requests to {part.name} failed "
            f"({kinds}): {(summary.first_error or 'no reason given')[:MOST_CHARS]}"
        )
        return Finding("comfort", part.name, said, holds=False)
    feels = band(summary, comfort)
    if not feels:
        return Finding("comfort", part.name, f"{part.name} gave too few answers to judge.", holds=False)
    if not part.streamed and summary.e2e_s.p50 is not None:
        feels = felt_whole(summary.e2e_s.p50, comfort)
    said = (
        f"With {people} people {part.name} feels {feels}: TTFT p95 {summary.ttft_s.p95 or 0.0:.2f} s, "
        f"answer p50 {summary.e2e_s.p50 or 0.0:.1f} s, {summary.user_tokens_per_s or 0.0:.0f} tokens/s each."
    )
    return Finding("comfort", part.name, said, holds=BANDS.index(feels) <= BANDS.index(wanted))


def _held_back(places: Sequence[Place], held: Held) -> list[Finding]:
    """Requests that are neither at a server nor answered are in the gateway."""
    seen = [held.inside.get(place.label, Inside()).mean for place in places]
    known = [mean for mean in seen if mean is not None]
    began_at_s, stopped_at_s = held.level.began_at_s, held.level.stopped_at_s
    if len(known) < len(seen) or stopped_at_s is None or stopped_at_s <= began_at_s:
        return []
    waits = (min(one.ended_at_s, stopped_at_s) - one.scheduled_at_s for one in held.requests)
    asked, at_servers = sum(waits) / (stopped_at_s - began_at_s), sum(known)
    if asked - at_servers <= max(2.0, HELD_FRACTION * asked):
        return []
    said = (
        f"The gateway holds requests back: of {asked:.1f} in flight {at_servers:.1f} were at the servers. "
        "It is the cap, not the GPU."
    )
    return [Finding("overhead", "", said, holds=False)]


def _cap(place: Place, held: Held, overflowing: Sequence[Request] | None) -> Finding:
    """The server's own count of requests against its cap. ``overflowing``: what was asked of it when it had to be
    reached; None when it need not be. Somebody refused shows that it was, though no look came at that instant."""
    seen, people = held.inside.get(place.label), held.level.users
    if seen is None or not seen.looks:
        said = f"{place.name}: its server at {place.url} tells no requests in flight, so its cap was not seen to hold."
        return Finding("cap", place.name, said, holds=False)
    cap = place.cap_requests
    refused = overflowing is not None and any(request.error in CLEAN for request in overflowing)
    if overflowing is not None and seen.peak_requests < cap and not refused:
        had = f"{seen.peak_requests:.0f}"
        said = f"With {people} people {place.name} had {had} requests in flight: its cap of {cap} was not reached."
        return Finding("cap", place.name, said, holds=False)
    said = f"With {people} people {place.name} had at most {seen.peak_requests:.0f} requests in flight, cap {cap}."
    return Finding("cap", place.name, said, holds=seen.peak_requests <= cap)


def _overflow(part: Part, own: Sequence[Request], held: Held) -> Finding:
    """Whoever found no room was refused at once, or waited and was answered."""
    people = held.level.users
    refused = [request for request in own if request.error in CLEAN]
    broken: dict[str, int] = defaultdict(int)
    for request in own:
        if request.error not in (None, "cut", *CLEAN):
            broken[request.error or ""] += 1
    answered = sum(request.error is None for request in own)
    if broken or not answered:
        kinds = ", ".join(f"{n} x {kind}" for kind, n in sorted(broken.items())) or "no answer came"
        said = f"With {people} people requests to {part.name} did not end cleanly: {kinds}."
        return Finding("overflow", part.name, said, holds=False)
    if not refused:
        said = f"With {people} people {part.name} refused nobody: {answered} answered, whoever found no room waited."
        return Finding("overflow", part.name, said, holds=True)
    waits = sorted(request.ended_at_s - request.scheduled_at_s for request in refused)
    said = (
        f"With {people} people {part.name} answered {answered} requests and refused {len(refused)} "
        f"({refused[0].error}) within {waits[len(waits) // 2]:.1f} s (median): its queue is full."
    )
    return Finding("overflow", part.name, said, holds=True)


def _overhead(one: Overhead) -> Finding:
    """What the gateway adds, for itself."""
    said = (
        f"Alone, the gateway adds {one.ttft_s:.3f} s to the first token of {one.name} and {one.e2e_s:.3f} s to an "
        f"answer (medians of {one.n})."
    )
    return Finding("overhead", one.name, said, holds=True)
