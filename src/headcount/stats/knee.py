"""Where more people stop bringing more throughput."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

__all__ = ["balance_point", "measured_knee"]


def balance_point(max_rate_per_s: float, alone_s: float, think_s: float) -> float:
    """People at which a closed loop turns from idle server to waiting people: N* = X_max (R_1 + Z).

    ``alone_s`` is the answer time of one person alone (Lazowska et al. 1984, asymptotic bounds).

    >>> balance_point(10.0, 1.2, 4.0)
    52.0
    """
    return max_rate_per_s * (alone_s + think_s)


def measured_knee(points: Sequence[tuple[float, float, float]]) -> float | None:
    """The first level past which throughput gains less than 5 % for more than 20 % more latency.

    ``points`` are (users, throughput, latency), ascending in users; None when there is no such level.

    >>> measured_knee([(1, 50, 1.0), (10, 400, 1.2), (20, 410, 2.4)])
    10
    """
    for (users, rate, wait), (_, next_rate, next_wait) in itertools.pairwise(points):
        if rate > 0 and wait > 0 and next_rate < 1.05 * rate and next_wait > 1.2 * wait:
            return users
    return None
