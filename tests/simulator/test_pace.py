"""Sick servers slow down as they are told to."""

import statistics
from math import log

import pytest

from headcount.simulator.cost import Cost
from headcount.simulator.drive import replay
from headcount.simulator.job import Job
from headcount.simulator.pace import Pace
from headcount.simulator.policy import vllm
from headcount.simulator.server import Server


def factors(pace: Pace, seconds: int) -> list[float]:
    """The durations of answers of one token that should take 1 s, one every 100 s."""
    jobs = replay(
        Server(Cost(overhead_s=1.0), vllm(), pace), [(100.0 * (n + 1), Job(10, 1)) for n in range(seconds // 100)]
    )
    return [(job.ended_at_s or 0.0) - job.submitted_at_s for job in jobs]


def test_drift_leak_and_throttling() -> None:
    """Each grows with what it should grow with."""
    assert factors(Pace(drift_per_hour=3.6), 400) == pytest.approx([1.0, 1.1, 1.2, 1.3])
    assert factors(Pace(leak_per_request=0.5), 400) == pytest.approx([1.0, 1.5, 2.0, 2.5])
    assert factors(Pace(throttle_after_s=150.0, throttle_factor=2.0), 400) == pytest.approx([1.0, 1.0, 2.0, 2.0])


def test_jitter_has_its_deviation_and_its_seed() -> None:
    """Logarithms of the factors spread as asked; the same seed gives the same factors."""
    one, again, other = (factors(Pace(seed=seed, jitter=0.1), 50_000) for seed in (1, 1, 2))

    assert one == again != other
    assert statistics.stdev(map(log, one)) == pytest.approx(0.1, rel=0.15)
