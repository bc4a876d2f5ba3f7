"""What gives out first, from what the levels around the limit showed, and what to change.

"Not seen" is an allowed answer: a server that tells nothing of its queue leaves slots and prefill apart from nothing.
Knows nothing of how levels were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary, SoakStep
from headcount.analysis.flags import advice, kind_of
from headcount.analysis.gpu_cautions import PLAIN_REASONS
from headcount.records import EngineFacts

__all__ = ["Cause", "find_cause", "held_back"]


class Cause(msgspec.Struct, frozen=True):
    """One of the names in ``Verdict.cause``, the figures that led to it, and what to change."""

    name: str
    sentence: str
    advice: tuple[str, ...] = ()


_CLIENT = ("client-lag", "send-delay", "client-cpu", "client-errors", "in-flight-not-reached")
_HEAT = ("throttled", "power-limited")
_COOLER = "better cooling or a higher power limit would raise the limit"
_FULL_KV_FRACTION = 0.95
_ONE_AT_A_TIME = ("llamacpp", "ollama")
"""Servers that never put requests of different adapters into one batch."""
_REFUSALS = ("http_503", "http_429")
_MOSTLY = 0.5
"""Of all misses are failures, or of all failures are refusals: that is what gave out."""
_LATER = 2.0
"""Requests of adapters begin late when they wait so many times as long as those without."""
_SLOWER = 1.3
"""Writing is called slower when TPOT grew by so much over that of the smallest level."""


def find_cause(summaries: Sequence[LevelSummary], limit_users: int | None, engine: EngineFacts | None = None) -> Cause:
    """Judge the lowest levels above the limit that broke; ``engine`` says which flags there are."""
    base = limit_users or 0
    broken = [s for s in summaries if s.users > base and (s.decision in ("fails", "void") or _over(s))]
    if not broken:
        return Cause("not-seen", "Nothing gave out in what was tried.")
    level = min(broken, key=lambda s: s.users)
    near = [s for s in broken if s.users <= 2 * level.users]
    alone = min((s for s in summaries if s.tpot_s.p50 is not None), key=lambda s: s.users, default=None)
    for judge in (_client, _proxy, _heat):
        if (found := judge(near)) is not None:
            return found
    for judge_level in (_failures, _memory, _adapters, _slots, _speed, _first_token):
        for each in sorted(near, key=lambda s: s.users):
            if (cause := judge_level(each, alone, engine)) is not None:
                return cause
    if (found := _plateau(broken, engine)) is not None:
        return found
    return Cause(
        "not-seen",
        f"What gave out at {level.users} people was not seen: the server does not tell enough of itself.",
        ("turn the server's metrics on, to learn what gives out first",),
    )


def held_back(steps: Sequence[SoakStep]) -> Cause | None:
    """Heat or power, when a soak broke while a GPU was throttled: it gives out before whatever limited the search."""
    broke = next((step.soak for step in steps if not step.kept and step.soak.throttled), None)
    if broke is None:
        return None
    reason, (early_hz, late_hz) = PLAIN_REASONS[broke.throttled[0]], broke.sm_clock_hz
    said = f"The GPU could not keep its speed with {broke.users} people: it was throttled by {reason}."
    if early_hz and late_hz:
        fall = f"{early_hz / 1e6:.0f} to {late_hz / 1e6:.0f} MHz"
        said = (
            f"The GPU could not keep its speed with {broke.users} people: throttled by {reason}, it fell from {fall}."
        )
    return Cause("heat-or-power", said, (_COOLER,))


def _over(summary: LevelSummary) -> bool:
    return any(c.miss_fraction is not None and c.miss_fraction > c.allowed_fraction for c in summary.clauses)


def _coded(levels: Sequence[LevelSummary], codes: Sequence[str]) -> str | None:
    """The sentence of the first caution with one of these codes."""
    return next((c.sentence for level in levels for c in level.cautions if c.code in codes), None)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else sentence + "."


def _client(levels: Sequence[LevelSummary]) -> Cause | None:
    told = _coded(levels, _CLIENT)
    if told is None:
        return None
    return Cause(
        "client",
        f"This client gave out before the server: {_ended(told)}",
        ("use more load processes, or run headcount on a machine of its own",),
    )


def _proxy(levels: Sequence[LevelSummary]) -> Cause | None:
    told = _coded(levels, ("capped-before-gpu",))
    if told is None:
        return None
    return Cause(
        "proxy",
        f"Something before the engine holds requests back: {_ended(told)}",
        ("raise the connection limit of the proxy or gateway in front of the engine",),
    )


def _heat(levels: Sequence[LevelSummary]) -> Cause | None:
    told = _coded(levels, _HEAT)
    if told is None:
        return None
    return Cause(
        "heat-or-power",
        f"The GPU could not keep its speed: {_ended(told)}",
        (_COOLER,),
    )


def _failures(level: LevelSummary, _alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    """Most of what missed the service level failed: refused for want of room in the queue, or for whatever reason."""
    clause = next((c for c in level.clauses if c.clause.startswith("errors")), None)
    if clause is None or clause.miss_fraction is None or clause.miss_fraction <= clause.allowed_fraction:
        return None
    if clause.miss_fraction < _MOSTLY * max(c.miss_fraction or 0.0 for c in level.clauses):
        return None
    refused = sum(level.error_kinds.get(kind, 0) for kind in _REFUSALS)
    share, first = f"{clause.miss_fraction:.0%}", _ended(level.first_error or "no reason given")
    if refused >= _MOSTLY * level.n_errors:
        said = f"The server refuses people at {level.users}: {share} of requests, the first with: {first}"
        return Cause("slots", said, advice("slots", engine))
    said = f"Requests fail at {level.users} people: {share} of them, the first with: {first}"
    return Cause("not-seen", said, ("look into the server's log at the time of the run",))


def _memory(level: LevelSummary, _alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    used, told = level.kv_used_max_fraction, _coded([level], ("kv-full", "preemptions"))
    if told is None and (used is None or used < _FULL_KV_FRACTION):
        return None
    figure = told or f"the KV cache was {used:.0%} full"
    said = f"Memory for conversations gives out at {level.users} people: {_ended(figure)}"
    return Cause("kv-memory", said, advice("kv-memory", engine))


def _adapters(level: LevelSummary, _alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    """Requests wait for their adapter while slots are free: those of the bare model begin in time and those of adapters
    do not, or fewer adapters run at once than were asked for, though somebody waits."""
    adapted = [one for one in level.adapters if one.adapter]
    if len(adapted) < 2 or not _over(level) or _all_slots_taken(level, engine):
        return None
    bare = next((one for one in level.adapters if not one.adapter), None)
    slowest = max(adapted, key=lambda one: one.ttft_p95_s or 0.0)
    late_s, bare_s = slowest.ttft_p95_s or 0.0, bare.ttft_p95_s if bare is not None else None
    at_once, waiting = level.adapters_in_use_max, level.server_waiting_mean or 0.0
    if bare_s and late_s > _LATER * bare_s:
        said = (
            f"Adapters give out at {level.users} people: requests of {slowest.adapter} begin after {late_s:.2f} s "
            f"(p95), those of the model without adapters after {bare_s:.2f} s."
        )
    elif kind_of(engine) in _ONE_AT_A_TIME and _first_token_late(level):
        said = (
            f"Adapters give out at {level.users} people: this server never works on two of them at once, "
            f"and {len(level.adapters)} were asked for in turn."
        )
    elif at_once is not None and at_once < len(adapted) and waiting >= 0.5:
        said = (
            f"Adapters give out at {level.users} people: {len(adapted)} were asked for, at most {at_once:.0f} ran at "
            f"once while {waiting:.1f} requests waited."
        )
    else:
        return None
    return Cause("adapters", said, advice("adapters", engine))


def _first_token_late(level: LevelSummary) -> bool:
    return any(c.clause.startswith(("ttft", "first")) and c.misses > c.allowed_fraction * c.n for c in level.clauses)


def _all_slots_taken(level: LevelSummary, engine: EngineFacts | None) -> bool:
    slots, running = engine.slots if engine is not None else None, level.server_running_max
    return slots is not None and running is not None and running >= slots


def _slots(level: LevelSummary, _alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    slots = engine.slots if engine is not None else None
    running, waiting = level.server_running_max, level.server_waiting_mean
    told = _coded([level], ("engine-slots",))
    full = _all_slots_taken(level, engine)
    crowded = slots is not None and running is None and (level.in_flight_mean or 0.0) > slots + 0.5
    if told is None and not (full and (waiting or 0.0) >= 0.5) and not crowded:
        return None
    queued = waiting if waiting is not None else (level.in_flight_mean or 0.0) - (slots or 0)
    figure = told or f"all {slots} slots were taken and {queued:.1f} requests waited on average"
    return Cause(
        "slots", f"The server's slots give out at {level.users} people: {_ended(figure)}", advice("slots", engine)
    )


def _plateau(levels: Sequence[LevelSummary], engine: EngineFacts | None) -> Cause | None:
    """A server that does not tell its slots shows them: it never runs more, however many people wait."""
    seen = {s.users: s for s in levels if s.server_running_max and (s.server_waiting_mean or 0.0) >= 0.5}
    most = {s.server_running_max for s in seen.values()}
    if len(seen) < 2 or len(most) != 1:
        return None
    ran, waited = most.pop() or 0.0, max(s.server_waiting_mean or 0.0 for s in seen.values())
    said = (
        f"Slots give out: at {min(seen)} to {max(seen)} people the server ran {ran:.0f} requests at once, never more, "
        f"while up to {waited:.1f} waited on average."
    )
    return Cause("slots", said, advice("slots", engine))


def _speed(level: LevelSummary, alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    """Writing slows down as more are written at once, and it is a clause about speed or whole answers that breaks."""
    broken = {c.clause.partition("_")[0] for c in level.clauses if c.misses > c.allowed_fraction * c.n}
    tpot, before = level.tpot_s.p50, alone.tpot_s.p50 if alone is not None else None
    slower = tpot is not None and before is not None and tpot > _SLOWER * before
    if not (broken & {"tpot", "max"} or (slower and "e2e" in broken)):
        return None
    figures = f"one answer is written at {1.0 / tpot:.1f} tokens/s" if tpot else "answers are written too slowly"
    if before and tpot and alone is not None:
        with_whom = "1 person" if alone.users == 1 else f"{alone.users} people"
        figures += f", {1.0 / before:.1f} with {with_whom}"
    return Cause(
        "decode-bandwidth",
        f"Writing speed gives out at {level.users} people: {figures}; the GPU reads weights and contexts for all.",
        advice("decode-bandwidth", engine),
    )


def _first_token(level: LevelSummary, alone: LevelSummary | None, engine: EngineFacts | None) -> Cause | None:
    """First tokens come late while the server says that hardly anybody waits for a slot: prompts take their time."""
    waiting, running = level.server_waiting_mean, level.server_running_max
    if not _first_token_late(level) or waiting is None or running is None or waiting > 0.5 * running:
        return None
    before = f", {alone.ttft_s.p50:.2f} s with {alone.users}" if alone is not None and alone.ttft_s.p50 else ""
    return Cause(
        "prefill-compute",
        f"Reading prompts gives out at {level.users} people: the first token takes {level.ttft_s.p95 or 0.0:.2f} s "
        f"(p95{before}) though only {waiting:.1f} requests waited beside {running:.0f} that ran.",
        advice("prefill-compute", engine),
    )
