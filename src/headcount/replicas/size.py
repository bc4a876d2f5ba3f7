"""The number of replicas: what one carries, how a pool of them carries more or less than its share, what is spare.

Knows nothing of files and of how anything is shown. Everything is simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import msgspec

from headcount.errors import ScenarioError
from headcount.prediction.crowd import Crowd
from headcount.prediction.figures import Figures
from headcount.prediction.served import Served, Start
from headcount.replicas.level import ReplicaPool, minute_after_failure, steady
from headcount.simulator.companion import Means, predict
from headcount.simulator.cost import Cost
from headcount.simulator.routing import ROUTINGS
from headcount.simulator.staffing import square_root_replicas
from headcount.slo import Clause
from headcount.workload import Expected

__all__ = ["FleetSize", "Plan", "fleet_size"]

_MOST_SIMULATED = 3000
"""People of one simulated level; a larger fleet is told from a pool of fewer replicas."""
_MOST_EXACT_REPLICAS = 24
_POOL = (2, 6)
"""Replicas of the pool a larger fleet is told from: the least and the most."""
_RESOLUTION, _COARSE = 0.02, 0.05
"""A limit is narrowed down to this share of itself; for the ends of intervals more coarsely, with half the replicas."""
_SHARE = 0.9
"""What the interval holds of the draws."""


class Plan(msgspec.Struct, frozen=True):
    """A pool under one way of routing."""

    routing: str
    replicas: int
    """The fewest that keep the service level, with none to spare."""
    users_per_replica: float
    figures: Figures
    """What people feel then."""
    after_failure: Figures
    """What those feel who ask or wait in the minute after one of the installed replicas is gone."""


class FleetSize(msgspec.Struct, frozen=True):
    """How many replicas some people need. Simulated."""

    people: int
    active_users: int
    """How many of them use it at the same time, at the busiest hour."""
    plans: tuple[Plan, ...]
    """One a routing; the first is the one the rest is counted with."""
    low_replicas: int
    high_replicas: int | None
    """90 % interval, from how well the machine's constants are known; None: no number is enough under some of them."""
    redundancy: int
    installed_replicas: int
    """Those needed and those that may fail."""
    simulated_replicas: int
    """How many were simulated: all of them, or fewer that stand for all."""
    square_root_replicas: int
    """The same by square-root staffing, as if all replicas were one."""
    cards: int
    """All GPUs of the installed replicas."""
    power_w: float | None
    """All GPUs at their limit; None where it is not told which they are."""
    cost_per_hour: float | None
    """Of all cards, in the money it was told in; None: not told."""

    @property
    def exact(self) -> bool:
        """Whether the whole fleet was simulated."""
        return self.simulated_replicas == self.plans[0].replicas


def fleet_size(
    start: Start,
    people: int,
    active_share: float,
    *,
    routing: str = "least-loaded",
    redundancy: int = 1,
    card_cost_per_hour: float | None = None,
) -> FleetSize:
    """Size a fleet for ``people`` of whom ``active_share`` talk at the busiest moment. Raises ``ScenarioError`` where
    one person alone on a replica does not get the service level."""
    active = max(1, round(people * active_share))
    served = start.served
    crowd = Crowd(start.workload, start.seed, answer_share=start.answer_share, template_tokens=start.template_tokens)
    pool = ReplicaPool(served, crowd, start.slo, 1, routing, seed=start.seed)
    alone = steady(pool, 1)
    if not alone.holds:
        raise ScenarioError(
            f"one replica does not keep the service level for a single person: {alone.worst_clause} fails",
            "a faster card, a smaller model, fewer bits a weight, or another service level with --slo",
        )
    sketch = _Sketch(served, crowd.expected(), start.slo, routing == "sticky")
    guess = max(1.0, sketch.most_users(served.cost))
    found = _find(pool, active, guess)
    others = [replace(pool, routing=other) for other in ROUTINGS if other != routing]
    compared = [found, *(_find(other, active, found.users_per_replica) for other in others)]
    low, high = _interval(pool, active, found, sketch)
    needed, figures = found.replicas, found.figures
    hardware = served.hardware
    installed = needed + redundancy
    cards = installed * (hardware.gpus if hardware else 1)
    return FleetSize(
        people=people,
        active_users=active,
        plans=tuple(_plan(one, redundancy) for one in compared),
        low_replicas=low,
        high_replicas=high,
        redundancy=redundancy,
        installed_replicas=installed,
        simulated_replicas=found.pool.replicas,
        square_root_replicas=square_root_replicas(active, found.users_per_replica, figures.in_flight_mean),
        cards=cards,
        power_w=cards * hardware.gpu.power_w if hardware else None,
        cost_per_hour=None if card_cost_per_hour is None else cards * card_cost_per_hour,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for one pool."""

    replicas: int
    users_per_replica: float
    figures: Figures
    pool: ReplicaPool
    """What was simulated last."""
    users: int
    """And with how many people."""


def _find(pool: ReplicaPool, active: int, guess: float, coarse: bool = False) -> _Found:
    """The fewest replicas for ``active`` people; ``guess`` is about what one of them carries."""
    if active <= _MOST_SIMULATED and active / guess <= _MOST_EXACT_REPLICAS:
        return _exact(pool, active, guess)
    return _scaled(pool, active, guess, coarse)


def _exact(pool: ReplicaPool, active: int, guess: float) -> _Found:
    """All replicas simulated."""
    count = max(1, min(_MOST_EXACT_REPLICAS, round(active / guess)))
    enough: tuple[int, Figures] | None = None
    few = 0
    while enough is None or enough[0] > few + 1:
        figures = steady(replace(pool, replicas=count), active)
        if figures.holds:
            enough = (count, figures)
            count = max(few + 1, (few + count) // 2 if few else count * 8 // 9)
        else:
            few = count
            count = max(few + 1, few * 9 // 8 if enough is None else (few + enough[0]) // 2)
    needed, figures = enough
    return _Found(needed, active / needed, figures, replace(pool, replicas=needed), active)


def _scaled(pool: ReplicaPool, active: int, guess: float, coarse: bool) -> _Found:
    """By what a pool of a few replicas carries, each of which stands for as many as are needed in the end."""
    least, most = _POOL
    count = int(max(least, min(most, _MOST_SIMULATED // guess))) // (2 if coarse else 1)
    pool = replace(pool, replicas=count, stands_for=max(1, round(active / guess / count)))
    resolution = _COARSE if coarse else _RESOLUTION
    users, figures = _limit(lambda users: steady(pool, users), round(guess * count), active, resolution)
    return _Found(max(1, ceil(active * count / users)), users / count, figures, pool, users)


def _plan(found: _Found, redundancy: int) -> Plan:
    """With the minute after a failure; where all are simulated the spare ones are there too."""
    pool = found.pool
    if pool.stands_for == 1:
        pool = replace(pool, spares=redundancy)
    after = minute_after_failure(pool, found.users)
    return Plan(pool.routing, found.replicas, found.users_per_replica, found.figures, after)


def _interval(pool: ReplicaPool, active: int, found: _Found, sketch: _Sketch) -> tuple[int, int | None]:
    """The same under constants that are faster and slower than the best: of all draws, ranked by the instant
    companion, the ones at the interval's ends are simulated. None: not one person is served well under those."""
    served = pool.served
    if not served.draws:
        return found.replicas, found.replicas
    users = max(1, round(found.users_per_replica))
    ranked = sorted(served.draws, key=lambda cost: sketch.means(cost, users).e2e_s)
    cut = int((1.0 - _SHARE) / 2.0 * len(ranked))
    best_s = sketch.means(served.cost, users).e2e_s
    ends: list[int | None] = []
    for cost in (ranked[cut], ranked[-1 - cut]):
        other = replace(pool, served=replace(served, cost=cost))
        guess = max(1.0, users * best_s / sketch.means(cost, users).e2e_s)
        held = steady(other, 1).holds
        ends.append(_find(other, active, guess, coarse=True).replicas if held else None)
    low, high = ends
    return min(found.replicas, low or 1), None if high is None else max(found.replicas, high)


def _limit(level: Callable[[int], Figures], guess: int, most: int, resolution: float) -> tuple[int, Figures]:
    """The largest number of people that holds, near ``guess`` and at most ``most``, and what they feel. One person is
    known to hold."""
    low, high, held = 1, 0, None
    users, stride = min(most, max(1, guess)), 1.15
    while held is None or not high or high - low > max(1, int(resolution * low)):
        figures = level(users)
        if figures.holds:
            low, held = users, figures
            if users == most:
                break
        else:
            high = users
        if high <= 2 and high:
            break
        if held and high:
            users = (low + high) // 2
        elif high:
            users = max(1, int(high / stride))
        else:
            users = min(most, max(low + 1, int(low * stride)))
        stride = min(3.0, stride * stride)
    return low, held or level(1)


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A replica by its means, by the instant companion: a first guess, and which of two machines is the slower."""

    served: Served
    expected: Expected
    slo: tuple[Clause, ...]
    sticky: bool

    def most_users(self, cost: Cost) -> int:
        """The most people under ``cost`` whose answers come fast enough and rarely wait for room; 0: not even one."""
        low, high = 0, 1
        while high <= 65_536 and self._enough(cost, high):
            low, high = high, 2 * high
        while high - low > max(1, low // 100):
            middle = (low + high) // 2
            if self._enough(cost, middle):
                low = middle
            else:
                high = middle
        return low

    def means(self, cost: Cost, users: int) -> Means:
        """Of ``users`` people; histories are found again where memory keeps those of everybody."""
        expected, policy = self.expected, self.served.policy
        turn_tokens = expected.prompt_tokens + expected.output_tokens
        before_tokens = (expected.turns - 1) / 2 * turn_tokens
        kept = self.sticky and users * (before_tokens + turn_tokens) <= policy.pool_tokens
        return predict(
            cost,
            slots=self._room,
            users=users,
            think_s=max(1e-3, expected.think_s + expected.stage_s),
            new_prompt_tokens=expected.prompt_tokens + (0.0 if kept else before_tokens),
            output_tokens=expected.output_tokens,
            context_tokens=before_tokens + expected.prompt_tokens + expected.output_tokens / 2,
        )

    @property
    def _room(self) -> int:
        """Requests that run at once: slots, or what memory holds of them."""
        expected, policy = self.expected, self.served.policy
        each_tokens = (expected.turns + 1) / 2 * (expected.prompt_tokens + expected.output_tokens)
        return int(max(1, min(policy.slots, policy.pool_tokens / each_tokens)))

    def _enough(self, cost: Cost, users: int) -> bool:
        pace_s = min((clause.bound for clause in self.slo if clause.metric == "tpot"), default=0.1)
        means = self.means(cost, users)
        return means.e2e_s <= 0.9 * pace_s * self.expected.output_tokens and means.in_flight_requests <= self._room
