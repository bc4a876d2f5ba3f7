"""The recommended number held for long: when temperatures and clocks stood still, what changed, what stayed kept.

Pure; knows nothing of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from headcount.analysis.conclusions import LevelSummary, Soak, SoakStep
from headcount.analysis.gpu_cautions import PLAIN_REASONS, throttle_shares
from headcount.analysis.level_test import Window
from headcount.analysis.machine import Machine
from headcount.analysis.table import Floats, Rows
from headcount.records import Level, Sample

__all__ = ["kept", "late_part", "soak_changes", "soak_of", "soak_sentence", "soak_steps", "soaked_users"]

STILL_C, STILL_CLOCK = 2.0, 0.02
"""Temperatures within so many degrees, and clocks within this share, of their last quarter's mean stand still."""
SLOWER, FASTER = 1.1, 0.9
"""What changed by more than this is told."""
_LEAST_READINGS = 8


def late_part(window: Window, machine: Machine) -> Window:
    """The part of a soak that is judged: from when everything stood still, the last half at most, the last quarter at
    least, so that what heat does to the server counts in full."""
    half_s = 0.5 * window.length_s
    still_s = _steady_after_s(machine)
    began_at_s = window.began_at_s + min(max(half_s, still_s or 0.0), 0.75 * window.length_s)
    return msgspec.structs.replace(window, began_at_s=began_at_s)


def soak_of(level: Level, inside: Rows, machine: Machine) -> Soak:
    """What a level of this purpose showed over its whole steady window."""
    length_s = machine.ended_at_s - machine.began_at_s
    good = inside.where(inside.good)
    speed = 1.0 / np.where(good.tpot_s > 0.0, good.tpot_s, np.nan)
    ends = (machine.began_at_s, length_s)
    told = [pair for found in throttle_shares(machine).values() for pair in found.items() if pair[0] in PLAIN_REASONS]
    reasons = {reason: None for reason, share in sorted(told, key=lambda pair: -pair[1]) if share > 0.01}
    still_s = _steady_after_s(machine)
    return Soak(
        users=level.users,
        held_s=machine.ended_at_s - level.began_at_s,
        ttft_p50_s=_quarters(good.ttft_s, good.ended_at_s, *ends),
        user_tokens_per_s=_quarters(speed, good.ended_at_s, *ends),
        sm_clock_hz=_sampled(machine, "gpu_sm_clock_hz"),
        temperature_c=_sampled(machine, "gpu_temperature_c"),
        steady_after_s=None if still_s is None else machine.began_at_s + still_s - level.began_at_s,
        throttled=tuple(reasons),
    )


def _quarters(values: Floats, at_s: Floats, began_s: float, length_s: float) -> tuple[float | None, float | None]:
    """Medians over the first and the last quarter of the window."""
    known = ~np.isnan(values)
    early, late = known & (at_s <= began_s + 0.25 * length_s), known & (at_s > began_s + 0.75 * length_s)
    return tuple(float(np.median(values[part])) if part.any() else None for part in (early, late))  # type: ignore[return-value]


def _sampled(machine: Machine, name: str) -> tuple[float | None, float | None]:
    """The same of samples; of the GPU that changed most where there are several."""
    found: list[tuple[Any, Any]] = []
    for uuid in machine.measured_on(name):
        series = machine.series(name, uuid)
        values, at_s = np.array([s.value for s in series]), np.array([s.at_s for s in series])
        found.append(_quarters(values, at_s, machine.began_at_s, machine.ended_at_s - machine.began_at_s))
    known = [pair for pair in found if None not in pair]
    return max(known, key=lambda pair: abs(pair[1] - pair[0]), default=(None, None))


def _steady_after_s(machine: Machine) -> float | None:
    """Seconds into the window after which no temperature and no clock left the neighbourhood of its end."""
    latest: float | None = None
    for name, near in (("gpu_temperature_c", STILL_C), ("gpu_sm_clock_hz", None)):
        for uuid in machine.measured_on(name):
            series = machine.series(name, uuid)
            if len(series) < _LEAST_READINGS:
                continue
            settled_at_s = _settled_at_s(series, near)
            if settled_at_s is None:
                return None
            latest = max(latest or 0.0, settled_at_s - machine.began_at_s)
    return latest


def _settled_at_s(series: Sequence[Sample], near: float | None) -> float | None:
    """When means over a sixteenth of the series came near to that of the last quarter for good; None when only then."""
    parts = np.array_split(np.array([s.value for s in series]), min(16, len(series)))
    means = np.array([part.mean() for part in parts])
    last = means[-max(1, len(means) // 4) :].mean()
    away = np.abs(means - last) > (near if near is not None else STILL_CLOCK * abs(last))
    if not away.any():
        return series[0].at_s
    after = int(np.flatnonzero(away)[-1]) + 1
    if after > 0.75 * len(means):
        return None
    return series[sum(map(len, parts[:after]))].at_s


# --- what follows from it ---------------------------------------------------------------------


def kept(level: LevelSummary) -> bool:
    """Whether a soak stayed within the service level: it holds, or nothing it showed says otherwise."""
    if level.decision == "undecided":
        return level.n_requests > 0 and all(c.misses <= c.allowed_fraction * c.n for c in level.clauses)
    return level.decision == "holds"


def soaked_users(soaks: Sequence[LevelSummary], recommended_users: int | None) -> int | None:
    """What may be recommended after the soak: as before it where nothing broke, else the most that stayed within the
    service level; None when nothing did. A void soak says nothing."""
    judged = [s for s in soaks if s.decision != "void"]
    broke = min((s.users for s in judged if not kept(s)), default=None)
    if broke is None or recommended_users is None:
        return recommended_users
    return max((s.users for s in judged if kept(s) and s.users < broke), default=None)


def soak_steps(soaks: Sequence[LevelSummary]) -> tuple[SoakStep, ...]:
    """For the verdict."""
    return tuple(SoakStep(s.soak, kept(s)) for s in soaks if s.soak is not None and s.decision != "void")


def soak_sentence(steps: Sequence[SoakStep], soaks: Sequence[LevelSummary], recommended_users: int | None) -> str:
    """What the soak showed; empty where there was none. ``recommended_users`` is that after it."""
    if not steps:
        return "The soak could not be judged: see the cautions." if soaks else ""
    first = steps[0].soak
    people = "1 person" if first.users == 1 else f"{first.users} people"
    minutes = f"{first.held_s / 60.0:.0f}"
    if steps[0].kept:
        return f"{people} stayed within the service level for {minutes} min."
    why = f"when the GPU was throttled by {PLAIN_REASONS[first.throttled[0]]}" if first.throttled else "in the long run"
    if recommended_users:
        return (
            f"{people} did not stay within the service level for {minutes} min, {why}: "
            f"{recommended_users} did, so that is the recommendation."
        )
    return (
        f"{people} did not stay within the service level for {minutes} min, {why}, "
        "nor did any smaller number that was tried."
    )


def soak_changes(steps: Sequence[SoakStep]) -> tuple[str, ...]:
    """What went up or down while the recommended number was held, a few words each."""
    if not steps:
        return ()
    soak = steps[0].soak
    said = []
    if (pair := _changed(soak.ttft_p50_s)) is not None:
        said.append(f"TTFT {pair[0]:.2f} s → {pair[1]:.2f} s")
    if (pair := _changed(soak.user_tokens_per_s)) is not None:
        said.append(f"tokens/s a person {pair[0]:.1f} → {pair[1]:.1f}")
    if (pair := _changed(soak.sm_clock_hz)) is not None:
        said.append(f"clock {pair[0] / 1e6:.0f} → {pair[1] / 1e6:.0f} MHz")
    early_c, late_c = soak.temperature_c
    if early_c is not None and late_c is not None:
        degrees = f"{early_c:.0f} → {late_c:.0f} °C"
        if soak.steady_after_s is not None:
            said.append(f"temperature {degrees}, steady after {soak.steady_after_s / 60.0:.0f} min")
        else:
            said.append(f"temperature {degrees}, not steady at the end")
    return tuple(said)


def _changed(pair: tuple[float | None, float | None]) -> tuple[float, float] | None:
    """The first and the last value, where they differ enough to be told."""
    early, late = pair
    if not early or late is None or FASTER <= late / early <= SLOWER:
        return None
    return early, late
