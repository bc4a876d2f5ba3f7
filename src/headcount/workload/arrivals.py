"""When people come and press enter: ``[arrivals]``, and the instants each plan gives, as plain generators.

Knows nothing of a clock or of the load: instants are seconds since the level began.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.workload.bounds import MOST_WAIT_S, Wait
from headcount.workload.deal import Deal
from headcount.workload.streams import random_stream

__all__ = [
    "ArrivalPlan",
    "Closed",
    "Finite",
    "Open",
    "Replayed",
    "Synchronised",
    "arrival_instants",
    "press_instants",
    "recorded_instants",
]


class _Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class Closed(_Plan, frozen=True, tag="closed"):
    """N people, conversation after conversation until the level ends; their starts are spread."""


class Finite(_Plan, frozen=True, tag="finite"):
    """N people start together, hold their conversations and leave. Understates tokens/s: the end runs half empty."""

    conversations_each: (
        Annotated[int, Meta(ge=1, le=1_000_000)]
        | Annotated[tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...], Meta(min_length=1)]
    ) = 1
    """Conversations of each person; a list gives them level by level, the last one for all further levels."""

    def conversations_at(self, position: int) -> int:
        """How many each person holds at the level in this position, from 0."""
        each = self.conversations_each
        return each if isinstance(each, int) else each[min(position, len(each) - 1)]


class Open(_Plan, frozen=True, tag="open"):
    """Conversations arrive at a rate, whatever the server does; a level is a rate."""

    rates_per_s: tuple[Annotated[float, Meta(ge=1e-6, le=1e5)], ...] = ()
    """New conversations per second, one level each; without any, the highest that stays stable is
    searched for."""
    gap_cv: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Spread of the gaps, standard deviation over mean: 0 a metronome, 1 Poisson, above 1 bursty. Gaps are
    gamma-distributed; the ``burstiness`` of vLLM's benchmark is 1 / gap_cv**2."""
    burst_size: Annotated[int, Meta(ge=1, le=100_000)] = 1
    """So many conversations at the same instant, as often less."""


class Synchronised(_Plan, frozen=True, tag="synchronised"):
    """As ``closed``, but a share of the people press enter within one window, every so often: a class begins."""

    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """The share of people who wait for the next window after each pause; the others go on as they like."""
    every_s: Annotated[float, Meta(ge=0.001, le=MOST_WAIT_S)] = 60.0
    """From one window's beginning to the next one's."""
    window_s: Wait = 2.0

    def __post_init__(self) -> None:
        if self.window_s > self.every_s:
            raise ValueError("window_s is longer than every_s; make it shorter")


class Replayed(_Plan, frozen=True, tag="trace"):
    """Conversations arrive when they did in the trace that the workload replays."""

    speed: Annotated[float, Meta(ge=1e-6, le=1e6)] = 1.0
    """2: in half the time, at twice the rate."""


ArrivalPlan = Closed | Finite | Open | Synchronised | Replayed


def arrival_instants(plan: Open, rate_per_s: float, seed: int, stream: str) -> Iterator[float]:
    """When each new conversation of the open loop arrives; endless, never falling. The k-th is that of person k."""
    rng = random_stream(seed, stream, "arrivals")
    mean_gap_s = plan.burst_size / rate_per_s
    shape = plan.gap_cv**-2 if plan.gap_cv > 1e-3 else 0.0
    at_s = 0.0
    while True:
        at_s += rng.gammavariate(shape, mean_gap_s / shape) if shape else mean_gap_s
        yield from itertools.repeat(at_s, plan.burst_size)


def press_instants(plan: Synchronised, person: int, seed: int, stream: str) -> Iterator[float] | None:
    """When a synchronised person may press enter: one instant in each window, rising; None for those who are not.

    Who ends a pause waits for the next of these instants.
    """
    if _together(plan.share, seed).of(person)[0] == "alone":
        return None
    rng = random_stream(seed, stream, person, "presses")
    return (number * plan.every_s + rng.random() * plan.window_s for number in itertools.count())


@functools.lru_cache(maxsize=4)
def _together(share: float, seed: int) -> Deal:
    return Deal({"together": share, "alone": 1 - share}, seed, "synchronised")


def recorded_instants(at_s: Iterable[float], speed: float) -> Iterator[float]:
    """A trace's instants from 0 on, at ``speed``; ends with the trace."""
    first_s: float | None = None
    for instant_s in at_s:
        first_s = instant_s if first_s is None else first_s
        yield (instant_s - first_s) / speed
