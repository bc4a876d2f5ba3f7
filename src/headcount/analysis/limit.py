"""Where the limit lies, from the summaries of all levels so far: a fit that is local to the boundary.

Shared by the search and the verdict, so that both speak of the same interval. Knows nothing of what comes next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from headcount.analysis.conclusions import ClauseResult, LevelSummary
from headcount.stats.crossing import Crossing, Floats, crossing
from headcount.stats.special import beta_cdf

__all__ = ["LimitFit", "believable", "doubt", "fit_limit", "saw_a_cycle"]

NEAR = 0.35
"""Levels within this distance of the boundary, in the logarithm of users, count in full; so does the nearest of each
side."""
FAR_N = 5.0
"""What the others count for at most: they say on which side the limit lies, not how steeply the misses rise."""
SHORT_CYCLES = 2.0
"""Neither do visits whose window is shorter than this: a queue takes that long to build up."""
SCATTER_VISITS, LEAST_SCATTER = 3.0, 1.5
"""How many visits are taken to have scattered as they should before any was seen; and what is never gone below: 40
visits to each of 16 servers at their limit scattered 1.4 times as much as their blocks said (median; 0.6 to 2.3)."""
_SIDE_PURPOSES = ("burst", "soak", "probe")


class LimitFit:
    """What is believed of the number of people at which the first clause breaks."""

    def __init__(self, parts: Sequence[Crossing]) -> None:
        self._parts = parts

    def at_least(self, users: float) -> float:
        """Probability that the limit lies at or above so many people."""
        return math.prod(part.beyond(math.log(users)) for part in self._parts)

    def quantile(self, share: float) -> float:
        """The number of people, not whole, below which the limit lies with this probability."""
        low = min(float(part.x[0]) for part in self._parts)
        high = max(float(part.x[-1]) for part in self._parts)
        for _ in range(50):
            middle = 0.5 * (low + high)
            if 1.0 - self.at_least(math.exp(middle)) < share:
                low = middle
            else:
                high = middle
        return math.exp(0.5 * (low + high))

    def interval_users(self, confidence: float = 0.95) -> tuple[float, float]:
        """Whole numbers of people between which the limit lies."""
        tail = 0.5 * (1.0 - confidence)
        return float(math.floor(self.quantile(tail))), float(math.floor(self.quantile(1.0 - tail)))


def believable(summaries: Iterable[LevelSummary]) -> list[LevelSummary]:
    """Levels of the search that were not voided and tell something, if only by requests that were cut."""
    return [
        s
        for s in summaries
        if s.decision != "void" and s.purpose not in _SIDE_PURPOSES and any(c.n > 0 for c in s.clauses)
    ]


def saw_a_cycle(level: LevelSummary) -> bool:
    """Whether its window is at least a turn cycle long; a shorter one sees the quick answers end, and few of the slow
    ones, and counts what was begun before it: its waits and its throughput are not those of the load. Unknown is long:
    other tools do not cut short."""
    return level.n_requests > 0 and (level.turn_cycle_s is None or level.window_s >= level.turn_cycle_s)


def doubt(summaries: Iterable[LevelSummary]) -> float:
    """Probability that more miss than may, in the worst clause, by what these visits to one level showed together.

    With Jeffreys' prior and effective counts; 0.5 and more before anything was seen of a clause.
    """
    n: dict[str, float] = defaultdict(float)
    misses: dict[str, float] = defaultdict(float)
    allowed: dict[str, float] = {}
    for clause in (c for s in summaries for c in s.clauses if c.n > 0):
        worth = (clause.n if clause.n_effective is None else clause.n_effective) / clause.n / LEAST_SCATTER
        n[clause.clause] += clause.n * worth
        misses[clause.clause] += clause.misses * worth
        allowed[clause.clause] = clause.allowed_fraction
    return max(
        (1.0 - beta_cdf(allowed[c], misses[c] + 0.5, n[c] - misses[c] + 0.5) for c in n if _judgeable(c)), default=0.5
    )


def _judgeable(clause: str) -> bool:
    """Rare errors are guarded by the level test; too few requests ever say how rare they are."""
    return not clause.startswith("errors")


def fit_limit(summaries: Sequence[LevelSummary]) -> LimitFit | None:
    """Fit each clause that was seen to break somewhere; the limit is where the first of them breaks.

    None when no clause was ever over what is allowed, or no level can be believed.
    """
    levels = believable(summaries)
    names = dict.fromkeys(c.clause for s in levels for c in s.clauses)
    parts = []
    for name in names:
        seen = [(s, c) for s in levels for c in s.clauses if c.clause == name and c.n > 0]
        if any(c.misses > c.allowed_fraction * c.n for _, c in seen):
            parts.append(_fit_clause(seen))
    return LimitFit(parts) if parts else None


def _fit_clause(seen: list[tuple[LevelSummary, ClauseResult]]) -> Crossing:
    x = np.log([float(level.users) for level, _ in seen])
    short = np.array([level.window_s < SHORT_CYCLES * (level.turn_cycle_s or math.inf) for level, _ in seen])
    n = np.array([c.n if c.n_effective is None else c.n_effective for _, c in seen], float)
    misses = n * np.array([c.misses / c.n for _, c in seen])
    share = min(max(seen[0][1].allowed_fraction, 1e-4), 1.0 - 1e-4)
    first = crossing(x, n, misses, share)
    distance = x - first.quantile(0.5)
    reach_below = max(NEAR, float(-distance[distance <= 0].max(initial=-math.inf)))
    reach_above = max(NEAR, float(distance[distance > 0].min(initial=math.inf)))
    near = (distance >= -reach_below) & (distance <= reach_above) & ~short
    weight = np.where(near, 1.0, np.minimum(1.0, FAR_N / np.maximum(n, 1e-9)))
    n, misses = n * weight, misses * weight
    local = crossing(x, n, misses, share)
    scatter = _scatter(misses, n, local.shares(x))
    return crossing(x, n / scatter, misses / scatter, share)


def _scatter(misses: Floats, n: Floats, expected: Floats) -> float:
    """How much more the visits scatter about the fit than their blocks say they should.

    Excursions longer than a visit show only here. Few visits tell little: as if ``SCATTER_VISITS`` more had scattered
    just as they should.
    """
    variance = np.maximum(n * expected * (1.0 - expected), 0.25)
    chi_square = float(((misses - n * expected) ** 2 / variance).sum())
    seen = (SCATTER_VISITS + chi_square) / (SCATTER_VISITS + max(0.0, len(n) - 2.0))
    return max(LEAST_SCATTER, seen)
