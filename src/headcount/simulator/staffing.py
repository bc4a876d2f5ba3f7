"""Square-root staffing: how much a load that fluctuates needs on top of its mean. Knows no server."""

from __future__ import annotations

from math import ceil, sqrt

__all__ = ["DEVIATIONS", "square_root_replicas"]

DEVIATIONS = 1.645
"""Beyond the mean; a normal load is above in 5 % of all moments, which suits promises about a p95."""


def square_root_replicas(users: float, users_per_replica: float, inside_per_replica: float) -> int:
    """Replicas for ``users`` people if all replicas were one.

    One replica alone serves ``users_per_replica`` people, ``inside_per_replica`` of them waiting for an answer at a
    time on average: it must be able to hold that many and ``DEVIATIONS`` square roots of it. So must the whole, whose
    square root is smaller against its mean: no pool of separate replicas can do with fewer.

    >>> square_root_replicas(100, 100, 50)
    1
    >>> square_root_replicas(10_000, 100, 50)
    84
    """
    inside = users * inside_per_replica / users_per_replica
    held = inside_per_replica + DEVIATIONS * sqrt(inside_per_replica)
    return max(1, ceil((inside + DEVIATIONS * sqrt(inside)) / held - 1e-9))
