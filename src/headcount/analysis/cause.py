"""What gives out first, from what the levels around the limit showed. "Not seen" is an allowed answer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary

__all__ = ["Cause", "find_cause"]


class Cause(msgspec.Struct, frozen=True):
    """One of the names in ``Verdict.cause``, the figures that led to it, and what to change."""

    name: str
    sentence: str
    advice: tuple[str, ...] = ()


NOT_SEEN = Cause("not-seen", "What gives out first was not seen: the server does not tell enough of itself.")


def find_cause(summaries: Sequence[LevelSummary], limit_users: int | None) -> Cause:
    """Judge the lowest level above the limit that failed."""
    above = [s for s in summaries if s.decision in ("fails", "void") and s.users > (limit_users or 0)]
    if not above:
        return NOT_SEEN
    level = min(above, key=lambda s: s.users)
    if any(caution.code in ("client-lag", "send-delay") for caution in level.cautions):
        return Cause("client", f"This client gave out first, at {level.users} people.")
    return NOT_SEEN
