"""A router before servers: where requests go, what one replica alone is, what is lost when one is gone."""

from __future__ import annotations

import random

import pytest

from headcount.simulator.cost import Cost
from headcount.simulator.drive import replay
from headcount.simulator.job import Job
from headcount.simulator.policy import Policy
from headcount.simulator.routing import ROUTINGS, Replicas
from headcount.simulator.server import Server
from headcount.simulator.staffing import DEVIATIONS, square_root_replicas

COST = Cost(overhead_s=0.002, weights_s=0.010, token_s=0.0005, sequence_s=0.0001)
POLICY = Policy(slots=4, pool_tokens=20_000, context_tokens=4096)


def replicas(count: int, routing: str) -> Replicas:
    """So many servers alike."""
    return Replicas([Server(COST, POLICY) for _ in range(count)], routing)


def drain(pool: Replicas) -> list[Job]:
    """Jobs in order of their ends."""
    ended = []
    while (at_s := pool.next_event_at()) is not None:
        ended += [event.job for event in pool.advance(at_s) if event.kind == "finished"]
    return ended


@pytest.mark.parametrize("routing", ROUTINGS)
def test_one_replica_is_the_server_itself(routing: str) -> None:
    """Every instant is the same as without a router."""
    rng = random.Random(1)
    arrivals = sorted((rng.uniform(0, 20), rng.randint(5, 300), rng.randint(1, 80)) for _ in range(200))
    pool, jobs = replicas(1, routing), []
    for number, (at_s, prompt, output) in enumerate(arrivals):
        while (due_s := pool.next_event_at()) is not None and due_s <= at_s:
            pool.advance(due_s)
        jobs.append(Job(prompt, output))
        pool.submit(at_s, jobs[-1], number)
    drain(pool)

    alone = [Job(prompt, output) for _, prompt, output in arrivals]
    replay(Server(COST, POLICY), [(at_s, job) for (at_s, _, _), job in zip(arrivals, alone, strict=True)])
    assert [job.ended_at_s for job in jobs] == pytest.approx([job.ended_at_s for job in alone], abs=1e-9)


def test_the_least_loaded_gets_the_next() -> None:
    """Loads never differ by more than one while nothing ends, and every request ends."""
    pool = replicas(3, "least-loaded")
    for number in range(20):
        pool.submit(0.0, Job(10, 50), number)
        loads = [len(server.running) + len(server.waiting) for server in pool.servers]
        assert max(loads) - min(loads) <= 1

    assert len(drain(pool)) == 20


def cached_tokens(routing: str, sessions: int) -> int:
    """What is found in the caches of four replicas when everybody asks twice."""
    pool = replicas(4, routing)
    for session in range(sessions):
        pool.submit(0.5 * session, Job(200, 20, path=((session, 200),), answer_key=(session, "answer")), session)
    drain(pool)
    for session in range(sessions):
        pool.submit(100.0 + 0.5 * session, Job(240, 20, path=((session, 200), ((session, "then"), 240))), session)
    drain(pool)
    return sum(server.cached_tokens_total for server in pool.servers)


def test_a_session_stays_where_its_history_is() -> None:
    """Sticky: the second question finds the first in the cache; least loaded: elsewhere, where nobody knows it."""
    assert cached_tokens("sticky", 13) == 13 * 192
    assert cached_tokens("least-loaded", 13) == 0


@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_failed_replica_gets_nothing_more(routing: str) -> None:
    """What it had is given back and can be asked again elsewhere."""
    pool = replicas(3, routing)
    for number in range(30):
        pool.submit(0.0, Job(10, 50, tag=number), number)
    lost = pool.fail(1)
    for job in lost:
        pool.submit(0.001, Job(10, 50, tag=job.tag), job.tag)
    ended = drain(pool)

    assert len(lost) == 10
    assert sorted(job.tag for job in ended) == list(range(30))  # type: ignore[type-var]
    assert all(pool.replica_for(number) != 1 for number in range(30))


def test_square_root_staffing() -> None:
    """One replica for what one carries; for many, ever closer to the mean load alone."""
    assert square_root_replicas(300, 300, 250) == 1
    whole = [square_root_replicas(300 * count, 300, 250) / count for count in (10, 100, 1000, 10_000)]
    assert whole == sorted(whole, reverse=True)
    assert whole[-1] == pytest.approx(250 / (250 + DEVIATIONS * 250**0.5), rel=0.01)
