"""How much load this machine can be believed with: which step comes next, what a step means, and a real one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headcount.ceiling import Step, measure_ceiling, next_people

GOOD = Step(people=128, tokens_per_s=6000, lag_s=0.002, cpu_fraction=0.5, distortion_s=0.001, server_late_s=0.001)


def step(people: int, **fields: Any) -> Step:
    """A good one, but for what the test says."""
    return msgspec.structs.replace(GOOD, people=people, **fields)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ""),
        ({"lag_s": 0.03}, "the loop was 30 ms late"),
        ({"cpu_fraction": 0.95}, "a load process took 95 % of its core"),
        ({"distortion_s": 0.02}, "waits came out 20 ms too long"),
        ({"distortion_s": None}, "no answer came in time"),
    ],
)
def test_a_step_says_why_it_cannot_be_trusted(fields: dict[str, Any], fault: str) -> None:
    """Lag, a full core, waits that are not the server's, or nothing at all."""
    assert step(100, **fields).fault == fault


def test_the_steps_close_in_on_a_limit() -> None:
    """Up until one fails, then between the largest good and the smallest bad one, to about an eighth."""
    steps: list[Step] = []
    while (people := next_people(steps, 100_000)) is not None:
        steps.append(step(people, lag_s=0.001 if people <= 900 else 0.1))

    good = max(s.people for s in steps if not s.fault)
    assert 900 - 900 / 8 <= good <= 900
    assert len(steps) <= 8


def test_an_easy_step_is_followed_by_a_long_one() -> None:
    """Four times as many while the core is nearly idle; never more than descriptors allow."""
    assert next_people([step(128, cpu_fraction=0.1)], 100_000) == 512
    assert next_people([step(128, cpu_fraction=0.1)], 300) == 300
    assert next_people([step(300)], 300) is None


def test_the_servers_limit_is_not_the_clients() -> None:
    """Where the built-in server falls behind, the search turns back, though the client did nothing wrong."""
    late = step(512, server_late_s=0.05)

    assert late.fault == ""
    assert late.server_bound
    assert next_people([step(256), late], 100_000) == 384


def test_a_real_step() -> None:
    """Real load processes and the real built-in server: answers come, at about the rate they should."""
    steps = asyncio.run(asyncio.wait_for(measure_ceiling(budget_s=1.5), 60))

    assert len(steps) == 1
    assert steps[0].people == 128
    assert 1000 < steps[0].tokens_per_s < 6500
    assert steps[0].distortion_s is not None
