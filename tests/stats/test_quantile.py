"""Quantiles and their distribution-free intervals."""

import math

import numpy as np
import pytest

from headcount.stats.quantile import quantile, quantile_interval


def test_a_quantile_is_one_of_the_values() -> None:
    """The smallest that enough of the sample does not exceed; the mean of two values was felt by nobody."""
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0])

    assert [quantile(values, share) for share in (0.0, 0.2, 0.5, 0.95, 1.0)] == [1.0, 1.0, 3.0, 5.0, 5.0]
    assert quantile(np.array([]), 0.5) is None


def test_a_quantile_among_the_unfinished_is_unknown() -> None:
    """Requests that ran into a time-out waited longer than we know."""
    values = np.array([1.0] * 90 + [math.inf] * 10)

    assert quantile(values, 0.5) == 1.0
    assert quantile(values, 0.95) is None


def test_a_small_sample_gives_no_upper_end() -> None:
    """One-sided 95 % needs 59 values for a p95."""
    assert quantile_interval(np.arange(58.0), 0.95, 0.90)[1] is None
    assert quantile_interval(np.arange(59.0), 0.95, 0.90)[1] == 58.0


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_the_interval_covers_the_true_quantile(share: float) -> None:
    """In at least 93 % of 400 samples of 300 exponential waits."""
    rng = np.random.default_rng(1)
    true = -math.log(1.0 - share)
    covered = 0
    for _ in range(400):
        low, high = quantile_interval(rng.exponential(size=300), share)
        assert low is not None
        assert high is not None
        covered += low <= true <= high

    assert covered >= 0.93 * 400
