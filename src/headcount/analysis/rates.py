"""The open loop: whether a queue grows ever more at one rate, and which rate of new conversations to hold next.

Pure functions of a level's facts and of the summaries so far. Near what a server can do the queue swings slowly, so a
trend counts only when it is both beyond chance and large for the arrivals of its window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from headcount.analysis.conclusions import Growth, LevelSummary, Limits, Plan
from headcount.analysis.table import Floats, Rows
from headcount.records import Level
from headcount.stats.trend import trend

__all__ = ["RateStanding", "growth_of", "next_rate", "rate_standings", "searches_rates", "stay_s"]

BINS = 24
"""Parts of the window whose means are looked at for a trend."""
LEAST_READINGS = 12
LEAST_STAYS, RUNNING_STAYS = 1.0, 1.5
"""For so long is looked at least, in stays of one person: at a level's end, and while it runs."""
SLOWED_SHARE = 0.3
"""Of the time that a longer queue costs: so much of it must be seen in the answers."""
SURE, VERY_SURE = 0.01, 0.001
"""Against chance: at a level's end, and while it runs, where it is looked at again and again."""
MATERIAL_FRACTION, CHANCE_FRACTION, LARGE_FRACTION = 0.02, 0.05, 0.1
"""Of the arrivals; a backlog that grows by less is as good as stable, also by the second where chance alone does that.
While a level runs only large growth ends it."""
LEAST_GROWTH = 6.0
"""In requests."""
FIRST_STAYS, OBSERVED_STAYS = 1.0, 3.0
"""A level fills for as long as one person stays, then it is observed so many stays."""
OBSERVED_LEAST_S = 30.0
BRACKET_REQUESTS, OBSERVED_REQUESTS = 60.0, 400.0
"""And until so many requests have come, where its time allows: far from the limit, and near it."""
STAY_REQUESTS = 20
"""A level of fewer says nothing of how long people stay."""
EASY_FRACTION = 0.4
NARROW = 1.6
"""The search ends when the lowest growing rate is within so many resolutions of the highest stable one."""
BELOW_SATURATION, ABOVE_SATURATION = 0.95, 1.06
"""What is tried around the rate at which an overloaded server completes."""
STABLE_VISITS = 2
MAX_LEVELS = 24


# --- one level --------------------------------------------------------------------------------


def growth_of(level: Level, rows: Rows, backlog: Floats, until_s: float) -> Growth | None:
    """Of the readings of unanswered requests since the level was full of people; None where that is too little to see
    anything. While the level runs only what is very sure is called growth, and nothing stable.

    A trend in their number alone is not enough: people come in clusters. A queue that grows makes each request take
    longer by what stands before it, so both must be seen.
    """
    running, full_at_s = level.stopped_at_s is None, level.started_at_s or level.began_at_s
    stays = (until_s - full_at_s) / max(full_at_s - level.began_at_s, 1e-9)
    arrived = int((rows.scheduled_at_s >= full_at_s).sum())
    if len(backlog) < LEAST_READINGS or arrived < 1 or stays < (RUNNING_STAYS if running else LEAST_STAYS):
        return None
    means = np.array([part.mean() for part in np.array_split(backlog, min(BINS, len(backlog)))])
    found = trend(means)
    grown = found.slope * (len(means) - 1)
    fraction = grown / arrived
    # Without any queue as many are unanswered as a Poisson number says: its excursions are not growth.
    chance = max(LEAST_GROWTH, (4.0 if running else 2.5) * math.sqrt(float(means[: len(means) // 2].mean())))
    sure = found.p_value < (VERY_SURE if running else SURE)
    material = grown > chance and fraction > (LARGE_FRACTION if running else MATERIAL_FRACTION)
    if sure and material and _slowed_down(rows, full_at_s, until_s, grown):
        return Growth("grows", fraction, found.p_value)
    stable = not running and fraction <= (CHANCE_FRACTION if grown <= chance else MATERIAL_FRACTION)
    return Growth("stable" if stable else "undecided", fraction, found.p_value)


def _slowed_down(rows: Rows, full_at_s: float, until_s: float, grown: float) -> bool:
    """Whether what was answered last took longer than at first, by a part of what so many more before it would cost."""
    length_s = until_s - full_at_s
    answered = rows.where(~rows.cut & (rows.ended_at_s >= full_at_s))
    early = answered.ended_at_s <= full_at_s + length_s / 3.0
    late = answered.ended_at_s > full_at_s + length_s / 1.5
    if early.sum() < 3 or late.sum() < 3:
        return bool(len(answered) < 9)  # hardly anything is answered at all
    slower_s = float(answered.age_s[late].mean() - answered.age_s[early].mean())
    return slower_s > SLOWED_SHARE * grown * length_s / len(answered)


# --- all levels -------------------------------------------------------------------------------


class RateStanding(msgspec.Struct, frozen=True):
    """What is known of one rate, over all visits to it."""

    rate_per_s: float
    stable: int
    grows: bool
    undecided: int
    visits: tuple[LevelSummary, ...]


def searches_rates(summaries: Sequence[LevelSummary]) -> bool:
    """Whether these are levels of a search for a rate."""
    return any(s.rate_per_s is not None and s.purpose != "fixed" for s in summaries)


def rate_standings(summaries: Sequence[LevelSummary]) -> dict[float, RateStanding]:
    """By rate, ascending; void levels left out."""
    visits: dict[float, list[LevelSummary]] = {}
    for summary in summaries:
        if summary.rate_per_s is not None and summary.decision != "void":
            visits.setdefault(summary.rate_per_s, []).append(summary)
    found = {}
    for rate_per_s in sorted(visits):
        decisions = [s.growth.decision if s.growth is not None else "undecided" for s in visits[rate_per_s]]
        counts = (decisions.count("stable"), "grows" in decisions, decisions.count("undecided"))
        found[rate_per_s] = RateStanding(rate_per_s, *counts, tuple(visits[rate_per_s]))
    return found


def stay_s(summaries: Sequence[LevelSummary]) -> float | None:
    """How long one person stays where nobody is in the way: by Little's law on the lowest rate; None when unknown."""
    known = [s for s in summaries if s.rate_per_s and s.inside_users_mean and s.n_requests >= STAY_REQUESTS]
    lowest = min(known, key=lambda s: s.rate_per_s or 0.0, default=None)
    if lowest is None or lowest.inside_users_mean is None or lowest.rate_per_s is None:
        return None
    return lowest.inside_users_mean / lowest.rate_per_s


def next_rate(summaries: Sequence[LevelSummary], limits: Limits, first_stay_s: float) -> Plan | None:
    """The rate that tells most now; None when the search is done, out of time, or cannot go on.

    ``first_stay_s`` is how long one person is expected to stay, before any was seen.
    """
    one_stay_s = stay_s(summaries) or first_stay_s
    chosen = _choose(summaries, limits, one_stay_s)
    if chosen is None or len(summaries) >= MAX_LEVELS:
        return None
    rate_per_s, purpose = chosen
    left_s = limits.max_time_s - sum(s.ended_at_s - s.began_at_s for s in summaries)
    turns, observed_s = _turns(summaries), max(OBSERVED_STAYS * one_stay_s, OBSERVED_LEAST_S)
    least_s = FIRST_STAYS * one_stay_s + observed_s
    if turns is not None:
        requests = BRACKET_REQUESTS if purpose == "bracket" else OBSERVED_REQUESTS
        observed_s = max(observed_s, requests / (rate_per_s * turns))
    time_s = min(FIRST_STAYS * one_stay_s + observed_s, limits.level_time_s)
    if left_s < min(time_s, least_s):
        return None
    return Plan(max(1, math.ceil(rate_per_s * one_stay_s)), purpose, min(time_s, left_s), rate_per_s)


def _choose(summaries: Sequence[LevelSummary], limits: Limits, one_stay_s: float) -> tuple[float, str] | None:
    known = rate_standings(summaries)
    top_per_s = limits.max_users / one_stay_s
    if not known:
        return None if len(summaries) >= 2 else (min(limits.start_rate_per_s, top_per_s), "bracket")
    last = summaries[-1]
    if last.decision == "void" and sum(s.decision == "void" and s.rate_per_s == last.rate_per_s for s in summaries) < 2:
        return last.rate_per_s or limits.start_rate_per_s, last.purpose
    growing = [s.rate_per_s for s in known.values() if s.grows]
    high = min(growing, default=math.inf)
    stable = [s for s in known.values() if s.stable and not s.grows and s.rate_per_s < high]
    highest = known[max(known)]
    if not growing and not highest.stable and highest.undecided < 2:
        return highest.rate_per_s, "refine"
    if not stable:
        lowest = min(known)
        return (lowest / 4.0, "bracket") if lowest * one_stay_s > 0.05 else None
    low = stable[-1]
    if not growing:
        return _upwards(low, highest.rate_per_s, top_per_s)
    unclear = min((s.rate_per_s for s in known.values() if low.rate_per_s < s.rate_per_s < high), default=high)
    if unclear > low.rate_per_s * (1.0 + NARROW * limits.resolution):
        return _between(low.rate_per_s, unclear, _saturated_per_s(known, low), limits), "refine"
    wanted = min(STABLE_VISITS, limits.confirmations)
    if low.stable < wanted and len(low.visits) < 2 * wanted:
        return low.rate_per_s, "confirm"
    return None


def _upwards(low: RateStanding, highest_per_s: float, top_per_s: float) -> tuple[float, str] | None:
    """Nothing grew yet: up in steps of two or four to the most people that may be inside."""
    if highest_per_s >= top_per_s * 0.999:
        return None if low.stable >= STABLE_VISITS or low.rate_per_s < highest_per_s else (highest_per_s, "confirm")
    clauses = [c for c in low.visits[-1].clauses if c.value is not None and c.bound is not None]
    easy = all((c.value or 0.0) <= EASY_FRACTION * (c.bound or 0.0) for c in clauses)
    return min(highest_per_s * (4.0 if easy else 2.0), top_per_s), "bracket"


def _between(low_per_s: float, high_per_s: float, saturated_per_s: float | None, limits: Limits) -> float:
    """Just below the rate at which the overloaded server completes, then just above, while those lie between."""
    step = 1.0 + 0.5 * limits.resolution
    for share in (BELOW_SATURATION, ABOVE_SATURATION):
        if saturated_per_s is not None and low_per_s * step < share * saturated_per_s < high_per_s / step:
            return share * saturated_per_s
    return math.sqrt(low_per_s * high_per_s)


def _turns(summaries: Sequence[LevelSummary]) -> float | None:
    """Requests of one conversation, as seen at a rate that was stable; None when none was."""
    seen = [s for s in summaries if s.rate_per_s and s.requests_per_s and s.growth and s.growth.decision == "stable"]
    most = max(seen, key=lambda s: s.n_requests, default=None)
    return most.requests_per_s / most.rate_per_s if most and most.requests_per_s and most.rate_per_s else None


def _saturated_per_s(known: dict[float, RateStanding], low: RateStanding) -> float | None:
    """New conversations a second that the server completes when more come: at the lowest rate that grew."""
    turns = _turns(low.visits)
    visits = [v for s in known.values() if s.grows for v in s.visits if v.requests_per_s and v.n_requests >= 30]
    if not visits or turns is None:
        return None
    return (visits[0].requests_per_s or 0.0) / turns
