"""The number of replicas: what one carries, how a pool of them carries more or less than its share, what is spare.

Knows nothing of files and of how anything is shown. Everything is simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf

import msgspec

from headcount.errors import ScenarioError
from headcount.growth.level import ReplicaPool, minute_after_failure, steady
from headcount.prediction.crowd import Crowd
from headcount.prediction.figures import Figures
from headcount.prediction.served import Served, Start
from headcount.simulator.companion import predict
from headcount.simulator.cost import Cost
from headcount.simulator.routing import ROUTINGS
from headcount.simulator.staffing import square_root_replicas
from headcount.workload import Expected

__all__ = ["FleetSize", "Plan", "fleet_size"]

_MOST_SIMULATED = 3000
"""People of one simulated level; a larger fleet is told from a pool of fewer replicas."""
_MOST_EXACT_REPLICAS = 24
_POOL = (2, 6)
"""Replicas of the pool a larger fleet is told from: the least and the most."""
_RESOLUTION = 0.02
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
    pace_s = 0.9 * min((clause.bound for clause in start.slo if clause.metric == "tpot"), default=0.1)
    sketch = _Sketch(served, crowd.expected(), pace_s, routing == "sticky")
    alone = steady(pool, 1)
    if not alone.holds:
        raise ScenarioError(
            f"one replica does not keep the service level for a single person: {alone.worst_clause} fails",
            "a faster card, a smaller model, fewer bits a weight, or another service level with --slo",
        )
    guess = max(1, sketch.most_users(served.cost))
    plans: list[Plan] = []
    simulated = 0
    for name in (routing, *(other for other in ROUTINGS if other != routing)):
        begin = plans[0].users_per_replica if plans else guess
        if active <= _MOST_SIMULATED and active / begin <= _MOST_EXACT_REPLICAS:
            plan, count = _exact(replace(pool, routing=name), active, begin, redundancy)
        else:
            plan, count = _scaled(replace(pool, routing=name), active, begin, redundancy)
        plans.append(plan)
        simulated = simulated or count
    needed, figures = plans[0].replicas, plans[0].figures
    low, high = sketch.interval()
    hardware = served.hardware
    installed = needed + redundancy
    cards = installed * (hardware.gpus if hardware else 1)
    return FleetSize(
        people=people,
        active_users=active,
        plans=tuple(plans),
        low_replicas=min(needed, max(1, ceil(low * needed - 1e-9))),
        high_replicas=None if high == inf else max(needed, ceil(high * needed - 1e-9)),
        redundancy=redundancy,
        installed_replicas=installed,
        simulated_replicas=simulated,
        square_root_replicas=square_root_replicas(active, plans[0].users_per_replica, figures.in_flight_mean),
        cards=cards,
        power_w=cards * hardware.gpu.power_w if hardware else None,
        cost_per_hour=None if card_cost_per_hour is None else cards * card_cost_per_hour,
    )


def _exact(pool: ReplicaPool, active: int, guess: float, redundancy: int) -> tuple[Plan, int]:
    """The fewest replicas for ``active`` people, all of them simulated."""
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
    full = replace(pool, replicas=needed, spares=redundancy)
    return Plan(pool.routing, needed, active / needed, figures, minute_after_failure(full, active)), needed


def _scaled(pool: ReplicaPool, active: int, guess: float, redundancy: int) -> tuple[Plan, int]:
    """What a pool of a few replicas carries, each of which stands for as many as are needed in the end."""
    least, most = _POOL
    count = int(max(least, min(most, _MOST_SIMULATED // max(1.0, guess))))
    pool = replace(pool, replicas=count, stands_for=max(1, round(active / guess / count)))
    users, figures = _limit(lambda users: steady(pool, users), round(guess * count))
    needed = max(1, ceil(active * count / users))
    after = minute_after_failure(pool, users)
    return Plan(pool.routing, needed, users / count, figures, after), count


def _limit(level: Callable[[int], Figures], guess: int) -> tuple[int, Figures]:
    """The largest number of people that holds, near ``guess``, and what they feel. One person is known to hold."""
    low, high, held = 1, 0, None
    users, stride = max(1, guess), 1.15
    while held is None or not high or high - low > max(1, int(_RESOLUTION * low)):
        figures = level(users)
        if figures.holds:
            low, held = users, figures
        else:
            high = users
        if high <= 2 and high:
            break
        if held and high:
            users = (low + high) // 2
        elif high:
            users = max(1, int(high / stride))
        else:
            users = max(low + 1, int(low * stride))
        stride = min(3.0, stride * stride)
    return low, held or level(1)


# --- the instant companion: a first guess, and how far draws lie apart ---------------------------


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A replica by its means: which people, how fast answers must come, whether histories come back to it."""

    served: Served
    expected: Expected
    pace_s: float
    """Time a token may take on average."""
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

    def _enough(self, cost: Cost, users: int) -> bool:
        expected, policy = self.expected, self.served.policy
        turn_tokens = expected.prompt_tokens + expected.output_tokens
        before_tokens = (expected.turns - 1) / 2 * turn_tokens
        context_tokens = before_tokens + expected.prompt_tokens + expected.output_tokens / 2
        kept = self.sticky and users * (before_tokens + turn_tokens) <= policy.pool_tokens
        room = int(max(1, min(policy.slots, policy.pool_tokens / (context_tokens + expected.output_tokens / 2))))
        means = predict(
            cost,
            slots=room,
            users=users,
            think_s=expected.think_s + expected.stage_s,
            new_prompt_tokens=expected.prompt_tokens + (0.0 if kept else before_tokens),
            output_tokens=expected.output_tokens,
            context_tokens=context_tokens,
        )
        return means.e2e_s <= self.pace_s * expected.output_tokens and means.in_flight_requests <= room

    def interval(self) -> tuple[float, float]:
        """Replicas under the served one's other constants over those under its best."""
        best = self.most_users(self.served.cost)
        if not self.served.draws or not best:
            return 1.0, 1.0
        ratios = sorted(best / users if users else inf for users in map(self.most_users, self.served.draws))
        cut = int((1.0 - _SHARE) / 2.0 * len(ratios))
        return ratios[cut], ratios[-1 - cut]
