"""The first estimate by formula, and why the limit that was measured is another number.

Pure; the formula decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from headcount.analysis.conclusions import LevelSummary

__all__ = ["estimate_sentence", "first_estimate"]

ALIKE = 0.15
"""Numbers closer than this share are the same."""
UNKNOWN_TO_IT = {
    "client": "of a client that gives out first",
    "proxy": "of what holds requests back before the engine",
    "slots": "of the queue for slots",
    "kv-memory": "of memory that runs full",
    "decode-bandwidth": "of answers that are written more slowly the more of them are written at once",
    "prefill-compute": "of the time that prompts take",
    "adapters": "of adapters that wait for each other",
    "heat-or-power": "of heat and power",
}
"""By cause, what the formula leaves out."""


def first_estimate(levels: Sequence[LevelSummary]) -> float | None:
    """By formula: sustained output tokens/s over the tokens/s that one active person asks for.

    One person asks for the tokens of a turn once a turn cycle, as long as that was on the smallest level. The formula
    knows nothing of queues, of prompts that must be read, and of memory.
    """
    rates = [s.output_tokens_per_s for s in levels if s.output_tokens_per_s]
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
    said = f"The formula (tokens/s over what one person asks for) says {estimate_users:.0f}"
    if abs(limit_users / estimate_users - 1.0) <= ALIKE:
        return f"{said}, about what was measured."
    if limit_users < estimate_users:
        reason = UNKNOWN_TO_IT.get(cause, "of waits that grow before tokens/s do")
        return f"{said}, more than was measured: it knows nothing {reason}."
    alone = _smallest(levels)
    at_limit = [s.turn_cycle_s for s in levels if s.users == limit_users and s.turn_cycle_s]
    cycles = ""
    if alone is not None and alone.turn_cycle_s and at_limit and max(at_limit) > (1.0 + ALIKE) * alone.turn_cycle_s:
        cycles = f" (a turn with its pause took {max(at_limit):.1f} s at the limit, {alone.turn_cycle_s:.1f} s before)"
    return f"{said}, fewer than were measured: who waits within the service level asks less often{cycles}."


def _smallest(levels: Sequence[LevelSummary]) -> LevelSummary | None:
    known = (s for s in levels if s.turn_cycle_s and s.output_tokens_mean)
    return min(known, key=lambda s: s.users, default=None)
