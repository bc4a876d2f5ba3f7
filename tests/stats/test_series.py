"""Series: when they have settled, whether they drift."""

import numpy as np
import pytest
from scipy import stats

from headcount.stats.knee import balance_point, measured_knee
from headcount.stats.steady import steady_from
from headcount.stats.trend import trend


def noise(rng: np.random.Generator, n: int, likeness: float) -> np.ndarray:
    """Values that resemble their neighbours."""
    values = rng.normal(size=n)
    for i in range(1, n):
        values[i] += likeness * values[i - 1]
    return values


def test_a_start_is_cut_off() -> None:
    """And not much more than it."""
    rng = np.random.default_rng(1)
    series = np.concatenate([np.linspace(9, 1, 8), np.zeros(24)]) + 0.1 * rng.normal(size=32)

    assert 6 <= steady_from(series) <= 10


def test_it_is_cut_where_the_standard_error_is_least() -> None:
    """By the definition, worked out one cut after the other; also far from zero."""
    rng = np.random.default_rng(3)
    for offset in (0.0, 1e6):
        series = offset + np.concatenate([np.linspace(3, 0, 20), np.zeros(80)]) + rng.normal(size=100)
        errors = [float(np.var(series[cut:])) / (100 - cut) for cut in range(51)]
        assert steady_from(series) == int(np.argmin(errors))


def test_a_settled_series_is_left_alone() -> None:
    """With a gain asked for, hardly any of 200 settled series is cut."""
    rng = np.random.default_rng(1)

    assert sum(steady_from(rng.normal(size=16), gain=0.5) > 0 for _ in range(200)) < 30
    assert steady_from(np.array([9.0, 1.0, 1.0])) == 0


@pytest.mark.parametrize("likeness", [0.0, 0.6])
def test_the_trend_test_does_not_cry_wolf(likeness: float) -> None:
    """Of 400 series without a trend at most 6 % are called drifting at 1 %, neighbours alike or not."""
    rng = np.random.default_rng(2)
    called = sum(trend(noise(rng, 32, likeness)).p_value < 0.01 for _ in range(400))

    assert called <= 0.06 * 400


def test_the_trend_test_finds_a_trend() -> None:
    """Its slope too."""
    rng = np.random.default_rng(3)
    found = trend(0.2 * np.arange(32) + noise(rng, 32, 0.3))

    assert found.p_value < 0.001
    assert found.slope == pytest.approx(0.2, abs=0.05)
    assert trend(np.arange(5.0)) == (1.0, 0.0)


def test_without_likeness_the_trend_test_is_kendalls() -> None:
    """The same p as Kendall's tau against time, when no correction applies."""
    rng = np.random.default_rng(4)
    values = noise(rng, 40, -0.5) + 0.05 * np.arange(40)
    expected = stats.kendalltau(np.arange(40), values, method="asymptotic")

    assert trend(values).p_value == pytest.approx(expected.pvalue, abs=0.02)


def test_the_balance_point_and_the_knee() -> None:
    """A closed loop of 10 answers a second, 1.2 s each, 4 s of thought; and where throughput stops to gain."""
    assert balance_point(10.0, 1.2, 4.0) == pytest.approx(52.0)
    assert measured_knee([(1, 50, 1.0), (10, 400, 1.2), (20, 410, 2.4)]) == 10
    assert measured_knee([(1, 50, 1.0), (10, 400, 1.2)]) is None
