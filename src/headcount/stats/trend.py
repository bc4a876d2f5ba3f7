"""Whether a series drifts: Mann-Kendall's test, honest about neighbours that resemble each other."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Trend", "trend"]

Values = npt.NDArray[np.floating[Any]]


class Trend(NamedTuple):
    """A monotone drift."""

    p_value: float
    """Two-sided; 1 when the series is too short (fewer than 8 values) to tell."""
    slope: float
    """Change from one value to the next: the median over all pairs (Sen 1968)."""


def trend(values: Values) -> Trend:
    """Mann-Kendall with the variance of autocorrelated series (Hamed & Rao 1998).

    Only positive autocorrelations of ranks of the detrended series are counted, up to a quarter of its length: in few
    values the others are mostly chance, and would make the test cry wolf.
    """
    n = len(values)
    if n < 8:
        return Trend(1.0, 0.0)
    later, earlier = np.triu_indices(n, 1)[1], np.triu_indices(n, 1)[0]
    difference = values[later] - values[earlier]
    slope = float(np.median(difference / (later - earlier)))
    score = float(np.sign(difference).sum())
    variance = n * (n - 1) * (2 * n + 5) / 18.0 * _inflation(values - slope * np.arange(n))
    z = max(0.0, abs(score) - 1.0) / math.sqrt(variance)
    return Trend(2.0 * (1.0 - NormalDist().cdf(z)), slope)


def _inflation(values: Values) -> float:
    """Variance of the score over that of independent values (Hamed & Rao 1998, eq. 6)."""
    n = len(values)
    ranks = np.argsort(np.argsort(values)).astype(float)
    ranks -= ranks.mean()
    power = float((ranks**2).sum())
    if power == 0.0:
        return 1.0
    total = 0.0
    for lag in range(1, max(2, n // 4) + 1):
        likeness = float((ranks[:-lag] * ranks[lag:]).sum()) / power
        if likeness <= 0.0:
            break
        total += (n - lag) * (n - lag - 1) * (n - lag - 2) * likeness
    return 1.0 + 2.0 * total / (n * (n - 1) * (n - 2))
