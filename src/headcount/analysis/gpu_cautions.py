"""Reasons not to trust a level that lie in its GPUs and its host: heat, power, clocks, memory.

One small pure function each, from what was sampled in the steady window to cautions, one a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headcount.analysis.conclusions import Caution
from headcount.analysis.machine import Machine, counted

__all__ = ["CHECKS", "PLAIN_REASONS", "throttle_shares"]

_NEAR_SLOWDOWN_C = 5.0
_CLOSE_ENOUGH_TO_MATTER_C = 20.0
_SPREAD_FRACTION = 0.05
_FULL_VRAM_FRACTION = 0.97
_SWAPPED_BYTES = 16 * 1024 * 1024
_FEW_READINGS = 5
"""Below these a window says nothing about what held throughout it."""
_DELIBERATE = frozenset({"applications_clocks_setting", "display_clock_setting", "sync_boost"})
"""Clocks held by a setting: the same from the first second to the last, so no reason to doubt a level."""
PLAIN_REASONS = {
    "sw_power_cap": "its power limit",
    "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat (hardware)",
    "hw_slowdown": "the hardware's emergency brake",
    "hw_power_brake_slowdown": "the power supply's brake",
    "board_limit": "the board's own limit",
    "reliability": "the voltage's reliability limit",
}
"""Of the driver's names those that stand for being held back, in words."""


def _gpu_lost(machine: Machine) -> list[Caution]:
    """A GPU stopped answering its driver."""
    return [
        Caution(
            "gpu-lost",
            f"{machine.called(uuid)} stopped answering its driver in mid-level",
            "look at dmesg for an Xid error; the machine needs a restart",
            fatal=True,
        )
        for uuid in machine.measured_on("gpu_lost")
    ]


def _throttled(machine: Machine) -> list[Caution]:
    """Clocks were held down for more than one reading in a hundred, by anything but a power cap or a setting."""
    found = []
    for uuid, shares in throttle_shares(machine).items():
        told = {r: s for r, s in shares.items() if r not in _DELIBERATE and r != "sw_power_cap" and s > 0.01}
        if told:
            why = ", ".join(f"{PLAIN_REASONS.get(r, r)} {s:.0%} of the time" for r, s in told.items())
            found.append(
                Caution(
                    "throttled",
                    f"{machine.called(uuid)} was throttled: {why}",
                    "cool the machine, or lower its power limit to what it can hold, and measure again",
                )
            )
    return found


def _power_limited(machine: Machine) -> list[Caution]:
    """Power stood at its limit for most of the window: by the driver's word, or within 2 % of it."""
    found = []
    shares = throttle_shares(machine)
    for uuid in machine.measured_on("gpu_power_w"):
        limit_w = _limit_w(machine, uuid)
        watts = np.asarray(machine.values("gpu_power_w", uuid))
        at_limit = float((watts >= 0.98 * limit_w).mean()) if limit_w else 0.0
        share = max(at_limit, shares.get(uuid, {}).get("sw_power_cap", 0.0))
        if share > 0.5:
            limit = f" of {limit_w:.0f} W" if limit_w else ""
            found.append(
                Caution(
                    "power-limited",
                    f"{machine.called(uuid)} stood at its power limit{limit} for {share:.0%} of the time "
                    f"(mean {watts.mean():.0f} W)",
                    "the answer holds for this power limit; another limit gives another answer",
                )
            )
    return found


def _hot(machine: Machine) -> list[Caution]:
    """Within 5 °C of the temperature at which the card slows itself down."""
    found = []
    for gpu in machine.gpus:
        hottest_c = max(machine.values("gpu_temperature_c", gpu.uuid), default=None)
        limit_c = gpu.temperature_slowdown_c
        if hottest_c is not None and limit_c is not None and hottest_c >= limit_c - _NEAR_SLOWDOWN_C:
            found.append(
                Caution(
                    "hot",
                    f"{machine.called(gpu.uuid)} reached {hottest_c:.0f} °C and slows itself down at {limit_c:.0f} °C",
                    "cool the machine, or expect less on a warm day",
                )
            )
    return found


def _warming(machine: Machine) -> list[Caution]:
    """Still warming: 2 °C more in the last quarter than in the second one, and near enough to matter."""
    found = []
    limits_c = {gpu.uuid: gpu.temperature_slowdown_c for gpu in machine.gpus}
    for uuid in machine.measured_on("gpu_temperature_c"):
        quarters = np.array_split(np.asarray(machine.values("gpu_temperature_c", uuid)), 4)
        if min(map(len, quarters)) < _FEW_READINGS:
            continue
        before_c, now_c = float(quarters[1].mean()), float(quarters[3].mean())
        matters_from_c = (limits_c.get(uuid) or 85.0) - _CLOSE_ENOUGH_TO_MATTER_C
        if now_c - before_c >= 2.0 and now_c >= matters_from_c:
            found.append(
                Caution(
                    "still-warming",
                    f"{machine.called(uuid)} was still warming: {before_c:.0f} °C, later {now_c:.0f} °C",
                    "hold the level longer (--level-time), until the temperature stands",
                )
            )
    return found


def _clocks_spread(machine: Machine) -> list[Caution]:
    """SM clocks between their 5th and 95th percentile more than 5 % apart, while the GPU was busy."""
    found = []
    for uuid in machine.measured_on("gpu_sm_clock_hz"):
        busy = {s.at_s for s in machine.series("gpu_utilization_fraction", uuid) if s.value >= 0.5}
        known = bool(machine.series("gpu_utilization_fraction", uuid))
        hertz = [s.value for s in machine.series("gpu_sm_clock_hz", uuid) if s.at_s in busy or not known]
        if len(hertz) < 4 * _FEW_READINGS:
            continue
        low, middle, high = np.quantile(hertz, [0.05, 0.5, 0.95])
        if (high - low) / middle > _SPREAD_FRACTION:
            found.append(
                Caution(
                    "clocks-spread",
                    f"{machine.called(uuid)} ran between {low / 1e6:.0f} and {high / 1e6:.0f} MHz",
                    "speed changed within the level; hold it longer, or lock the clocks",
                )
            )
    return found


def _vram_full(machine: Machine) -> list[Caution]:
    """More than 97 % of video memory in use."""
    found = []
    for gpu in machine.gpus:
        used = max(machine.values("gpu_memory_used_bytes", gpu.uuid), default=0.0)
        if gpu.memory_total_bytes and used > _FULL_VRAM_FRACTION * gpu.memory_total_bytes:
            found.append(
                Caution(
                    "vram-full",
                    f"{machine.called(gpu.uuid)} had {used / gpu.memory_total_bytes:.0%} of its memory in use",
                    "leave the server a little less memory: an allocation more may end it",
                )
            )
    return found


def _memory_errors(machine: Machine) -> list[Caution]:
    """ECC errors while the level ran."""
    found = []
    for name, kind in (
        ("gpu_ecc_uncorrected_errors_total", "uncorrected"),
        ("gpu_ecc_corrected_errors_total", "corrected"),
    ):
        for uuid in machine.measured_on(name):
            errors, _ = counted(machine.values(name, uuid))
            if errors:
                found.append(
                    Caution(
                        "ecc-errors",
                        f"{machine.called(uuid)} had {errors:.0f} {kind} memory errors",
                        "look at nvidia-smi -q -d ECC; if they go on the card should be replaced",
                    )
                )
    return found


def _swapping(machine: Machine) -> list[Caution]:
    """The host moved more than 16 MiB to or from swap; where that is not told, had that much more in use."""
    moved, _ = counted(machine.values("host_swap_traffic_bytes_total"))
    used = machine.values("host_swap_used_bytes")
    moved = moved or (used[-1] - used[0] if used else 0.0)
    if moved < _SWAPPED_BYTES:
        return []
    return [
        Caution(
            "swapping",
            f"the host swapped {moved / 2**20:.0f} MiB while the level ran",
            "free memory: a server that is swapped out is slow in jumps",
        )
    ]


CHECKS: tuple[Callable[[Machine], list[Caution]], ...] = (
    _gpu_lost,
    _throttled,
    _power_limited,
    _hot,
    _warming,
    _clocks_spread,
    _vram_full,
    _memory_errors,
    _swapping,
)
"""In the order in which they are told."""


def throttle_shares(machine: Machine) -> dict[str, dict[str, float]]:
    """GPU → reason → share of the readings at which it held."""
    readings: dict[str, set[float]] = {}
    active: dict[str, dict[str, int]] = {}
    for sample in machine.series("gpu_throttled"):
        uuid, _, reason = sample.of.partition(":")
        readings.setdefault(uuid, set()).add(sample.at_s)
        if reason and sample.value:
            counts = active.setdefault(uuid, {})
            counts[reason] = counts.get(reason, 0) + 1
    return {uuid: {r: n / len(readings[uuid]) for r, n in counts.items()} for uuid, counts in active.items()}


def _limit_w(machine: Machine, uuid: str) -> float | None:
    """The power limit in force: as sampled, else as it was at the beginning."""
    sampled = machine.values("gpu_power_limit_w", uuid)
    told = next((gpu.power_limit_w for gpu in machine.gpus if gpu.uuid == uuid), None)
    return sampled[-1] if sampled else told
