"""The special functions against scipy, which is the reference and only that."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from headcount.stats.special import beta_cdf, beta_quantile, binomial_sf, bisect, log_beta, log_beta_cdf

shapes = st.floats(0.05, 3000.0)


@given(st.floats(0.0, 1.0), shapes, shapes)
@settings(deadline=None)
def test_the_beta_distribution_agrees_with_scipy(x: float, a: float, b: float) -> None:
    """Within 1e-9, over shapes from a twentieth to thousands."""
    assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-12)


@given(st.floats(0.001, 0.999), st.floats(0.5, 500.0), st.floats(0.5, 500.0))
@settings(deadline=None, max_examples=50)
def test_its_quantiles_agree_with_scipy(probability: float, a: float, b: float) -> None:
    """Within 1e-8."""
    assert beta_quantile(probability, a, b) == pytest.approx(special.betaincinv(a, b, probability), rel=1e-8)


@given(shapes, shapes)
def test_the_beta_function_agrees_with_scipy(a: float, b: float) -> None:
    """Its logarithm."""
    assert log_beta(a, b) == pytest.approx(special.betaln(a, b), rel=1e-9, abs=1e-8)


def test_logarithms_reach_where_the_function_itself_is_zero() -> None:
    """Evidence is compared by logarithms far below 1e-308."""
    assert log_beta_cdf(1e-4, 200.0, 2.0) == pytest.approx(200.0 * math.log(1e-4) + math.log(201.0), rel=1e-3)
    assert log_beta_cdf(0.0, 1.0, 1.0) == -math.inf
    assert log_beta_cdf(1.0, 1.0, 1.0) == 0.0


@given(st.integers(0, 300), st.integers(1, 300), st.floats(0.001, 0.999))
def test_binomial_tails_agree_with_scipy(k: int, n: int, p: float) -> None:
    """P(X > k)."""
    assert binomial_sf(k, n, p) == pytest.approx(stats.binom.sf(k, n, p), rel=1e-8, abs=1e-12)


def test_bisection_finds_a_root_or_the_nearer_end() -> None:
    """An end where the function does not change its sign."""
    assert bisect(lambda x: x * x - 2.0, 0.0, 2.0) == pytest.approx(math.sqrt(2.0))
    assert bisect(lambda x: x + 1.0, 0.0, 1.0) == pytest.approx(0.0, abs=1e-9)
    assert bisect(lambda x: x - 5.0, 0.0, 1.0) == pytest.approx(1.0)
