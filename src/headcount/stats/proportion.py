"""How sure a share of misses is: exact intervals, the overdispersion of clustered outcomes, and evidence that may
be looked at as often as one likes.

Counts may be fractions: clustered outcomes enter as n / overdispersion, misses / overdispersion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headcount.stats.special import beta_quantile, bisect, log_beta, log_beta_cdf

__all__ = [
    "anytime_interval",
    "clopper_pearson",
    "log_evidence_above",
    "log_evidence_below",
    "overdispersion",
    "smallest_telling_n",
]


Counts = Sequence[float] | npt.NDArray[np.float64]


def clopper_pearson(misses: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """The exact two-sided interval of a proportion (Clopper & Pearson 1934); (0, 1) when n is 0.

    >>> low, high = clopper_pearson(0, 59, 0.90)
    >>> round(high, 3)
    0.05
    """
    if n <= 0:
        return 0.0, 1.0
    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if misses <= 0 else beta_quantile(tail, misses, n - misses + 1.0)
    high = 1.0 if misses >= n else beta_quantile(1.0 - tail, misses + 1.0, n - misses)
    return low, high


def smallest_telling_n(allowed_fraction: float, error: float = 0.05) -> int:
    """The fewest outcomes whose largest value bounds the (1 - allowed) quantile with confidence 1 - error.

    >>> smallest_telling_n(0.05)
    59
    """
    if allowed_fraction <= 0.0 or allowed_fraction >= 1.0:
        return 1
    return math.ceil(math.log(error) / math.log1p(-allowed_fraction) - 1e-9)


def log_evidence_below(misses: float, n: float, share: float) -> float:
    """Evidence that the true share lies below ``share``: the logarithm of a mixture likelihood ratio.

    Its exponential is a non-negative martingale when the share is ``share``, so that it exceeds 1/error at any time
    with a probability of at most ``error`` (Ville 1939; Robbins 1970), however often it is looked at. The mixture
    puts the density p^(-1/2) on (0, share), which spends little on a server that never misses.
    """
    a, b = misses + 0.5, n - misses + 1.0
    mixture = log_beta(a, b) + log_beta_cdf(share, a, b) - math.log(2.0 * math.sqrt(share))
    return mixture - misses * math.log(share) - (n - misses) * math.log1p(-share)


def log_evidence_above(misses: float, n: float, share: float) -> float:
    """Evidence that the true share lies above ``share``: as ``log_evidence_below``, with a uniform mixture above."""
    a, b = misses + 1.0, n - misses + 1.0
    mixture = log_beta(a, b) + log_beta_cdf(1.0 - share, b, a) - math.log1p(-share)
    return mixture - misses * math.log(share) - (n - misses) * math.log1p(-share)


def anytime_interval(misses: float, n: float, error: float = 0.05) -> tuple[float, float]:
    """The shares that the evidence does not speak against, each end with its own ``error``, at every time at once.

    The upper end is within an allowed share exactly when ``log_evidence_below`` there reaches log(1/error).
    """
    if n <= 0:
        return 0.0, 1.0
    needed, seen = -math.log(error), misses / n
    low = 0.0
    if misses > 0:
        low = bisect(lambda share: needed - log_evidence_above(misses, n, share), 1e-12, min(seen, 1.0 - 1e-12), 1e-3)
    high = 1.0
    if misses < n:
        high = bisect(lambda share: log_evidence_below(misses, n, share) - needed, max(seen, 1e-12), 1.0 - 1e-12, 1e-3)
    return low, high


def overdispersion(
    n_by_block: Counts,
    misses_by_block: Counts,
    *,
    prior: float,
    prior_blocks: float,
) -> float:
    """Observed variance of the misses between blocks over the binomial one, at least 1.

    Few blocks tell little: the ratio is drawn towards ``prior`` as if that came from ``prior_blocks`` more blocks.
    Where nothing or everything missed, ``prior`` is all there is.
    """
    n, misses = np.asarray(n_by_block, float), np.asarray(misses_by_block, float)
    n, misses = n[n > 0], misses[n > 0]
    total = n.sum()
    share = misses.sum() / total if total else 0.0
    if len(n) < 2 or share <= 0.0 or share >= 1.0:
        return max(1.0, prior)
    chi_square = float(((misses - n * share) ** 2 / (n * share * (1.0 - share))).sum())
    freedom = len(n) - 1.0
    return max(1.0, (prior * prior_blocks + chi_square) / (prior_blocks + freedom))
