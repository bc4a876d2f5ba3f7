"""What the levels together say of the machine: memory, throughput, heat and power against the number of people.

Finished sentences, each with its figures. Pure; knows nothing of requests and of single samples.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.limit import saw_a_cycle
from headcount.records import Gpu

__all__ = ["statements"]

_STILL_FRACTION = 0.01
"""Of a card's memory: what moves less does not follow anybody."""
_GIB = 2.0**30


def statements(levels: Sequence[LevelSummary], gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """What can be said of throughput, and of each GPU's memory, heat and power; less than two numbers of people
    say nothing."""
    measured = [level for level in levels if level.steady_at_s is not None and level.decision != "void"]
    found = [_throughput(measured)]
    for place, gpu in enumerate(gpus):
        called = gpu.name if len(gpus) == 1 else f"{gpu.name} ({place})"
        found += [_memory(measured, gpu, called), _heat(measured, gpu, called), _power(measured, gpu, called)]
    return tuple(said for said in found if said)


def _throughput(levels: Sequence[LevelSummary]) -> str:
    """Tokens a second that each added person brought, over steps of doubling."""
    rates = _by_users(filter(saw_a_cycle, levels), lambda level: level.output_tokens_per_s)
    points = _doubling(rates)
    if len(points) < 2:
        return ""
    gains = [
        f"{left}–{right} → {(rates[right] - rates[left]) / (right - left):.3g}"
        for left, right in itertools.pairwise(points)
    ]
    return f"Tokens/s gained for each person more, by people: {', '.join(gains)}."


def _memory(levels: Sequence[LevelSummary], gpu: Gpu, called: str) -> str:
    """Whether video memory follows people, or was taken beforehand."""
    used = _by_users(levels, lambda level: _of(level, gpu, "memory_used_max_bytes"))
    if len(used) < 2:
        return ""
    few, many = min(used), max(used)
    total = gpu.memory_total_bytes or max(used.values())
    if abs(used[many] - used[few]) < _STILL_FRACTION * total:
        return (
            f"The memory of {called} does not follow people: {used[few] / _GIB:.1f} GiB at {few}, "
            f"{used[many] / _GIB:.1f} GiB at {many}. The server took it beforehand."
        )
    each_bytes = (used[many] - used[few]) / (many - few)
    return (
        f"The memory of {called} follows people: {used[few] / _GIB:.1f} GiB at {few}, "
        f"{used[many] / _GIB:.1f} GiB at {many}, {each_bytes / 2**20:.3g} MiB a person."
    )


def _heat(levels: Sequence[LevelSummary], gpu: Gpu, called: str) -> str:
    """Degrees at each step of doubling, against the temperature at which the card slows itself down."""
    steps = _steps(_by_users(levels, lambda level: _of(level, gpu, "temperature_max_c")), "°C")
    if not steps:
        return ""
    if gpu.temperature_slowdown_c is None:
        return f"{called} grew warm, by people: {steps}."
    return f"{called} grew warm, by people: {steps}; it slows itself down at {gpu.temperature_slowdown_c:.0f} °C."


def _power(levels: Sequence[LevelSummary], gpu: Gpu, called: str) -> str:
    """Watts at each step of doubling, against the power limit."""
    steps = _steps(_by_users(levels, lambda level: _of(level, gpu, "power_mean_w")), "W")
    if not steps:
        return ""
    if gpu.power_limit_w is None:
        return f"{called} drew, by people: {steps}."
    return f"{called} drew, by people: {steps}; its limit is {gpu.power_limit_w:.0f} W."


def _steps(values: dict[int, float], unit: str) -> str:
    """One value at each step of doubling."""
    return ", ".join(f"{users} → {values[users]:.0f} {unit}" for users in _doubling(values))


def _of(level: LevelSummary, gpu: Gpu, field: str) -> float | None:
    """One figure of one GPU in a level."""
    found: float | None = next((getattr(one, field) for one in level.gpus if one.uuid == gpu.uuid), None)
    return found


def _by_users(levels: Iterable[LevelSummary], value: Callable[[LevelSummary], float | None]) -> dict[int, float]:
    """The mean of a value over the levels of each number of people, rising; unknown ones left out."""
    known: dict[int, list[float]] = defaultdict(list)
    for level in levels:
        if (one := value(level)) is not None:
            known[level.users].append(one)
    return {users: sum(values) / len(values) for users, values in sorted(known.items())}


def _doubling(known: dict[int, float]) -> list[int]:
    """The fewest people, then each number at least twice the one before, and the most."""
    chosen: list[int] = []
    for users in known:
        if not chosen or users >= 2 * chosen[-1]:
            chosen.append(users)
    most = max(known, default=None)
    if most is not None and chosen[-1] != most:
        chosen.append(most)
    return chosen
