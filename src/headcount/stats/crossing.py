"""Where a rising share of misses crosses the allowed one: a posterior over a grid, from a few measured points.

The model is local: logit(share) rises by a straight line in x. Crossing point and slope are both unknown; the slope
is integrated out. No iteration that could fail to converge; points without any miss, or with nothing but misses,
need no special care.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Crossing", "Floats", "crossing"]

Floats = npt.NDArray[np.floating[Any]]

_SLOPES = np.exp(np.linspace(math.log(2.0), math.log(400.0), 24))
_LOG_BELIEF = -0.5 * ((np.log(_SLOPES) - math.log(20.0)) / 1.1) ** 2
"""Of logit(share) against log(users): 20, give or take a factor of 3; simulated servers showed 4 to 40, and
cliffs far more."""
_GRID = 800


class Crossing:
    """What is believed of the crossing point: probabilities on a grid of x, and the likeliest line."""

    def __init__(self, x: Floats, probability: Floats, likeliest: tuple[float, float], share: float) -> None:
        self.x = x
        self.probability = probability
        self._cumulative = np.cumsum(probability)
        self._crossing, self._slope = likeliest
        self._share = share

    def shares(self, x: Floats) -> Floats:
        """The share of misses at each x by the likeliest line."""
        logit = math.log(self._share / (1.0 - self._share)) + self._slope * (x - self._crossing)
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -500.0, 500.0))))

    def quantile(self, share: float) -> float:
        """The x below which the crossing lies with this probability."""
        return float(np.interp(share, self._cumulative, self.x))

    def beyond(self, x: float) -> float:
        """Probability that the crossing lies at or beyond x."""
        return 1.0 - float(np.interp(x, self.x, self._cumulative, left=0.0, right=1.0))


def crossing(x: Floats, n: Floats, misses: Floats, share: float, reach: float = 1.5) -> Crossing:
    """Believe where the miss share passes ``share``, from ``misses`` of ``n`` (effective counts) seen at each x.

    Nothing is believed of it beforehand but that it lies within ``reach`` of the points.
    """
    grid = np.linspace(float(x.min()) - reach, float(x.max()) + reach, _GRID)
    start = math.log(share / (1.0 - share))
    likelihood = np.repeat(_LOG_BELIEF[:, None], _GRID, axis=1)
    for at, count, missed in zip(x, n, misses, strict=True):
        logit = start + _SLOPES[:, None] * (at - grid[None, :])
        # log p = -log(1 + e^-logit); log(1 - p) = -log(1 + e^logit)
        likelihood -= missed * np.logaddexp(0.0, -logit) + (count - missed) * np.logaddexp(0.0, logit)
    slope, place = np.unravel_index(np.argmax(likelihood), likelihood.shape)
    weights = np.exp(likelihood - likelihood.max()).sum(axis=0)
    return Crossing(grid, weights / weights.sum(), (float(grid[place]), float(_SLOPES[slope])), share)
