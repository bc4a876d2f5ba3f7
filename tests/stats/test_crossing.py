"""Where the share of misses crosses the allowed one."""

import math

import numpy as np
import pytest

from headcount.stats.crossing import crossing


def shares(users: np.ndarray, limit: float, slope: float) -> np.ndarray:
    """A logistic rise through 5 % at ``limit``."""
    logit = math.log(0.05 / 0.95) + slope * (np.log(users) - math.log(limit))
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


@pytest.mark.parametrize("slope", [5.0, 20.0, 60.0])
def test_the_interval_covers_the_crossing(slope: float) -> None:
    """In at least 90 % of 150 experiments with five levels around it, from shallow to a cliff."""
    rng = np.random.default_rng(1)
    users = np.array([20.0, 30.0, 36.0, 40.0, 48.0])
    covered = 0
    for _ in range(150):
        limit = rng.uniform(28, 42)
        n = np.full(5, 120.0)
        found = crossing(np.log(users), n, rng.binomial(120, shares(users, limit, slope)).astype(float), 0.05)
        covered += found.quantile(0.025) <= math.log(limit) <= found.quantile(0.975)

    assert covered >= 0.90 * 150


def test_levels_without_any_miss_and_with_nothing_else_need_no_care() -> None:
    """A cliff: nothing missed at 12, everything at 14."""
    found = crossing(np.log([12.0, 14.0]), np.array([100.0, 100.0]), np.array([0.0, 100.0]), 0.05)

    assert 12.0 < math.exp(found.quantile(0.5)) < 14.0
    assert found.beyond(math.log(11.0)) > 0.97
    assert found.beyond(math.log(15.0)) < 0.03
    low, high = found.shares(np.log([12.0, 14.0]))
    assert low < 0.05 < high
