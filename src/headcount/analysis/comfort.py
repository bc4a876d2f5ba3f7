"""How waits are felt, in four bands, beside the service level, which alone decides. Knows nothing of other levels."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary
from headcount.slo import Comfort

__all__ = [
    "BANDS",
    "band",
    "carried",
    "felt",
    "felt_streamed",
    "felt_whole",
    "needs_streaming",
    "streaming_advice",
    "writing_speed",
]

BANDS = ("comfortable", "slightly slow", "frustrating", "unusable")
"""From good to bad."""
USUAL = Comfort()


def felt_whole(median_s: float, comfort: Comfort = USUAL) -> str:
    """The band of whole answers.

    >>> felt_whole(3.5), felt_whole(16.9)
    ('comfortable', 'unusable')
    """
    return BANDS[sum(median_s > end for end in comfort.whole_s)]


def felt_streamed(ttft_p95_s: float, user_tokens_per_s: float | None, comfort: Comfort = USUAL) -> str:
    """The band of streamed answers; slow writing makes it worse, up to frustrating. None: speed unknown, not counted.

    >>> felt_streamed(0.8, 12.0), felt_streamed(0.8, 3.0)
    ('comfortable', 'frustrating')
    """
    place = sum(ttft_p95_s > end for end in comfort.ttft_s)
    if user_tokens_per_s is not None:
        place = max(place, sum(user_tokens_per_s < least for least in comfort.user_tokens_per_s))
    return BANDS[place]


def felt(levels: Sequence[LevelSummary], comfort: Comfort) -> tuple[LevelSummary, ...]:
    """The levels with their bands filled in."""
    return tuple(msgspec.structs.replace(level, comfort=band(level, comfort)) for level in levels)


def band(level: LevelSummary, comfort: Comfort) -> str:
    """One of ``BANDS``; empty when too little is known."""
    if _whole(level):
        return "" if level.e2e_s.p50 is None else felt_whole(level.e2e_s.p50, comfort)
    return "" if level.ttft_s.p95 is None else felt_streamed(level.ttft_s.p95, level.user_tokens_per_s, comfort)


def needs_streaming(level: LevelSummary, comfort: Comfort) -> bool:
    """Whether a whole answer takes too long to wait for, but not too long to read while it is written: the median is
    frustrating, and the answer comes at least as fast as people read."""
    if not _whole(level) or band(level, comfort) != BANDS[2]:
        return False
    return (writing_speed(level) or 0.0) >= min(comfort.user_tokens_per_s)


def carried(level: LevelSummary, comfort: Comfort) -> bool:
    """Whether people would put up with it: comfortable or slightly slow, or so once it is streamed."""
    return band(level, comfort) in BANDS[:2] or needs_streaming(level, comfort)


def streaming_advice(levels: Sequence[LevelSummary], comfort: Comfort) -> tuple[str, ...]:
    """A sentence about the fewest people for whom answers must be streamed; nothing when that is nowhere so."""
    level = min((one for one in levels if needs_streaming(one, comfort)), key=lambda one: one.users, default=None)
    if level is None:
        return ()
    return (
        f"from {level.users} people on a whole answer takes {level.e2e_s.p50:.1f} s, but is written at "
        f"{writing_speed(level) or 0.0:.0f} tokens/s for each: stream the answers",
    )


def writing_speed(level: LevelSummary) -> float | None:
    """Tokens a second of one person's answer while it is written; None when no tokens were counted."""
    if level.user_tokens_per_s is not None:
        return level.user_tokens_per_s
    if level.output_tokens_mean is not None and level.e2e_s.p50:
        return level.output_tokens_mean / level.e2e_s.p50
    return level.output_tokens_per_s / level.users if level.output_tokens_per_s is not None and level.users else None


def _whole(level: LevelSummary) -> bool:
    return level.ttft_s.n == 0 and level.e2e_s.n > 0
