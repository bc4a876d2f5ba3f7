"""Which level to hold next: a pure function of the summaries so far.

Bracket by doubling, refine where the limit is most uncertain, confirm by repeats. The same for a server, the
simulator, a stored run that is continued, and invented summaries in tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from headcount.analysis.conclusions import LevelSummary, Limits, Plan
from headcount.analysis.limit import LimitFit, believable, fit_limit, over_allowed

__all__ = ["Standing", "estimate_s", "next_level", "spent_s", "standings"]

FIRST_LEVEL_S = 30.0
"""The first level, when nothing is known of how long a turn takes."""
BRACKET_REQUESTS, REFINE_REQUESTS = 80, 350
"""How many requests a level should show when it is far from the limit, and near it."""
CONFIRM_BELIEF = 0.75
"""The candidate is the largest number that the limit reaches with this probability."""
MAX_REFINED = 4
MAX_LEVELS = 60
MAX_NEUTRAL = 2
"""Visits that neither held nor missed too much, after which a candidate is given up."""


class Expects(Protocol):
    """What is expected of the workload before anything was measured."""

    @property
    def think_s(self) -> float:
        """Mean pause after an answer."""


class Standing:
    """What is known of one number of people, over all visits to it."""

    def __init__(self, users: int, visits: Sequence[LevelSummary]) -> None:
        self.users = users
        self.held = sum(v.decision == "holds" for v in visits)
        """In how many separate visits it held; the search never makes two of them in a row."""
        self.failed = any(v.decision == "fails" for v in visits)
        self.over = self.failed or any(v.decision == "undecided" and over_allowed(v) for v in visits)
        """Whether any visit missed more than may be, decided or not."""
        self.neutral = sum(v.decision == "undecided" and not over_allowed(v) for v in visits)

    @property
    def clean(self) -> bool:
        """Nothing was seen against it."""
        return not self.over


def standings(summaries: Sequence[LevelSummary]) -> dict[int, Standing]:
    """By number of people, ascending; void levels and other purposes left out."""
    visits: dict[int, list[LevelSummary]] = defaultdict(list)
    for summary in believable(summaries):
        visits[summary.users].append(summary)
    return {users: Standing(users, visits[users]) for users in sorted(visits)}


def spent_s(summaries: Sequence[LevelSummary]) -> float:
    """Time the levels so far took; pauses between them, as of a run that was continued later, do not count."""
    return sum(s.ended_at_s - s.began_at_s for s in summaries)


def next_level(summaries: Sequence[LevelSummary], limits: Limits) -> Plan | None:
    """The level that tells most now; None when the search is done, out of time, or cannot go on."""
    if limits.levels:
        return _next_fixed(summaries, limits)
    if len(summaries) >= MAX_LEVELS:
        return None
    chosen = _choose(summaries, limits)
    if chosen is None:
        return None
    users, purpose = chosen
    return _timed(users, purpose, summaries, limits)


def estimate_s(limits: Limits, expected: Expects | None = None) -> float:
    """How long the whole may take, before anything was measured: a typical search, never beyond its ceiling."""
    if limits.levels:
        return min(limits.max_time_s, limits.level_time_s * len(limits.levels))
    cycle_s = (expected.think_s if expected else 2.0) + 3.0
    doublings = max(3.0, math.log2(max(2.0, min(limits.max_users, 64) / limits.start_users)))
    near_levels = 2.0 + 2.0 * limits.confirmations
    return min(limits.max_time_s, doublings * 5.0 * cycle_s + near_levels * min(limits.level_time_s, 8.0 * cycle_s))


# --- which ------------------------------------------------------------------------------------


def _next_fixed(summaries: Sequence[LevelSummary], limits: Limits) -> Plan | None:
    """The next of the given levels that was not held yet; a void one gets a second chance at once."""
    if summaries and _void_once(summaries):
        return Plan(summaries[-1].users, "fixed", limits.level_time_s)
    done = {s.users for s in summaries}
    left_s = limits.max_time_s - spent_s(summaries)
    for users in limits.levels:
        if users not in done:
            return Plan(users, "fixed", min(limits.level_time_s, left_s)) if left_s > 0 else None
    return None


def _void_once(summaries: Sequence[LevelSummary]) -> bool:
    """Whether the last level was voided, and is the only void one with so many people."""
    last = summaries[-1]
    return last.decision == "void" and sum(s.decision == "void" and s.users == last.users for s in summaries) == 1


def _choose(summaries: Sequence[LevelSummary], limits: Limits) -> tuple[int, str] | None:
    if not summaries:
        return min(limits.start_users, limits.max_users), "bracket"
    last = summaries[-1]
    if last.decision == "void" and _void_once(summaries):
        return last.users, last.purpose
    void = [s.users for s in summaries if s.decision == "void"]
    top = min([limits.max_users, *(users - 1 for users in void if void.count(users) >= 2)])
    known = standings(summaries)
    if top < 1:
        return None
    if not known:
        return max(1, top // 2), "bracket"
    over = [s.users for s in known.values() if s.over]
    if not over:
        return _upwards(known, summaries, limits, top)
    clean_below = [s.users for s in known.values() if s.clean and s.users < min(over)]
    if not clean_below:
        return _downwards(known, summaries, min(over))
    return _between(known, summaries, limits, max(clean_below), min(over))


def _upwards(
    known: dict[int, Standing], summaries: Sequence[LevelSummary], limits: Limits, top: int
) -> tuple[int, str] | None:
    """Nothing broke yet: double, or confirm the top of the range."""
    highest = max(known)
    if highest < top:
        return min(2 * highest, top), "bracket"
    if known[highest].held >= limits.confirmations or known[highest].neutral > limits.confirmations:
        return None
    if summaries[-1].users == highest and highest > 1:
        return max(1, round(highest / 2)), "bracket"
    return highest, "confirm"


def _downwards(known: dict[int, Standing], summaries: Sequence[LevelSummary], lowest: int) -> tuple[int, str] | None:
    """Everything so far was too much: halve, down to one person."""
    if lowest > 1:
        return lowest // 2, "bracket"
    visits = sum(s.users == 1 for s in summaries)
    return None if known[1].failed or visits >= 3 else (1, "refine")


def _between(
    known: dict[int, Standing], summaries: Sequence[LevelSummary], limits: Limits, clean: int, over: int
) -> tuple[int, str] | None:
    """Between a level without trouble and one with: refine the fit, then confirm below it."""
    fit = fit_limit(summaries)
    assert fit is not None  # a level was over what is allowed, so there is something to fit
    low, high = fit.interval_users()
    refined = sum(s.purpose == "refine" for s in summaries)
    wide = high - low > 2 and high > low * (1.0 + limits.resolution) ** 2
    if wide and over - clean > 1 and refined < MAX_REFINED:
        users = min(max(round(fit.quantile(0.5)), clean + 1), over - 1)
        return users, "refine"
    candidate = _candidate(known, fit, over)
    if candidate is None:
        return (clean // 2, "bracket") if clean > 1 else None
    if candidate in known and known[candidate].held >= limits.confirmations:
        return None
    if summaries[-1].users == candidate:
        return _above(candidate, fit, limits), "refine"
    return candidate, "confirm"


def _candidate(known: dict[int, Standing], fit: LimitFit, over: int) -> int | None:
    """The largest number of people that the limit reaches in all likelihood and against which nothing was seen."""
    believed = math.floor(fit.quantile(1.0 - CONFIRM_BELIEF))
    for users in range(min(max(believed, 1), over - 1), 0, -1):
        standing = known.get(users)
        if standing is None or (standing.clean and (standing.neutral <= MAX_NEUTRAL or standing.held > 0)):
            return users
    return None


def _above(candidate: int, fit: LimitFit, limits: Limits) -> int:
    """What is measured between two confirmations: a level that probably fails, close by; it sharpens the fit."""
    step = max(1, round(limits.resolution * candidate))
    return min(max(candidate + step, round(fit.quantile(0.8))), 2 * candidate, limits.max_users) if candidate > 1 else 2


# --- how long ---------------------------------------------------------------------------------


def _timed(users: int, purpose: str, summaries: Sequence[LevelSummary], limits: Limits) -> Plan | None:
    """Give a level the time it needs for enough requests; None when that much is not left."""
    left_s = limits.max_time_s - spent_s(summaries)
    cycle_s = _cycle_s(users, summaries)
    if cycle_s is None:
        wanted_s = FIRST_LEVEL_S * 2.0 ** sum(s.n_requests == 0 for s in summaries)
        shortest_s = 0.0
    else:
        requests = BRACKET_REQUESTS if purpose == "bracket" else REFINE_REQUESTS
        overhead_s = 2.5 * cycle_s
        wanted_s = overhead_s + max(4.0 * cycle_s, requests * cycle_s / users)
        if purpose == "bracket":
            wanted_s = min(wanted_s, max(overhead_s + 4.0 * cycle_s, FIRST_LEVEL_S))
        shortest_s = overhead_s + 2.0 * cycle_s
    time_s = min(wanted_s, limits.level_time_s, left_s)
    return Plan(users, purpose, time_s) if time_s > shortest_s or (not summaries and time_s > 0) else None


def _cycle_s(users: int, summaries: Sequence[LevelSummary]) -> float | None:
    """The turn cycle to expect: that of the nearest level, longer in proportion where it had fewer people."""
    known = [s for s in summaries if s.turn_cycle_s is not None]
    nearest = min(known, key=lambda s: abs(math.log(users / s.users)), default=None)
    if nearest is None or nearest.turn_cycle_s is None:
        return None
    return nearest.turn_cycle_s * max(1.0, users / nearest.users) if nearest.users < users else nearest.turn_cycle_s
