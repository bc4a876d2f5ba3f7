"""Predictions with intervals: what some people would feel, and how many there may be, after a change.

The middle is what the best constants give; the interval holds 90 % of what the other constants give that explain the
same knowledge. Two models share the people: each is held as a level of its own, on cards of its own or, on the same
cards, slowed by the time the other takes. Knows nothing of files and of how anything is shown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from headcount.prediction.crowd import Crowd, Held, hold
from headcount.prediction.figures import Figures, figures_of
from headcount.prediction.served import Change, Served, Start, changed, fitting_pool
from headcount.simulator.cost import Cost
from headcount.simulator.server import Server

__all__ = ["Estimate", "LimitPrediction", "Prediction", "limit_of", "predict"]

DRAWS = 18
"""Sets of constants held beside the best ones, by default: the range of 19 holds nine tenths."""
MOST_USERS = 16_384
_SHARE = 0.9
"""What the interval holds of the draws."""
_SHARING_ROUNDS = 3
_RESOLUTION, _DRAWN_RESOLUTION, _DRAWN_STEP = 0.02, 0.08, 1.08
"""The limit is narrowed down to this share of itself, or to one person; for draws more coarsely, from the best's on."""
_ANSWERS, _DRAWN_ANSWERS = 300, 200
"""Of a level; for draws fewer."""


class Estimate(NamedTuple):
    """A figure with its interval; all three alike where nothing is known of the error."""

    value: float
    low: float
    high: float


class Prediction(msgspec.Struct, frozen=True):
    """What ``users`` people would feel. Simulated. None: no answer ends there."""

    users: int
    e2e_p50_s: Estimate | None
    ttft_p95_s: Estimate | None
    output_tokens_per_s: Estimate | None
    holds_fraction: float
    """The share of all draws, the best constants included, that keep the service level."""
    figures: Figures
    """Under the best constants; of two models those of the one that is worse off."""


class LimitPrediction(msgspec.Struct, frozen=True):
    """How many people there may be. Simulated."""

    limit_users: int
    """The largest number that holds under the best constants; 0: not even one."""
    low_users: int
    high_users: int
    binds: str
    """What gives out first, just above the limit; see ``Figures.binds``."""
    worst_clause: str
    """The clause that breaks there."""
    at_least: bool
    """Whether the most that may be tried still held."""


def predict(start: Start, change: Change, users: int, *, draws: int = DRAWS) -> Prediction:
    """What ``users`` people feel after ``change``. Raises ``ScenarioError`` where it does not fit or cannot be told."""
    sites = _sites(start, change)
    best = _level(sites, users, None, start)
    others = [_level(sites, users, draw, start) for draw in range(_draws(sites, draws))]
    everyone = [best, *others]
    return Prediction(
        users=users,
        e2e_p50_s=_estimate(best, others, lambda figures: figures.e2e_p50_s),
        ttft_p95_s=_estimate(best, others, lambda figures: figures.ttft_p95_s),
        output_tokens_per_s=_estimate(best, others, lambda figures: figures.output_tokens_per_s),
        holds_fraction=sum(figures.holds for figures in everyone) / len(everyone),
        figures=best,
    )


def limit_of(start: Start, change: Change, *, draws: int = DRAWS, most_users: int = MOST_USERS) -> LimitPrediction:
    """The largest number of people for whom the service level holds after ``change``. Raises ``ScenarioError`` where
    it does not fit or cannot be told."""
    sites = _sites(start, change)
    limit, over = _limit(lambda users: _level(sites, users, None, start), 1, most_users)
    limits = sorted(
        [
            limit,
            *(
                _limit(
                    functools.partial(_drawn_level, sites, start, draw),
                    max(1, limit),
                    most_users,
                    _DRAWN_RESOLUTION,
                    _DRAWN_STEP,
                )[0]
                for draw in range(_draws(sites, draws))
            ),
        ]
    )
    low, high = _interval(limits)
    return LimitPrediction(
        limit_users=limit,
        low_users=int(low),
        high_users=int(high),
        binds=over.binds if over is not None else "",
        worst_clause=over.worst_clause if over is not None else "",
        at_least=over is None,
    )


# --- servers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Site:
    """A server, its share of the people, and what they ask."""

    served: Served
    crowd: Crowd
    share: float
    shares_time: bool
    """Whether the other site computes on the same cards."""

    def users(self, users: int) -> int:
        """Its people, of all."""
        return max(1, round(self.share * users)) if self.share < 1.0 else users


def _sites(start: Start, change: Change) -> list[_Site]:
    """The server after the change, and the second one where there is one."""
    table = dict(start.workload)
    if change.prompt_tokens is not None:
        table["first_prompt_tokens"] = change.prompt_tokens
    served = changed(start.served, change)
    if change.beside is None:
        return [_Site(served, _crowd(start, table, 0), 1.0, shares_time=False)]
    own = msgspec.structs.replace(change, model=change.beside, gpu=change.beside_gpu or change.gpu)
    second = changed(start.served, own)
    together = change.beside_gpu is None
    if together:
        served, second = _in_one_memory(served, second)
    share = change.beside_share
    return [
        _Site(served, _crowd(start, table, 0), 1.0 - share, together),
        _Site(second, _crowd(start, table, 1), share, together),
    ]


def _crowd(start: Start, table: dict[str, object], number: int) -> Crowd:
    return Crowd(table, start.seed + number, answer_share=start.answer_share, template_tokens=start.template_tokens)


def _in_one_memory(first: Served, second: Served) -> tuple[Served, Served]:
    """Both models' weights on the same cards; what is left holds contexts, half of it for each."""
    one, two = first.hardware, second.hardware
    assert one is not None  # the second model could not have been put there otherwise
    assert two is not None
    memory, other = one.memory(), two.memory()
    left_fraction = one.memory_fraction * (1.0 - (other.weights_bytes + other.overhead_bytes) / memory.total_bytes)
    beside = replace(one, memory_fraction=max(0.0, left_fraction))
    context_tokens = 2 * min(first.policy.context_tokens, 2048)
    pool_tokens = fitting_pool(beside, context_tokens)
    kv_bytes = pool_tokens * one.model.kv_bytes_per_token()
    pools = [int(kv_bytes / 2 / hardware.model.kv_bytes_per_token()) for hardware in (one, two)]
    return (
        replace(first, policy=replace(first.policy, pool_tokens=pools[0])),
        replace(second, policy=replace(second.policy, pool_tokens=pools[1])),
    )


# --- levels ----------------------------------------------------------------------------------


def _level(sites: Sequence[_Site], users: int, draw: int | None, start: Start, answers: int = _ANSWERS) -> Figures:
    """Hold one level at every site."""
    costs = [_cost(site.served, draw) for site in sites]
    slowed = list(costs)
    figures: list[Figures] = []
    for _ in range(_SHARING_ROUNDS if any(site.shares_time for site in sites) else 1):
        helds, figures = [], []
        for site, cost in zip(sites, slowed, strict=True):
            server = Server(cost, site.served.policy)
            held = hold(
                server,
                site.crowd,
                site.users(users),
                request_s=site.served.request_s,
                tail_s=site.served.tail_s,
                spread_s=_spread_s(cost, site.crowd),
                answers=answers,
            )
            helds.append(held)
            figures.append(figures_of(held, server, site.users(users), start.slo))
        if len(sites) == 2:
            slowed = [_slower(costs[0], helds[1]), _slower(costs[1], helds[0])]
    return figures[0] if len(figures) == 1 else _together(figures, users)


def _drawn_level(sites: Sequence[_Site], start: Start, draw: int, users: int) -> Figures:
    return _level(sites, users, draw, start, _DRAWN_ANSWERS)


def _slower(cost: Cost, other: Held) -> Cost:
    """Two processes on one GPU take turns: a step takes longer by the share of time in which the other has work."""
    busy = min(1.0, other.running_mean)
    names = [name for name in Cost.__dataclass_fields__ if name.endswith("_s") and name != "adapter_load_s"]
    return replace(cost, **{name: getattr(cost, name) * (1.0 + busy) for name in names})


def _together(figures: list[Figures], users: int) -> Figures:
    """The latencies of whoever is worse off, the throughput of both."""
    worse = max(figures, key=lambda each: each.worst_share)
    return msgspec.structs.replace(
        worse,
        users=users,
        output_tokens_per_s=sum(each.output_tokens_per_s for each in figures),
        requests_per_s=sum(each.requests_per_s for each in figures),
        in_flight_mean=sum(each.in_flight_mean for each in figures),
    )


def _cost(served: Served, draw: int | None) -> Cost:
    if draw is None or not served.draws:
        return served.cost
    return served.draws[draw % len(served.draws)]


def _draws(sites: Sequence[_Site], most: int) -> int:
    return min(most, max(len(site.served.draws) for site in sites))


def _spread_s(cost: Cost, crowd: Crowd) -> float:
    """Over what time people start: about one turn of somebody alone."""
    expected = crowd.expected()
    return expected.think_s + expected.output_tokens * cost.step_s(1, 1, adapted=False)


# --- limits and intervals --------------------------------------------------------------------


def _limit(
    level: Callable[[int], Figures], guess: int, most: int, resolution: float = _RESOLUTION, step: float = 2.0
) -> tuple[int, Figures | None]:
    """The largest number of people that holds, looked for from ``guess`` on in growing steps, then by halving; and the
    figures of one that does not hold. None: all do."""
    low, high, over = 0, most + 1, None
    users = min(guess, most)
    while high - low > max(1, int(resolution * low)) and low < most:
        figures = level(users)
        if figures.holds:
            low = users
        else:
            high, over = users, figures
        if high > most:
            users = min(most, max(low + 1, int(low * step)))
        elif not low:
            users = max(1, min(high - 1, int(high / step)))
        else:
            users = (low + high) // 2
        if not low or high > most:
            step = min(2.0, step * step)
    return low, over


def _interval(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    cut = int((1.0 - _SHARE) / 2.0 * len(ordered))
    return ordered[cut], ordered[-1 - cut]


def _estimate(best: Figures, others: Sequence[Figures], of: Callable[[Figures], float | None]) -> Estimate | None:
    middle = of(best)
    if middle is None:
        return None
    low, high = _interval([middle, *(value for figures in others if (value := of(figures)) is not None)])
    return Estimate(middle, min(low, middle), max(high, middle))
