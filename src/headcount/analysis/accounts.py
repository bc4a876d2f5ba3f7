"""From people who use a server at once to accounts that may be registered on it."""

from __future__ import annotations

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.stats.special import binomial_sf

__all__ = ["accounts", "active_users", "in_accounts"]


def in_accounts(verdict: Verdict, active_share: float | None) -> Verdict:
    """The verdict with what it recommends told in accounts, of which this share is active in the busy hour."""
    users = verdict.recommended_users
    enough = accounts(users, active_share) if users and active_share is not None else None
    return msgspec.structs.replace(verdict, active_share=active_share, accounts=enough)


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


def active_users(registered: int, active_share: float, risk: float = 0.01) -> int:
    """The fewest people such that more than that many of the registered accounts are active with at most this ``risk``.

    >>> active_users(200, 0.1)
    30
    """
    low, high = -1, registered
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_sf(middle, registered, active_share) <= risk else (middle, high)
    return max(1, high)
