"""From people who use a server at once to accounts that may be registered on it."""

from __future__ import annotations

from headcount.stats.special import binomial_sf

__all__ = ["accounts"]


def accounts(active_users: int, active_share: float, risk: float = 0.01) -> int:
    """The largest number of accounts of which more than ``active_users`` are active with at most this ``risk``,
    when each is active in the busy hour with probability ``active_share``, independently.

    >>> accounts(30, 0.1)
    200
    """
    low, high = active_users, active_users + 1
    while binomial_sf(active_users, high, active_share) <= risk:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_sf(active_users, middle, active_share) <= risk else (low, middle)
    return low
