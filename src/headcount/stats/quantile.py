"""Quantiles of a sample, with the interval that order statistics give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from headcount.stats.special import beta_cdf

__all__ = ["Values", "quantile", "quantile_interval"]

Values = npt.NDArray[np.floating[Any]]


def quantile(values: Values, share: float) -> float | None:
    """The smallest value that at least ``share`` of the sample does not exceed; always one of the values.

    None when there are none. Infinite values stand for "longer than we waited"; None when the quantile is one.
    """
    n = len(values)
    if n == 0:
        return None
    place = min(n - 1, max(0, math.ceil(share * n - 1e-9) - 1))
    found = float(np.partition(values, place)[place])
    return found if math.isfinite(found) else None


def quantile_interval(values: Values, share: float, confidence: float = 0.95) -> tuple[float | None, float | None]:
    """The values between which the true quantile lies, by ranks; distribution-free (David & Nagaraja 2003, 7.1).

    An end is None when the sample is too small to give it: the upper one of a p95 needs n >= 73 at 95 % two-sided,
    n >= 59 one-sided. The ranks come from the beta distribution of order statistics.
    """
    n, tail = len(values), 0.5 * (1.0 - confidence)
    ordered = np.sort(values)

    def stays_below(rank: int) -> float:
        """Probability that the value of this rank does not exceed the true quantile; falls with the rank."""
        return beta_cdf(share, rank, n + 1 - rank)

    low = _first_rank(n, lambda rank: stays_below(rank) < 1.0 - tail) - 1
    high = _first_rank(n, lambda rank: stays_below(rank) <= tail)
    return (
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n and math.isfinite(ordered[high - 1]) else None,
    )


def _first_rank(n: int, holds: Callable[[int], bool]) -> int:
    """The smallest rank in 1..n from which on ``holds`` is true; n + 1 when it never is."""
    low, high = 1, n + 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
