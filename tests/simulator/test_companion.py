"""The instant companion stays close to the simulator it stands in for."""

import random

import pytest

from headcount.simulator.companion import predict
from headcount.simulator.cost import Cost
from headcount.simulator.drive import Person, drive
from headcount.simulator.job import Job
from headcount.simulator.policy import vllm
from headcount.simulator.server import Server

COST = Cost(0.003, 0.008, 0.00006, 0.00005, 1.5e-7, 2e-9)
PROMPT, OUTPUT, THINK_S = 150, 250, 4.0


def person(number: int) -> Person:
    """Exponential pauses and lengths, no history."""
    rng = random.Random(number)
    while True:
        yield rng.expovariate(1 / THINK_S), Job(PROMPT, max(1, round(rng.expovariate(1 / OUTPUT))))


@pytest.mark.parametrize(("users", "slots"), [(1, 16), (8, 16), (30, 16), (60, 16), (60, 64)])
def test_means_agree_with_the_simulator(users: int, slots: int) -> None:
    """Throughput and mean answer time within a few per cent, from one person to far beyond the slots."""
    until_s = 6000.0 / users + 400.0
    server = Server(COST, vllm(slots=slots, prefix_cache=False))
    jobs = drive(server, [person(number) for number in range(users)], until_s)
    steady = [job for job in jobs if job.submitted_at_s > 60.0]
    e2e_s = sum((job.ended_at_s or 0.0) - job.submitted_at_s for job in steady) / len(steady)

    # The mean context of a decoding sequence weighs long answers more: E[L^2] / E[L] of an exponential is 2 L.
    means = predict(COST, slots, users, THINK_S, PROMPT, OUTPUT, PROMPT + OUTPUT)

    assert means.requests_per_s == pytest.approx(len(steady) / (until_s - 60.0), rel=0.06)
    assert means.e2e_s == pytest.approx(e2e_s, rel=0.08)
    assert means.in_flight_requests == pytest.approx(means.requests_per_s * means.e2e_s)
