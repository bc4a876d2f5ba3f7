"""Intervals of a share of misses, and evidence that may be looked at at any time."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from headcount.stats.proportion import (
    anytime_interval,
    clopper_pearson,
    log_evidence_above,
    log_evidence_below,
    overdispersion,
    smallest_telling_n,
)


@pytest.mark.parametrize(("misses", "n"), [(0, 10), (1, 59), (5, 100), (50, 100), (100, 100)])
def test_the_exact_interval_agrees_with_scipy(misses: int, n: int) -> None:
    """Clopper and Pearson's."""
    expected = stats.binomtest(misses, n).proportion_ci(0.95, "exact")

    assert clopper_pearson(misses, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_nothing_seen_says_nothing() -> None:
    """The interval of no outcomes is everything."""
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert anytime_interval(0, 0) == (0.0, 1.0)


def test_59_answers_tell_about_a_p95() -> None:
    """The smallest n whose largest value bounds the 95th percentile with 95 % confidence; 5 for p50, 299 for p99."""
    assert [smallest_telling_n(share) for share in (0.05, 0.5, 0.01)] == [59, 5, 299]
    assert 0.95**59 <= 0.05 < 0.95**58


def test_a_server_that_never_misses_holds_after_74_independent_answers() -> None:
    """Looking at any time costs 15 answers over a single look at 59."""
    first = next(n for n in range(1, 200) if anytime_interval(0, n)[1] <= 0.05)

    assert first == 74


def test_a_server_that_always_misses_fails_after_two_answers() -> None:
    """Far from the limit little is needed."""
    assert next(n for n in range(1, 20) if anytime_interval(n, n)[0] > 0.05) == 2


def test_the_ends_are_where_the_evidence_reaches_one_in_twenty() -> None:
    """An end of the interval is the share against which the evidence is just 20 to 1."""
    low, high = anytime_interval(12, 150)

    assert log_evidence_above(12, 150, low) == pytest.approx(math.log(20), abs=0.02)
    assert log_evidence_below(12, 150, high) == pytest.approx(math.log(20), abs=0.02)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_looking_again_and_again_is_wrong_at_most_once_in_twenty(share: float) -> None:
    """At exactly the allowed share, over 300 sequences of 300 answers each, looked at after every third of them."""
    rng = random.Random(1)
    wrong_holds = wrong_fails = 0
    for _ in range(300):
        misses, held, failed = 0, False, False
        for n in range(3, 301, 3):
            misses += sum(rng.random() < share for _ in range(3))
            held = held or log_evidence_below(misses, n, share) >= math.log(20)
            failed = failed or log_evidence_above(misses, n, share) >= math.log(20)
        wrong_holds += held
        wrong_fails += failed

    assert wrong_holds <= 0.05 * 300
    assert wrong_fails <= 0.05 * 300


def test_clustered_misses_weigh_less() -> None:
    """Blocks that miss together show an overdispersion well above 1; independent ones stay near it."""
    rng = np.random.default_rng(1)
    n = np.full(16, 40.0)
    clustered = rng.permutation(np.repeat([0.0, 20.0], 8))
    independent = rng.binomial(40, 0.25, 16).astype(float)

    assert overdispersion(n, clustered, prior=1.0, prior_blocks=4) > 5.0
    assert overdispersion(n, independent, prior=1.0, prior_blocks=4) < 2.0


def test_without_misses_the_prior_is_all_there_is() -> None:
    """A variance of nothing tells nothing; and it is never below 1."""
    assert overdispersion([10, 10], [0, 0], prior=3.0, prior_blocks=4) == 3.0
    assert overdispersion([10], [5], prior=0.2, prior_blocks=4) == 1.0
