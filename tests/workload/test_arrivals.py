"""Arrivals: the rate that was asked, the burstiness that was asked, the same instants again."""

from itertools import islice, pairwise
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.workload.arrivals import (
    Finite,
    Open,
    Synchronised,
    arrival_instants,
    press_instants,
    recorded_instants,
)


@pytest.mark.parametrize("gap_cv", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("burst_size", [1, 5])
def test_rate_and_spread_are_as_asked(gap_cv: float, burst_size: int) -> None:
    """20,000 arrivals have the mean rate, and gaps between bursts the wanted coefficient of variation."""
    at_s = list(islice(arrival_instants(Open(gap_cv=gap_cv, burst_size=burst_size), 4.0, 1, "s"), 20_000))
    bursts_s = at_s[::burst_size]
    gaps_s = [after - before for before, after in pairwise(bursts_s)]

    assert len(at_s) / at_s[-1] == pytest.approx(4.0, rel=0.08)
    assert stdev(gaps_s) / fmean(gaps_s) == pytest.approx(gap_cv, rel=0.08, abs=1e-6)
    assert all(at_s[i] == bursts_s[i // burst_size] for i in range(1000))


@given(rate=st.floats(0.01, 1000), cv=st.floats(0, 4), seed=st.integers(0, 2**32))
def test_instants_never_fall_and_come_again(rate: float, cv: float, seed: int) -> None:
    """Arrivals are in order, and the same names give the same instants."""
    once = list(islice(arrival_instants(Open(gap_cv=cv), rate, seed, "s"), 50))

    assert once == sorted(once)
    assert once == list(islice(arrival_instants(Open(gap_cv=cv), rate, seed, "s"), 50))


@given(share=st.floats(0.1, 1), every_s=st.floats(1, 100), seed=st.integers(0, 1000))
def test_synchronised_people_press_in_windows(share: float, every_s: float, seed: int) -> None:
    """The share of people is right, and each presses once in each window."""
    plan = Synchronised(share=share, every_s=every_s, window_s=every_s / 10)
    found = [press_instants(plan, person, seed, "s") for person in range(40)]
    together = [list(islice(instants, 5)) for instants in found if instants is not None]

    assert abs(len(together) - 40 * share) < 2
    for instants in together:
        assert all(k * every_s <= at_s <= k * every_s + every_s / 10 for k, at_s in enumerate(instants))


def test_traces_begin_at_nought_and_are_scaled() -> None:
    """A trace at twice the speed takes half as long."""
    assert list(recorded_instants([5.0, 6.0, 9.0], 2.0)) == [0.0, 0.5, 2.0]


def test_finite_tests_may_differ_by_level() -> None:
    """A list gives each level its own number, the last one to all further levels."""
    assert [Finite(conversations_each=(5, 3)).conversations_at(i) for i in range(4)] == [5, 3, 3, 3]
    assert Finite(conversations_each=2).conversations_at(7) == 2
