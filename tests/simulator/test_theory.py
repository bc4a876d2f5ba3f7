"""Where queueing theory has the answer, the core gives it: one server, shared servers, closed loops, bounds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from math import comb, factorial

import pytest

from headcount.simulator.cost import Cost
from headcount.simulator.drive import Person, drive, replay
from headcount.simulator.job import Job
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.server import Server

STEP_S = 0.001
PLAIN = Cost(overhead_s=STEP_S)
"""A step takes the same time whatever is in it: every sequence is a server of its own."""
SHARED = Cost(sequence_s=STEP_S)
"""A step takes time for each sequence in it: one processor, shared."""


def policy(slots: int) -> Policy:
    """Memory without end."""
    return Policy(slots=slots, pool_tokens=1 << 30, block_tokens=1, max_batched_tokens=1 << 20, prefix_cache=False)


def poisson(rate_per_s: float, count: int, tokens: Iterator[int], seed: int) -> list[tuple[float, Job]]:
    """``count`` jobs of one prompt token at exponential intervals."""
    rng, at_s, arrivals = random.Random(seed), 0.0, []
    for _ in range(count):
        at_s += rng.expovariate(rate_per_s)
        arrivals.append((at_s, Job(1, next(tokens))))
    return arrivals


def geometric(mean: float, seed: int) -> Iterator[int]:
    """Exponential lengths in whole tokens."""
    rng = random.Random(seed)
    while True:
        yield max(1, round(rng.expovariate(1.0 / mean)))


def constant(tokens: int) -> Iterator[int]:
    """Always the same length."""
    while True:
        yield tokens


def mean_response_s(jobs: list[Job]) -> float:
    """From submission to the end, the first tenth left out."""
    steady = jobs[len(jobs) // 10 :]
    return sum((job.ended_at_s or 0.0) - job.submitted_at_s for job in steady) / len(steady)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_slot_with_equal_answers_is_m_d_1(load: float) -> None:
    """Mean wait = load * service / (2 * (1 - load))."""
    service_s = 100 * STEP_S

    jobs = replay(Server(PLAIN, policy(1)), poisson(load / service_s, 40_000, constant(100), seed=3))

    expected_s = service_s * (1 + load / (2 * (1 - load)))
    assert mean_response_s(jobs) == pytest.approx(expected_s, rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_a_shared_processor_is_m_m_1_ps(load: float) -> None:
    """Mean response = service / (1 - load), with exponential lengths and with equal ones alike."""
    service_s = 200 * STEP_S
    for tokens in (geometric(200, seed=1), constant(200)):
        jobs = replay(Server(SHARED, policy(10_000)), poisson(load / service_s, 30_000, tokens, seed=5))

        assert mean_response_s(jobs) == pytest.approx(service_s / (1 - load), rel=0.03)


def loop(users: int, think_s: float, mean_tokens: float, seed: int) -> list[Person]:
    """People who think and ask for exponential times."""

    def person(number: int) -> Person:
        rng = random.Random(f"{seed} {number}")
        lengths = geometric(mean_tokens, seed * 1000 + number)
        while True:
            yield rng.expovariate(1.0 / think_s), Job(1, next(lengths))

    return [person(number) for number in range(users)]


def repairmen(users: int, slots: int, think_s: float, service_s: float) -> float:
    """Throughput of the closed loop M/M/slots//users, from its birth-death chain."""
    weights = []
    for waiting in range(users + 1):
        ways = comb(users, waiting) * (service_s / think_s) ** waiting
        if waiting > slots:
            ways *= factorial(waiting) / (factorial(slots) * slots ** (waiting - slots))
        weights.append(ways)
    busy = sum(min(waiting, slots) * weight for waiting, weight in enumerate(weights)) / sum(weights)
    return busy / service_s


@pytest.mark.parametrize(("users", "slots"), [(5, 1), (12, 1), (10, 4), (30, 4), (60, 8)])
def test_the_closed_loop_is_the_machine_repairman(users: int, slots: int) -> None:
    """Throughput and response within 2 % of the exact values, below, at and above saturation."""
    think_s, service_s = 2.0, 0.3
    expected = repairmen(users, slots, think_s, service_s)
    until_s = 25_000 / expected

    jobs = drive(Server(PLAIN, policy(slots)), loop(users, think_s, 300, seed=7), until_s)
    rate_per_s = sum(1 for job in jobs if (job.ended_at_s or 0.0) > until_s / 10) / (until_s * 0.9)

    assert rate_per_s == pytest.approx(expected, rel=0.02)
    assert mean_response_s(jobs) == pytest.approx(users / expected - think_s, rel=0.06, abs=0.01)


def test_littles_law_holds() -> None:
    """Mean number inside = rate * mean time inside, counted independently."""
    jobs = replay(Server(SHARED, policy(50)), poisson(3.0, 5000, geometric(200, seed=2), seed=9))
    changes = sorted([(job.submitted_at_s, 1) for job in jobs] + [(job.ended_at_s or 0.0, -1) for job in jobs])
    inside, area, last_s = 0, 0.0, 0.0
    for at_s, change in changes:
        area += inside * (at_s - last_s)
        inside, last_s = inside + change, at_s
    total_s = sum((job.ended_at_s or 0.0) - job.submitted_at_s for job in jobs)

    assert inside == 0
    assert area == pytest.approx(total_s, rel=1e-9)


@pytest.mark.parametrize("users", [1, 4, 16, 64])
def test_closed_loops_stay_within_the_asymptotic_bounds(users: int) -> None:
    """Never faster than alone, never more than the machine writes, and close to both ends where they are far away."""
    cost = Cost(overhead_s=0.002, weights_s=0.010, token_s=0.0005, context_token_s=1e-6)
    think_s, slots, tokens, until_s = 3.0, 16, 150, 1200.0

    def person(number: int) -> Person:
        rng = random.Random(number)
        while True:
            yield rng.uniform(0.0, 2 * think_s), Job(200, tokens)

    alone = replay(Server(cost, policy(slots)), [(0.0, Job(200, tokens))])[0]
    alone_s = alone.ended_at_s or 0.0
    jobs = drive(Server(cost, policy(slots)), [person(number) for number in range(users)], until_s)
    rate_per_s = len(jobs) / until_s
    full_step_s = cost.step_s(slots, slots, adapted=False) + cost.context_token_s * slots * 200
    most_per_s = slots / (full_step_s * (tokens - 1))

    assert rate_per_s <= min(users / (alone_s + think_s) * 1.03, most_per_s)
    assert mean_response_s(jobs) >= alone_s * (1 - 1e-9)
    if users == 1:
        assert rate_per_s == pytest.approx(1 / (alone_s + think_s), rel=0.03)
    if users == 64:
        assert rate_per_s > 0.6 * most_per_s


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_nobody_starves_where_memory_is_short(name: str) -> None:
    """Endless closed loop, memory for about four contexts, thirty people: everybody is answered again and again."""
    cost = Cost(overhead_s=0.002, weights_s=0.010, token_s=0.0005, context_token_s=1e-6)
    sizes = {"context_tokens": 1000 if name != "llamacpp" else 4000}
    if name in ("vllm", "sglang"):
        sizes |= {"pool_tokens": 1600}
    server = Server(cost, POLICIES[name](slots=4 if name in ("llamacpp", "ollama") else 16, **sizes))

    def person(number: int) -> Person:
        rng = random.Random(number)
        while True:
            yield rng.uniform(0.0, 1.0), Job(rng.randint(50, 300), rng.randint(20, 200))

    ended = drive(server, [person(number) for number in range(30)], 600.0)
    answers = Counter(job.tag for job in ended)

    assert len(answers) == 30
    assert server.preemptions_total > 0 or name != "vllm"
    assert min(answers.values()) > 10
    assert max(answers.values()) < 2 * min(answers.values())
