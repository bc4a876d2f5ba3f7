"""What is held once the search has its answer: a long soak, then everybody at once at the recommended number.

Which of them comes next, from what was held so far; what the burst showed. Pure; knows nothing of how a limit is found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.analysis.conclusions import Burst, Caution, LevelSummary, Limits, Plan
from headcount.analysis.search import Expects
from headcount.analysis.soak import kept, soaked_users
from headcount.analysis.table import Flags, Floats, Integers, Rows
from headcount.records import Level

__all__ = ["BURST", "SOAK", "burst_of", "burst_sentence", "checks_time_s", "next_check", "of_burst", "without_checks"]

BURST, SOAK = "burst", "soak"
SPOILS = frozenset({"client-lag", "send-delay", "client-cpu", "client-errors", "load-lost", "gpu-lost"})
"""Cautions that a burst may draw; all others speak of a steady load, which it is not."""
BURST_CYCLES, LEAST_CYCLES = 8.0, 2.0
"""Turn cycles a burst is watched for at most, and those without which it is not begun."""
SOAK_STEP = 0.8
"""After a soak that broke, so much of its people is tried next."""
MAX_SOAKS = 5


def without_checks(summaries: Sequence[LevelSummary]) -> list[LevelSummary]:
    """The levels of the search itself."""
    return [s for s in summaries if s.purpose not in (BURST, SOAK)]


def next_check(summaries: Sequence[LevelSummary], recommended_users: int | None, limits: Limits) -> Plan | None:
    """What to hold after the search; None when there is nothing more. ``recommended_users`` is the search's own."""
    if not recommended_users:
        return None
    soaks = [s for s in summaries if s.purpose == SOAK]
    if limits.soak_s > 0.0 and (plan := _next_soak(soaks, recommended_users, limits)) is not None:
        return plan
    users = soaked_users(soaks, recommended_users)
    if not _burst_wanted(summaries, users, limits):
        return None
    time_s = _burst_time_s(summaries, limits)
    return Plan(users, BURST, time_s) if time_s > 0.0 and users is not None else None


def checks_time_s(limits: Limits, expected: Expects) -> float:
    """How long the checks may be expected to take, before anything was measured."""
    burst_s = 3.0 * (expected.think_s + 3.0) if limits.burst and not limits.levels else 0.0
    return limits.soak_s + burst_s


def _next_soak(soaks: Sequence[LevelSummary], recommended_users: int, limits: Limits) -> Plan | None:
    """First the recommended number for the whole time; while it breaks, fewer people on the machine that is warm now,
    then once more between the last that broke and the one that did not."""
    if not soaks:
        return Plan(recommended_users, SOAK, limits.soak_s)
    if len(soaks) >= MAX_SOAKS:
        return None
    broke = min((s.users for s in soaks if not kept(s)), default=None)
    if broke is None:
        return None
    good = max((s.users for s in soaks if kept(s) and s.users < broke), default=0)
    time_s = min(limits.level_time_s, limits.soak_s)
    if not good:
        fewer = min(broke - 1, int(SOAK_STEP * broke))
        return Plan(fewer, SOAK, time_s) if fewer >= 1 else None
    between = (good + broke) // 2
    return Plan(between, SOAK, time_s) if between > good and broke > 1.1 * good else None


def _burst_wanted(summaries: Sequence[LevelSummary], users: int | None, limits: Limits) -> bool:
    """Only after a search, of people who stay until their level ends; of one person there is no crowd."""
    closed = all(s.arrivals == "closed" for s in summaries)
    done = any(s.purpose == BURST and (s.burst is not None or s.decision == "void") for s in summaries)
    return limits.burst and not limits.levels and closed and not done and users is not None and users > 1


def _burst_time_s(summaries: Sequence[LevelSummary], limits: Limits) -> float:
    """How long it may take; 0 when the time that is left is too short to see anything."""
    searched = without_checks(summaries)
    cycle_s = max((s.turn_cycle_s for s in searched if s.turn_cycle_s is not None), default=None)
    left_s = limits.max_time_s - sum(s.ended_at_s - s.began_at_s for s in searched)
    if cycle_s is None or left_s < LEAST_CYCLES * cycle_s:
        return 0.0
    return min(left_s, max(limits.level_time_s, LEAST_CYCLES * cycle_s), BURST_CYCLES * cycle_s)


# --- what a burst showed ----------------------------------------------------------------------


def burst_of(level: Level, rows: Rows, until_s: float, cautions: Sequence[Caution]) -> Burst | None:
    """The burst of one level; None while somebody's first answer is still out."""
    people, turn_of = _turns(rows)
    first = rows.where(turn_of == 0)
    if people < level.users and level.stopped_at_s is None:
        return None
    if len(first) == 0:
        return None
    waits_s = _waits_s(first)
    spoiled = next((caution.sentence for caution in cautions if caution.fatal and caution.code in SPOILS), "")
    return Burst(
        users=level.users,
        n_late=int(_late(first).sum()),
        worst_wait_s=float(waits_s.max()),
        median_wait_s=float(np.median(waits_s)),
        recovered_after_s=_recovered_after_s(level, rows, turn_of),
        watched_s=until_s - level.began_at_s,
        spoiled=spoiled,
    )


def of_burst(cautions: Sequence[Caution]) -> tuple[Caution, ...]:
    """Those that a burst may draw."""
    return tuple(caution for caution in cautions if caution.code in SPOILS)


def _recovered_after_s(level: Level, rows: Rows, turn_of: Integers) -> float | None:
    """When the last late one was answered before the first round of turns in which no more were late than may be."""
    late = _late(rows)
    answered_at_s = rows.scheduled_at_s + _waits_s(rows)
    for number in range(int(turn_of.max(initial=-1)) + 1):
        in_round = (turn_of == number) & ~_unknown(rows)
        if in_round.sum() < level.users:
            return None
        if not (late & in_round).sum() > (0.05 * level.users if number else 0.0):
            before = late & (turn_of < number)
            return float(answered_at_s[before].max() - level.began_at_s) if before.any() else 0.0
    return None


def _turns(rows: Rows) -> tuple[int, Integers]:
    """How many people there are, and of each request which of its person's it is, from 0."""
    order = np.lexsort((rows.scheduled_at_s, rows.person))
    person = rows.person[order]
    began = np.flatnonzero(np.concatenate([[True], person[1:] != person[:-1]])) if len(person) else np.array([], int)
    number = np.arange(len(person)) - np.repeat(began, np.diff(np.append(began, len(person))))
    turn_of = np.empty(len(person), np.intp)
    turn_of[order] = number
    return len(began), turn_of


def _late(rows: Rows) -> Flags:
    """Which missed a clause; a failed one misses all of them."""
    late = ~rows.good & ~rows.cut
    for place in range(rows.clauses):
        late |= rows.missed(place)
    return late


def _unknown(rows: Rows) -> Flags:
    """Cut before anything could be said of them."""
    return rows.cut & ~_late(rows)


def _waits_s(rows: Rows) -> Floats:
    """To the first token; of whole answers, and of what has none, all of its time."""
    return np.where(np.isnan(rows.ttft_s), rows.age_s, rows.ttft_s)


def burst_sentence(burst: Burst | None, summaries: Sequence[LevelSummary], users: int | None, limits: Limits) -> str:
    """What it showed, or that there was no time for it; empty where none was wanted or it is still to come."""
    if burst is None:
        if users and not limits.burst and not limits.levels:
            return "What happens when all press enter at once was not tried (--no-burst)."
        if _burst_wanted(summaries, users, limits) and _burst_time_s(summaries, limits) == 0.0:
            return "What happens when all press enter at once was not tried: the time was up."
        return ""
    if burst.spoiled:
        return f"What happens when all {burst.users} press enter at once could not be judged: {burst.spoiled}."
    users, waits = burst.users, _seconds(burst.worst_wait_s)
    if not burst.n_late:
        return f"When all {users} press enter at once the slowest waits {waits}, which is within the service level."
    if burst.recovered_after_s is None:
        watched = f"{burst.watched_s:.0f} s"
        return f"When all {users} press enter at once the slowest waits {waits}, and it was not normal after {watched}."
    after = _seconds(burst.recovered_after_s)
    return f"When all {users} press enter at once the slowest waits {waits}, and it is normal again after {after}."


def _seconds(time_s: float | None) -> str:
    return "–" if time_s is None else f"{time_s:.1f} s" if time_s < 10.0 else f"{time_s:.0f} s"
