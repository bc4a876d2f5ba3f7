"""Which level to hold next: a pure function of the summaries so far.

Bracket by doubling, refine where the limit is most uncertain, confirm by repeats. The same for a server, the
simulator, a stored run that is continued, and invented summaries in tests.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

from headcount.analysis.conclusions import LevelSummary, Limits, Plan
from headcount.analysis.limit import LimitFit, believable, doubt, fit_limit
from headcount.slo import Clause

__all__ = ["Expects", "Standing", "estimate_s", "next_level", "spent_s", "standings"]

FIRST_LEVEL_S = 12.0
"""The first level, while nothing is known of how long a turn takes; doubled when nobody finished one."""
NEAR_REQUESTS = 150
"""How many requests a level near the limit should show, where the time allows."""
LEAST_REQUESTS = 62
"""What it must show at least, to decide about a p95."""
OVERHEAD_CYCLES = 2.25
"""What a level takes before its steady window begins: starting everybody, and warming up."""
BRACKET_CYCLES, REFINE_CYCLES, CONFIRM_CYCLES = 0.6, 4.0, 6.0
"""The steady window of a level, in turn cycles: far from the limit, near it, and to confirm."""
LEAST_CYCLES, CROWD_CYCLES = 3.0, 2.25
"""What it is at least near the limit, with a few people and with very many."""
BEGUN = 0.1
"""The candidate is where the limit lies at even odds. A number within this much probability of it that has held before
goes first: it needs fewer visits."""
WIDE, FULL_WAIT = 1.3, 0.7
"""While the levels below and above the limit are further apart than this, what they showed tells better than the fit
where it lies; and how long people wait on average, in bounds, where 5 % wait longer than the bound in a queue."""
OVER_DOUBT = 0.9
"""A level is over the limit when more miss than may with this probability."""
FIRST_STRIDE, EASY_STRIDE, STRIDE = 16, 4, 2
"""How many times as many people the next level has: after one or two persons, while waits are easy, and else."""
EASY_FRACTION = 0.4
"""Waits below this share of their bounds are easy."""
MIN_REFINED, MAX_REFINED = 2, 4
"""How many levels refine before the first confirmation: at least, where there is room for them, and at most."""
TYPICAL_ANSWER_S, TYPICAL_BRACKETS, TYPICAL_VISIT_CYCLES = 3.0, 4.0, 7.6
"""For the estimate: an answer of which nothing is known, levels until one is too much, and the turn cycles of a visit
near the limit, of which there are two for each confirmation and two more: medians of simulated searches."""
MAX_LEVELS = 60
MAX_EMPTY = 3
"""Visits, each twice as long as the one before, in which nobody finished a turn: the server does not answer in time."""
MAX_CONFIRMING = 5
"""Visits that confirm, as often as confirmations are asked for, after which what is confirmed is good enough."""
MAX_UNHELD = 2
"""Visits to a candidate that did not hold, after which it is given up."""


class Expects(Protocol):
    """What is expected of the workload before anything was measured."""

    @property
    def think_s(self) -> float:
        """Mean pause after an answer."""


class Standing:
    """What is known of one number of people, over all visits to it."""

    def __init__(self, users: int, visits: Sequence[LevelSummary]) -> None:
        self.users = users
        self.visits = tuple(visits)
        self.held = sum(v.decision == "holds" for v in visits)
        """In how many separate visits it held; the search never makes two of them in a row."""
        self.failed = any(v.decision == "fails" for v in visits)
        self.doubt = doubt(visits)
        self.over = self.failed or self.doubt >= OVER_DOUBT
        """Whether it is held to be beyond the limit; one visit that fails is enough."""
        self.unheld = sum(v.decision == "undecided" and v.purpose == "confirm" for v in visits)

    @property
    def acceptable(self) -> bool:
        """Whether it may still turn out to be the limit."""
        return not self.over and self.unheld < MAX_UNHELD

    @property
    def unclear(self) -> bool:
        """Whether it looks as likely to be over the limit as not."""
        return not self.over and self.doubt > 0.5 and any(c.misses for v in self.visits for c in v.clauses)


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


def estimate_s(
    limits: Limits, expected: Expects | None = None, slo: Sequence[Clause] = (), answer_s: float | None = None
) -> float:
    """How long the search may take, before anything was measured: never beyond its ceiling.

    ``answer_s`` is how long an answer takes without anybody else, a few seconds where that is not known. A search takes
    about as many turn cycles whatever the server; at the limit a cycle is longer by about the wait that is allowed.
    """
    if limits.levels:
        return min(limits.max_time_s, limits.level_time_s * len(limits.levels))
    alone_s = TYPICAL_ANSWER_S if answer_s is None else answer_s
    waits_s = [clause.bound for clause in slo if clause.metric in ("ttft", "first_answer")]
    whole_s = [clause.bound for clause in slo if clause.metric == "e2e"]
    answered_s = min([alone_s + min(waits_s, default=0.0), *(max(alone_s, bound_s) for bound_s in whole_s)])
    cycle_s = (expected.think_s if expected else 2.0) + answered_s
    bracket_s = TYPICAL_BRACKETS * (OVERHEAD_CYCLES + BRACKET_CYCLES) * cycle_s
    visit_s = min(limits.level_time_s, TYPICAL_VISIT_CYCLES * cycle_s)
    return min(limits.max_time_s, bracket_s + 2.0 * (1.0 + limits.confirmations) * visit_s)


# --- which ------------------------------------------------------------------------------------


def _next_fixed(summaries: Sequence[LevelSummary], limits: Limits) -> Plan | None:
    """The next of the given levels that was not held as often as it is given; a void one gets a second chance at
    once."""
    if summaries and _void_once(summaries):
        return Plan(summaries[-1].users, "fixed", limits.level_time_s)
    left_s = limits.max_time_s - spent_s(summaries)
    done = Counter(s.users for s in summaries)
    done.subtract({s.users for s in summaries if s.decision == "void"})
    for users in limits.levels:
        done[users] -= 1
        if done[users] < 0:
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
        if sum(s.users == last.users for s in summaries) > MAX_EMPTY:
            return None
        # Nobody finished a turn in the steady window: as soon as it is known how long one takes, more people will.
        return (last.users if last.turn_cycle_s is None else min(FIRST_STRIDE * last.users, top)), "bracket"
    over = [s.users for s in known.values() if s.over]
    if not over:
        return _upwards(known, summaries, limits, top)
    below = [s.users for s in known.values() if not s.unclear and s.users < min(over)]
    if not below:
        return _downwards(known, min(over))
    return _between(known, summaries, limits, max(below), min(over))


def _upwards(
    known: dict[int, Standing], summaries: Sequence[LevelSummary], limits: Limits, top: int
) -> tuple[int, str] | None:
    """Nothing broke yet: go up in steps of two or four, or confirm the top of the range."""
    highest = known[max(known)]
    if highest.unclear and len(highest.visits) < 3:
        return highest.users, "refine"
    if highest.users < top:
        return min(_stride(highest) * highest.users, top), "bracket"
    if highest.held >= limits.confirmations or highest.unheld >= MAX_UNHELD:
        return None
    if summaries[-1].users == highest.users and highest.users > 1:
        return math.ceil(highest.users / 2), "bracket"
    return highest.users, "confirm"


def _stride(standing: Standing) -> int:
    """How many times as many people come next: the more, the further every wait stayed below its bound."""
    clauses = [c for visit in standing.visits for c in visit.clauses if c.bound is not None and c.n > 0]
    easy = all(c.value is not None and c.value <= EASY_FRACTION * (c.bound or 0.0) for c in clauses)
    if not easy:
        return STRIDE
    return FIRST_STRIDE if standing.users <= 2 else EASY_STRIDE


def _downwards(known: dict[int, Standing], lowest: int) -> tuple[int, str] | None:
    """Everything so far was too much: go down to a quarter, a half, to one person."""
    unclear = [s for s in known.values() if s.unclear and s.users < lowest and len(s.visits) < 3]
    if unclear:
        return unclear[0].users, "refine"
    smaller = min(known)
    if smaller > 1:
        return max(1, smaller // (4 if smaller >= 16 else 2)), "bracket"
    return None if known[1].failed or len(known[1].visits) >= 3 else (1, "refine")


def _between(
    known: dict[int, Standing], summaries: Sequence[LevelSummary], limits: Limits, below: int, over: int
) -> tuple[int, str] | None:
    """Between a level without trouble and one with: refine the fit, then confirm below it."""
    fit = fit_limit(summaries)
    if fit is None:  # it failed by cut requests alone
        return ((below + over) // 2, "refine") if over - below > 1 else None
    low, high = fit.interval_users()
    refined = sum(s.purpose == "refine" for s in summaries)
    narrow = high - low <= 2 or high <= low * (1.0 + limits.resolution) ** 2
    nothing_between = over > WIDE * below and not any(below < users < over for users in known)
    guess = _interpolated(known[below], known[over]) if nothing_between else fit.quantile(0.5)
    candidate = _candidate(known, fit, guess, over, limits)
    pressed = candidate is not None and _pressed(known, candidate, summaries, limits)
    enough = narrow or refined >= (MIN_REFINED if pressed else MAX_REFINED)
    between = min(max(round(guess), below + 1), over - 1)
    if over - below > 1 and not enough and between != summaries[-1].users:
        return between, "refine"
    if candidate is None:
        return (below // 2, "bracket") if below > 1 else None
    done = max((s.users for s in known.values() if s.held >= limits.confirmations and s.users < over), default=0)
    if done:
        confirming = sum(s.purpose == "confirm" for s in summaries)
        if confirming >= MAX_CONFIRMING * limits.confirmations or _exact_enough(done, fit, limits):
            return None
        if candidate <= done:
            higher = _higher(known, done, fit, over)
            if higher is None:
                return None
            candidate = higher
    if summaries[-1].users == candidate:
        return _meanwhile(known, candidate, fit, over, limits)
    return candidate, "confirm"


def _exact_enough(confirmed: int, fit: LimitFit, limits: Limits) -> bool:
    """Whether the limit hardly lies further above a confirmed number of people than the resolution, or one person."""
    return math.floor(fit.quantile(0.9)) <= max(confirmed + 1.0, confirmed * (1.0 + limits.resolution))


def _higher(known: dict[int, Standing], confirmed: int, fit: LimitFit, over: int) -> int | None:
    """A larger number of people that may be confirmed as well."""
    highest = min(over - 1, max(confirmed + 1, math.floor(fit.quantile(0.5))))
    return next((u for u in range(highest, confirmed, -1) if u not in known or known[u].acceptable), None)


def _interpolated(below: Standing, over: Standing) -> float:
    """Where the first clause meets its bound, by what a level below the limit and one above it showed.

    A server that is full answers as many a second as it can: the people whom that serves are those whose turn cycle,
    as long as below the limit and with a wait within the bound, it fills. A straight line between both waits lies
    below the truth, since waits stay low until the server is full; for speed of writing it is all there is.
    """
    low, high = below.visits[-1], over.visits[-1]
    guesses = []
    for before, after in zip(low.clauses, high.clauses, strict=False):
        bound = after.bound
        if before.value is None or after.value is None or bound is None or not before.value < bound < after.value:
            continue
        straight = low.users + (bound - before.value) / (after.value - before.value) * (high.users - low.users)
        full = straight
        if after.clause.startswith("ttft") and high.requests_per_s and low.turn_cycle_s:
            full = max(straight, high.requests_per_s * (low.turn_cycle_s + FULL_WAIT * bound))
        guesses.append(0.5 * (straight + full))
    ratio = high.users / low.users
    guess = min(guesses, default=math.sqrt(low.users * high.users))
    return float(min(max(guess, low.users * ratio**0.15), low.users * ratio**0.85))


def _pressed(known: dict[int, Standing], candidate: int, summaries: Sequence[LevelSummary], limits: Limits) -> bool:
    """Whether the time left is only enough to confirm the candidate."""
    held = known[candidate].held if candidate in known else 0
    visits = 2 * (limits.confirmations - held)
    cycle_s = _cycle_s(candidate, summaries)
    return cycle_s is not None and limits.max_time_s - spent_s(summaries) < visits * _least_s(candidate, cycle_s)


def _candidate(known: dict[int, Standing], fit: LimitFit, guess: float, over: int, limits: Limits) -> int | None:
    """The number of people to confirm: that of the guess, or one as likely that held before; none given up."""
    believed = math.floor(guess)
    step = 0.5 * limits.resolution
    given_up = [s.users for s in known.values() if s.unheld >= MAX_UNHELD]
    below_those = min((math.floor(min(u - 1.0, u / (1.0 + step))) for u in given_up), default=over - 1)
    believed = min(max(min(believed, below_those), 1), over - 1)
    low, high = math.floor(fit.quantile(0.5 - BEGUN)), math.floor(fit.quantile(0.5 + BEGUN))
    begun = [s for s in known.values() if low <= s.users <= high and s.held and s.acceptable and s.users < over]
    if begun:
        return max(begun, key=lambda s: (s.held, s.users)).users
    return next((u for u in range(believed, 0, -1) if u not in known or known[u].acceptable), None)


def _meanwhile(known: dict[int, Standing], candidate: int, fit: LimitFit, over: int, limits: Limits) -> tuple[int, str]:
    """What is measured between two confirmations of a candidate, since they must not follow each other.

    A level above that probably fails, until one close by has; then the next smaller candidate, in case this one breaks.
    """
    step = max(1, round(0.5 * limits.resolution * candidate))
    below = candidate - step
    if over <= candidate + 2 * step and below >= 1 and (below not in known or known[below].acceptable):
        return below, "confirm"
    return min(max(candidate + step, round(fit.quantile(0.8))), 2 * candidate, limits.max_users), "refine"


# --- how long ---------------------------------------------------------------------------------


def _timed(users: int, purpose: str, summaries: Sequence[LevelSummary], limits: Limits) -> Plan | None:
    """Give a level the time it needs for enough requests; None when that much is not left."""
    left_s = limits.max_time_s - spent_s(summaries)
    cycle_s = _cycle_s(users, summaries)
    if cycle_s is None:
        time_s = min(FIRST_LEVEL_S * 2.0 ** len(summaries), limits.level_time_s, left_s)
        return Plan(users, purpose, time_s) if time_s > 0 else None
    overhead_s, least_s = OVERHEAD_CYCLES * cycle_s, _least_s(users, cycle_s)
    if purpose == "bracket":
        wanted_s = least_s = overhead_s + BRACKET_CYCLES * cycle_s
    else:
        cycles = CONFIRM_CYCLES if purpose == "confirm" else REFINE_CYCLES
        wanted_s = overhead_s + cycle_s * max(cycles, NEAR_REQUESTS / users)
        visits = 2 * limits.confirmations
        wanted_s = max(least_s, min(wanted_s, left_s / visits))
        if wanted_s <= left_s < wanted_s + least_s:
            wanted_s = left_s  # nothing more would fit after it
    empty = sum(s.users == users and s.n_requests == 0 for s in summaries)
    time_s = min(wanted_s * 2.0**empty, limits.level_time_s)
    return Plan(users, purpose, time_s) if min(time_s, least_s) <= left_s else None


def _least_s(users: int, cycle_s: float) -> float:
    """The shortest level that can decide anything; a crowd answers enough in fewer cycles than a few people."""
    needed = LEAST_REQUESTS / users
    return cycle_s * (OVERHEAD_CYCLES + max(needed, min(LEAST_CYCLES, 1.0 + needed), CROWD_CYCLES))


def _cycle_s(users: int, summaries: Sequence[LevelSummary]) -> float | None:
    """The turn cycle to expect: that of the nearest level; above it longer in proportion, where it was loaded."""
    known = [s for s in summaries if s.turn_cycle_s is not None]
    nearest = min(known, key=lambda s: abs(math.log(users / s.users)), default=None)
    if nearest is None or nearest.turn_cycle_s is None:
        return None
    loaded = any(c.misses > c.allowed_fraction * c.n for c in nearest.clauses)
    return nearest.turn_cycle_s * max(1.0, users / nearest.users) if loaded else nearest.turn_cycle_s
