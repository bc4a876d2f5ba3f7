"""What passes between a session and its load processes: JSON lines, one tag byte before each.

Down go one ``Setup``, then ``Order``s; up come requests (already encoded as they will lie in the run folder),
samples and ``Event``s. Knows nothing of pipes and processes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headcount.http import Target
from headcount.records import Level
from headcount.workload.arrivals import ArrivalPlan, Closed

__all__ = ["EVENT", "REQUEST", "SAMPLES", "Event", "Order", "Setup"]

REQUEST = b"R"
SAMPLES = b"S"
EVENT = b"E"


class Setup(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a load process needs to know before the first level."""

    origin_s: float
    """When the run began on the monotonic clock, which processes of one machine share."""
    seed: int
    workload: dict[str, Any]
    engine: str
    process: int = 0
    """Which of the level's load processes this one is, from 0."""
    target: Target | None = None
    """None for an engine without a network."""
    model: str | None = None
    learned: dict[str, Any] = {}
    options: dict[str, Any] = {}
    context_tokens: int | None = None
    arrivals: ArrivalPlan = Closed()
    sample_interval_s: float = 1.0
    audit: bool = True
    """Whether to watch our own loop's lag and CPU; under the virtual clock there is nothing to see."""


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """Prepare a level, begin it, or stop it (the other two None)."""

    prepare: Level | None = None
    """Its own instants do not count yet."""
    begin_at_s: float | None = None
    """When the first person of the level that was prepared presses enter."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """``ready`` after the set-up, ``prepared``, ``began``, ``finished`` (nobody is left), ``stopped``, or
    ``failed``."""

    kind: str
    text: str = ""
