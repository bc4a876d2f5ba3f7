"""The first estimate by formula, and why the limit that was measured is another number.

Pure; the formula decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.limit import saw_a_cycle

__all__ = ["estimate_sentence", "first_estimate"]

ALIKE = 0.15
"""Numbers closer than this share are the same."""
UNKNOWN_TO_IT = {
    "client": "a client that gives out first",
    "proxy": "what holds requests back before the engine",
    "slots": "the queue for slots",
    "kv-memory": "memory that runs full",
    "decode-bandwidth": "answers that are written more slowly the more of them are written at once",
    "prefill-compute": "the time that prompts take",
    "adapters": "adapters that wait for each other",
    "heat-or-power": "heat and power",
}
"""By cause, what the formula leaves out."""


def first_estimate(levels: Sequence[LevelSummary]) -> float | None:
    """By formula: sustained output tokens/s over the tokens/s that one active person asks for.

    One person asks for the tokens of a turn once a turn cycle, as long as that was on the smallest level. The formula
    knows nothing of queues, of prompts that must be read, and of memory.
    """
    rates = [s.output_tokens_per_s for s in levels if s.output_tokens_per_s and saw_a_cycle(s)]
    alone = _smallest(levels)
    if not rates or alone is None or not alone.turn_cycle_s or not alone.output_tokens_mean:
        return None
    return max(rates) * alone.turn_cycle_s / alone.output_tokens_mean


def estimate_sentence(
    estimate_users: float | None, limit_users: int | None, levels: Sequence[LevelSummary], cause: str
) -> str:
    """The estimate beside the limit, with the reason when they differ; empty when either is not known."""
    if estimate_users is None or not limit_users:
        return ""
    said = f"{estimate_users:.0f}"
    if abs(limit_users / estimate_users - 1.0) <= ALIKE:
        return f"tokens/s over what one person asks for gives {said}, about what was measured"
    if limit_users < estimate_users:
        reason = UNKNOWN_TO_IT.get(cause, "waits that grow before tokens/s do")
        return f"tokens/s over what one person asks for gives {said}, more than was measured: it leaves out {reason}"
    alone = _smallest(levels)
    at_limit = max((s.turn_cycle_s for s in levels if s.users == limit_users and s.turn_cycle_s), default=0.0)
    if alone is not None and alone.turn_cycle_s and at_limit > (1.0 + ALIKE) * alone.turn_cycle_s:
        return (
            f"tokens/s over what one person asks for gives {said}, fewer than were measured: who waits asks less often "
            f"(a turn with its pause took {at_limit:.1f} s at the limit, {alone.turn_cycle_s:.1f} s before)"
        )
    return f"tokens/s over what one person asks for gives {said}, fewer than were measured: throughput was not full yet"


def _smallest(levels: Sequence[LevelSummary]) -> LevelSummary | None:
    known = (s for s in levels if s.turn_cycle_s and s.output_tokens_mean)
    return min(known, key=lambda s: s.users, default=None)
