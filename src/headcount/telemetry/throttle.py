"""Why a GPU runs below its clocks: the bits NVIDIA's driver and the DCGM exporter share, by name.

``gpu_throttled`` is one sample of value 1 a reason that is active, with ``of`` = ``UUID:reason``, or a single
one of value 0 with ``of`` = the UUID when none is. Being idle is no reason.
"""

from __future__ import annotations

from headcount.records import Sample

__all__ = ["REASONS", "samples"]

REASONS: dict[int, str] = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""nvml.h, ``nvmlClocksEventReason*`` and ``nvmlClocksThrottleReason*``. Bit 0, ``gpu_idle``, is left out on purpose."""

_IDLE = 0x001


def samples(at_s: float, uuid: str, bits: int) -> list[Sample]:
    """``gpu_throttled`` for one GPU; a bit without a name appears as ``bit_0x800``.

    >>> [(s.of, s.value) for s in samples(1.0, "GPU-a", 0x45)]
    [('GPU-a:sw_power_cap', 1.0), ('GPU-a:hw_thermal_slowdown', 1.0)]
    >>> [(s.of, s.value) for s in samples(1.0, "GPU-a", 0x1)]
    [('GPU-a', 0.0)]
    """
    active = [1 << n for n in range(bits.bit_length()) if bits & (1 << n) & ~_IDLE]
    if not active:
        return [Sample(at_s, "gpu_throttled", 0.0, uuid)]
    return [Sample(at_s, "gpu_throttled", 1.0, f"{uuid}:{REASONS.get(bit, f'bit_{bit:#x}')}") for bit in active]
