"""Reasons not to trust a level: one small pure function each, from its evidence to a ``Caution`` or None.

A fatal one voids the level. Knows nothing of other levels and of the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from headcount.analysis.conclusions import Caution
from headcount.analysis.level_test import Window, turn_cycle_s
from headcount.analysis.table import Rows
from headcount.records import Level, Sample
from headcount.slo import Clause
from headcount.stats.quantile import quantile

__all__ = ["CHECKS", "Evidence", "buffered_stream", "cautions_of", "client_lag", "errors", "littles_law", "send_delay"]


class Evidence(msgspec.Struct, frozen=True):
    """What the checks look at: one level."""

    level: Level
    rows: Rows
    """Everything, in order of its end."""
    inside: Rows
    """What ended inside the steady window."""
    window: Window
    samples: tuple[Sample, ...]
    slo: tuple[Clause, ...]
    first_error: str | None

    def values(self, name: str) -> list[float]:
        """Samples of one name inside the steady window."""
        began, ended = self.window.began_at_s, self.window.ended_at_s
        return [s.value for s in self.samples if s.name == name and began <= s.at_s <= ended]

    @property
    def ttft_bound_s(self) -> float | None:
        """The tightest bound on TTFT; None when no clause names it."""
        return min((c.bound for c in self.slo if c.metric == "ttft"), default=None)


def cautions_of(evidence: Evidence) -> tuple[Caution, ...]:
    """All cautions that the evidence of one level gives, fatal ones first."""
    found = [caution for check in CHECKS if (caution := check(evidence)) is not None]
    found = [msgspec.structs.replace(caution, level=evidence.level.index) for caution in found]
    return tuple(sorted(found, key=lambda caution: not caution.fatal))


def client_lag(evidence: Evidence) -> Caution | None:
    """Our own event loop was late: p99 of its lag above max(20 ms, 10 % of the TTFT bound)."""
    lag_s = quantile(np.asarray(evidence.values("client_loop_lag_s")), 0.99)
    bound_s = max(0.020, 0.1 * (evidence.ttft_bound_s or 0.0))
    if lag_s is None or lag_s <= bound_s:
        return None
    return Caution(
        "client-lag",
        f"this client's own event loop was {lag_s * 1000:.0f} ms late (p99; {bound_s * 1000:.0f} ms are tolerable), "
        "so the waits shown are partly its own",
        "use more load processes, or run headcount on a machine of its own",
        fatal=True,
    )


def send_delay(evidence: Evidence) -> Caution | None:
    """Requests left late: p99 of scheduled-to-sent above max(20 ms, 10 % of the TTFT bound)."""
    delays_s = evidence.inside.send_delay_s
    delay_s = quantile(delays_s[~np.isnan(delays_s)], 0.99)
    bound_s = max(0.020, 0.1 * (evidence.ttft_bound_s or 0.0))
    if delay_s is None or delay_s <= bound_s:
        return None
    return Caution(
        "send-delay",
        f"requests left this client {delay_s * 1000:.0f} ms after their time (p99)",
        "use more load processes, or run headcount on a machine of its own",
        fatal=True,
    )


def littles_law(evidence: Evidence) -> Caution | None:
    """Requests/s x (mean E2E + think) must give the people within 10 %, or within what so short a window can show."""
    level, window, inside = evidence.level, evidence.window, evidence.inside
    cycle_s = turn_cycle_s(inside)
    if cycle_s is None or level.users < 1 or window.blocks < 2 or level.conversations_each is not None:
        return None
    seen = len(inside) / window.length_s * cycle_s
    # Each person's turns at both edges are counted whole or not at all: half a cycle of error, by chance.
    chance = 4.0 * cycle_s / window.length_s / math.sqrt(level.users)
    if abs(seen / level.users - 1.0) <= max(0.10, chance):
        return None
    return Caution(
        "load-not-as-said",
        f"by Little's law {seen:.0f} people were active, not the {level.users} of this level",
        "the load was capped or lost somewhere before the server: look at client limits and at a proxy between",
        fatal=True,
    )


def buffered_stream(evidence: Evidence) -> Caution | None:
    """Streams that arrive all at once: TTFT above 95 % of E2E with more than one token, for most answers."""
    inside = evidence.inside
    chosen = inside.good & inside.streamed & (inside.output_tokens > 1) & ~np.isnan(inside.ttft_s)
    if chosen.sum() < 5 or evidence.ttft_bound_s is None:
        return None
    share = inside.ttft_s[chosen] / np.maximum(inside.e2e_s[chosen], 1e-9)
    if float(np.median(share)) <= 0.95:
        return None
    return Caution(
        "buffered-stream",
        "answers arrive all at once at their end, so the time to the first token is not the server's",
        "suspect a buffering proxy between: switch its response buffering off, or go to the server directly",
        fatal=True,
    )


def errors(evidence: Evidence) -> Caution | None:
    """Any failed request, with the first message."""
    inside = evidence.inside
    failed = int((~inside.good).sum())
    if failed == 0:
        return None
    return Caution(
        "errors",
        f"{failed} of {len(inside)} requests failed; the first: {evidence.first_error or 'nothing was said'}",
        "read the server's log at that time",
    )


CHECKS: tuple[Callable[[Evidence], Caution | None], ...] = (
    client_lag,
    send_delay,
    littles_law,
    buffered_stream,
    errors,
)
"""In the order in which they are told."""
