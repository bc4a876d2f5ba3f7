"""Distributions: within their bounds, with the mean that is told, one random number a draw."""

import math
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.workload.spread import (
    Lognormal,
    Normal,
    Quantiles,
    Spread,
    Uniform,
    check,
    draw,
    draw_count,
    mean,
    mean_count,
    quantile,
)

SPREADS: list[Spread] = [
    500.0,
    (30.0, 250.0),
    Uniform(2, 4),
    Normal(mean=200, sd=50),
    Normal(mean=10, sd=20, min=5, max=30),
    Lognormal(median=120, sigma=0.8, max=4000),
    Quantiles((1, 5, 20, 400)),
]


@pytest.mark.parametrize("spread", SPREADS, ids=repr)
def test_the_mean_is_that_of_many_draws(spread: Spread) -> None:
    """``mean`` and ``mean_count`` foretell 20,000 draws within 2 %."""
    rng = Random(1)

    assert fmean(draw(spread, rng) for _ in range(20_000)) == pytest.approx(mean(spread), rel=0.02)
    assert fmean(draw_count(spread, rng) for _ in range(20_000)) == pytest.approx(mean_count(spread), rel=0.02)


@pytest.mark.parametrize("spread", SPREADS, ids=repr)
def test_one_draw_takes_one_number(spread: Spread) -> None:
    """So that a changed length moves nothing else that is drawn from the same stream."""
    used, plain = Random(3), Random(3)
    draw(spread, used)
    draw_count(spread, used)
    plain.random()
    plain.random()

    assert used.random() == plain.random()


@pytest.mark.parametrize("spread", SPREADS, ids=repr)
@given(shares=st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2))
def test_quantiles_rise(spread: Spread, shares: list[float]) -> None:
    """A larger share never has a smaller quantile, and every quantile is finite and not negative."""
    low, high = sorted(shares)

    assert 0 <= quantile(spread, low) <= quantile(spread, high) < math.inf


@given(low=st.integers(0, 50), more=st.integers(0, 10), seed=st.integers(0, 99))
def test_whole_uniform_draws_include_both_ends(low: int, more: int, seed: int) -> None:
    """2 to 4 turns means 2, 3 and 4, equally often."""
    rng = Random(seed)
    drawn = {draw_count((low, low + more), rng, least=0) for _ in range(60 * (more + 1))}

    assert drawn == set(range(low, low + more + 1))


@given(median=st.floats(1, 1000), sigma=st.floats(0, 3), low=st.floats(0, 100), more=st.floats(0, 1000))
def test_bounds_hold(median: float, sigma: float, low: float, more: float) -> None:
    """No draw leaves ``min`` to ``max``."""
    rng = Random(1)
    for spread in (
        Lognormal(median=median, sigma=sigma, min=low, max=low + more),
        Normal(mean=median, sd=sigma * median, min=low, max=low + more),
    ):
        assert all(low <= draw(spread, rng) <= low + more for _ in range(20))


def test_what_falls_is_refused() -> None:
    """A pair, bounds or quantiles in the wrong order are a mistake."""
    with pytest.raises(ValueError, match="falls"):
        check("turns", (3.0, 1.0))
    with pytest.raises(ValueError, match="above high"):
        Uniform(3, 1)
    with pytest.raises(ValueError, match="above max"):
        Normal(mean=1, sd=1, min=3, max=1)
    with pytest.raises(ValueError, match="smallest to the largest"):
        Quantiles((3, 1))
