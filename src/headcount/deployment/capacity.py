"""What one measured server carries at a wanted comfort: whole answers, streamed ones, and requests at once.

Judges the levels of one run; knows nothing of other models and of people expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from headcount.analysis.comfort import BANDS, band, felt_whole, writing_speed
from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.errors import NotTrustedError
from headcount.records import RunFacts
from headcount.slo import Comfort

__all__ = ["WANTED", "Capacity", "Measured", "capacity_of", "figure", "latency_figure"]

WANTED = BANDS[:2]
"""The comforts a plan can promise."""


class Measured(msgspec.Struct, frozen=True):
    """One model on one server, as a run shows it."""

    name: str
    """What the model is called: by people in the plan, by clients at the gateway."""
    verdict: Verdict
    facts: RunFacts
    comfort: Comfort = Comfort()
    """The bands of the run's own scenario."""
    workload: dict[str, object] = {}
    """What its people said; empty for an imported run, which does not know."""
    options: dict[str, object] = {}
    """Of a simulated server: what it was made of."""


class Capacity(msgspec.Struct, frozen=True):
    """How many people one such server carries. Only numbers that were measured; a recommendation lies below one."""

    users: int | None
    """The most, streamed where that carries more; None when not even the fewest measured feel as wanted."""
    whole_users: int | None
    """The most who get whole answers; None when not even the fewest measured do."""
    level: LevelSummary | None
    """The largest level that carries ``users``."""
    whole_level: LevelSummary | None
    missed: LevelSummary | None
    """The next larger level that was measured; None at the top of what was measured."""
    streamed_measured: bool
    """False: that streamed answers hold follows from the speed of whole ones."""
    cap_requests: int | None
    """Requests in flight beyond which comfort was not seen to hold."""
    whole_cap_requests: int | None


def capacity_of(measured: Measured, wanted: str) -> Capacity:
    """Judge every level of a run against ``wanted``, one of ``WANTED``.

    A level is carried when all smaller ones are. Whole answers are judged by their median, also where they were
    streamed. Where only whole answers were measured, streaming is believed to mend one band, if they are written fast
    enough for the band wanted. Of a run that recommends a number, no level above its limit counts, and no more people
    than it recommends.
    Raises ``NotTrustedError`` when no level says how it feels.
    """
    comfort, place = measured.comfort, BANDS.index(wanted)
    levels = _worst_by_users(measured.verdict.levels, comfort)
    if not levels:
        raise NotTrustedError(
            f"the run of {measured.name} has no level that says how its answers feel",
            "measure it: headcount find; an import needs latencies (e2e_p50_s, or ttft_p95_s)",
        )
    limit, recommended = measured.verdict.limit_users, measured.verdict.recommended_users
    held = levels
    if limit is not None and recommended is not None:
        held = {users: level for users, level in levels.items() if users <= limit}
    whole = _most(held, lambda level: _whole_is_fine(level, place, comfort))
    streamed = _most(held, lambda level: _streamed_is_fine(level, place, comfort))
    best = max((each for each in (whole, streamed) if each is not None), key=lambda level: level.users, default=None)

    def at_most(level: LevelSummary | None) -> int | None:
        if level is None or recommended is None:
            return level.users if level is not None else None
        return min(level.users, recommended) or None

    missed = min((one for one in levels.values() if best is None or one.users > best.users), key=_users, default=None)
    return Capacity(
        users=at_most(best),
        whole_users=at_most(whole),
        level=best,
        whole_level=whole,
        missed=missed,
        streamed_measured=best is not None and best.ttft_s.n > 0,
        cap_requests=_in_flight(best),
        whole_cap_requests=_in_flight(whole),
    )


def figure(name: str, level: LevelSummary, what: str) -> str:
    """Where a number comes from: the run, the level, what it showed."""
    where = f"{name}: level {level.users}"
    return f"{where}, {what}"


def latency_figure(name: str, level: LevelSummary, *, whole: bool) -> str:
    """The figure by which a level was judged."""
    if whole or level.ttft_s.p95 is None:
        return figure(name, level, f"p50 {level.e2e_s.p50 or 0.0:.1f} s")
    if level.user_tokens_per_s is None:
        return figure(name, level, f"TTFT p95 {level.ttft_s.p95:.2f} s")
    speed = level.user_tokens_per_s
    return figure(name, level, f"TTFT p95 {level.ttft_s.p95:.2f} s, {speed:.0f} tokens/s each")


def _users(level: LevelSummary) -> int:
    return level.users


def _worst_by_users(levels: Sequence[LevelSummary], comfort: Comfort) -> Mapping[int, LevelSummary]:
    """Of each number of people the level that felt worst; bursts, void and unfelt ones are left out. Of a run with
    conditions only the first one counts, which the others are held against."""
    found: dict[int, LevelSummary] = {}
    condition = min(levels, key=lambda level: level.index).condition if levels else ""
    for level in levels:
        felt = band(level, comfort)
        if not felt or level.decision == "void" or level.purpose in ("burst", "probe") or level.condition != condition:
            continue
        known = found.get(level.users)
        if known is None or BANDS.index(felt) > BANDS.index(band(known, comfort)):
            found[level.users] = level
    return dict(sorted(found.items()))


def _most(levels: Mapping[int, LevelSummary], is_fine: Callable[[LevelSummary], bool]) -> LevelSummary | None:
    found = None
    for level in levels.values():
        if not is_fine(level):
            return found
        found = level
    return found


def _whole_is_fine(level: LevelSummary, place: int, comfort: Comfort) -> bool:
    return level.e2e_s.p50 is not None and BANDS.index(felt_whole(level.e2e_s.p50, comfort)) <= place


def _streamed_is_fine(level: LevelSummary, place: int, comfort: Comfort) -> bool:
    felt = BANDS.index(band(level, comfort))
    if level.ttft_s.n:
        return felt <= place
    return felt <= place + 1 and (writing_speed(level) or 0.0) >= comfort.user_tokens_per_s[place]


def _in_flight(level: LevelSummary | None) -> int | None:
    """The most requests that a level held at once, as far as it tells; of people who wait for each answer never more
    than there are people."""
    if level is None:
        return None
    if level.server_running_max is None:
        return level.users
    return max(1, min(level.users, math.ceil(level.server_running_max + (level.server_waiting_mean or 0.0))))
