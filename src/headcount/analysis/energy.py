"""What a level's answers took in energy, and what they cost: from the watts the GPUs drew and the owner's prices.

Only what was seen counts: without a reading of every GPU's power there is no figure. Knows nothing of how watts are
measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.limit import saw_a_cycle
from headcount.prices import MONTH_S, Prices

__all__ = ["Energy", "energy_by_users"]


class Energy(msgspec.Struct, frozen=True):
    """The energy and the cost of serving one number of people. None where it is not known."""

    users: int
    power_w: float
    """All GPUs together, and the rest of the machine where its owner told."""
    user_power_w: float
    """Of one person's share."""
    token_energy_j: float | None
    """Of one output token, reading the prompt included."""
    answer_energy_j: float | None
    million_tokens_price: float | None = None
    """Of a million output tokens, at this load; None without prices."""
    user_month_price: float | None = None
    """Of one person and month, as if it were so busy day and night; None without prices."""


def energy_by_users(levels: Iterable[LevelSummary], prices: Prices | None = None) -> tuple[Energy, ...]:
    """For each number of people whose levels saw the power of every GPU, ascending; void levels, and those shorter
    than a turn, left out."""
    seen: dict[int, list[LevelSummary]] = defaultdict(list)
    for level in levels:
        if level.decision != "void" and saw_a_cycle(level) and _power_w(level) is not None:
            seen[level.users].append(level)
    return tuple(_energy(users, visits, prices) for users, visits in sorted(seen.items()))


def _energy(users: int, visits: Sequence[LevelSummary], prices: Prices | None) -> Energy:
    """Means over the visits, each weighted by its steady window."""
    windows_s = [level.window_s for level in visits]
    power_w = _weighted([_power_w(level) for level in visits], windows_s) or 0.0
    power_w += prices.further_power_w if prices else 0.0
    tokens_per_s = _weighted([level.output_tokens_per_s for level in visits], windows_s)
    requests_per_s = _weighted([level.requests_per_s for level in visits], windows_s)
    paid_per_s = prices.per_s(power_w) if prices else 0.0
    return Energy(
        users=users,
        power_w=power_w,
        user_power_w=power_w / users,
        token_energy_j=power_w / tokens_per_s if tokens_per_s else None,
        answer_energy_j=power_w / requests_per_s if requests_per_s else None,
        million_tokens_price=1e6 * paid_per_s / tokens_per_s if tokens_per_s and paid_per_s else None,
        user_month_price=MONTH_S * paid_per_s / users if paid_per_s else None,
    )


def _power_w(level: LevelSummary) -> float | None:
    """All GPUs together; None when one of them did not tell, or there is none."""
    told = [gpu.power_mean_w for gpu in level.gpus]
    known = [watts for watts in told if watts is not None]
    return sum(known) if known and len(known) == len(told) else None


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """The mean of the known values; None where there is none."""
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
