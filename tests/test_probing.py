"""A server's constants are found from outside, well enough to predict levels that were never tried."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headcount.engine.simulated import Simulated
from headcount.probing import Seen, probe
from headcount.simulator.cost import Cost
from headcount.simulator.drive import Person, drive
from headcount.simulator.fitting import DecodeSeen, PrefillSeen, fit
from headcount.simulator.job import Job
from headcount.simulator.policy import Policy
from headcount.simulator.profiles import PROFILES
from headcount.simulator.server import Server
from headcount.virtual import clock, run

PRIOR = Cost(0.002, 0.008, 0.0003, 0.00002, 4e-7, 1e-8)
"""Nobody's in particular."""


def seen_of(**options: Any) -> tuple[Seen, float]:
    """What the probe sees of a simulated server, and how long it takes."""

    async def main() -> tuple[Seen, float]:
        engine = Simulated(round_trip_s=0.0, **options)
        facts = await engine.facts()
        seen = await probe(engine, facts.context_tokens or 4096, facts.slots)
        return seen, clock()()

    return run(main())


def level(cost: Cost, policy: Policy, users: int) -> tuple[float, float]:
    """Median answer time and tokens a second of people with their history."""

    def person(number: int) -> Person:
        rng = random.Random(number)
        while True:
            yield rng.uniform(1.0, 5.0), Job(rng.randint(100, 500), rng.randint(80, 200))

    jobs = drive(Server(cost, policy), [person(number) for number in range(users)], 300.0)
    waits = sorted((job.ended_at_s or 0.0) - job.submitted_at_s for job in jobs)
    return waits[len(waits) // 2], sum(job.output_tokens for job in jobs) / 300.0


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_levels_never_tried_are_predicted(name: str) -> None:
    """Median and tokens a second within 7 % of the truth at 4 to 40 people, with jitter."""
    profile = PROFILES[name]

    seen, took_s = seen_of(server=name, jitter=0.02)
    found = fit(seen.prefills, seen.decodes, PRIOR, profile.policy.max_batched_tokens)

    assert found.is_trusted
    assert took_s < 60.0
    for users in (4, 16, 40):
        predicted = level(found.cost, profile.policy, users)
        assert predicted == pytest.approx(level(profile.cost, profile.policy, users), rel=0.07)


def test_the_prefix_cache_is_seen() -> None:
    """A repeated prompt is answered at once where there is one."""
    assert seen_of(prefix_cache=True)[0].cached_share < 0.3
    assert seen_of(prefix_cache=False)[0].cached_share == pytest.approx(1.0, abs=0.2)


def test_another_kind_of_server_is_not_trusted() -> None:
    """Gaps that fall with concurrency cannot be explained, and the fit says so."""
    decodes = [DecodeSeen(n, 100.0, 0.2 / n) for n in (1, 2, 4, 8, 16)]

    assert not fit([PrefillSeen(100, 0.1)], decodes, PRIOR).is_trusted
