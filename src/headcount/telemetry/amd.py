"""AMD GPUs through ``amdsmi``, which comes with ROCm and not with us.

Written from its documentation; what a board or a release does not tell (``"N/A"`` there) is left out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from headcount.records import Gpu, Sample

__all__ = ["Amd"]

_Read = Callable[[Any, Any], Any]
"""The ``amdsmi`` module and a board's handle → a number, or ``"N/A"``."""

_Readers = tuple[tuple[_Read, float], ...]
"""Calls with the factor that brings each to our unit; the next is tried where a board does not answer one."""

_MIB = 1024 * 1024

_FIGURES: dict[str, _Readers] = {
    "gpu_utilization_fraction": ((lambda smi, h: smi.amdsmi_get_gpu_activity(h)["gfx_activity"], 0.01),),
    "gpu_memory_busy_fraction": ((lambda smi, h: smi.amdsmi_get_gpu_activity(h)["umc_activity"], 0.01),),
    "gpu_power_w": (
        (lambda smi, h: smi.amdsmi_get_power_info(h)["current_socket_power"], 1.0),
        (lambda smi, h: smi.amdsmi_get_power_info(h)["average_socket_power"], 1.0),
    ),
    "gpu_temperature_c": (
        (lambda smi, h: _temperature(smi, h, "HOTSPOT", "CURRENT"), 1.0),
        (lambda smi, h: _temperature(smi, h, "EDGE", "CURRENT"), 1.0),
    ),
    "gpu_sm_clock_hz": ((lambda smi, h: smi.amdsmi_get_clock_info(h, smi.AmdSmiClkType.GFX)["clk"], 1e6),),
    "gpu_memory_clock_hz": ((lambda smi, h: smi.amdsmi_get_clock_info(h, smi.AmdSmiClkType.MEM)["clk"], 1e6),),
    "gpu_memory_used_bytes": ((lambda smi, h: smi.amdsmi_get_gpu_vram_usage(h)["vram_used"], _MIB),),
    "gpu_ecc_uncorrected_errors_total": (
        (lambda smi, h: smi.amdsmi_get_gpu_total_ecc_count(h)["uncorrectable_count"], 1.0),
    ),
    "gpu_ecc_corrected_errors_total": (
        (lambda smi, h: smi.amdsmi_get_gpu_total_ecc_count(h)["correctable_count"], 1.0),
    ),
}

_SLOWDOWN: _Readers = ((lambda smi, h: _temperature(smi, h, "HOTSPOT", "CRITICAL"), 1.0),)
_SHUTDOWN: _Readers = ((lambda smi, h: _temperature(smi, h, "HOTSPOT", "EMERGENCY"), 1.0),)
_MEMORY_TOTAL: _Readers = ((lambda smi, h: smi.amdsmi_get_gpu_vram_usage(h)["vram_total"], _MIB),)
_POWER_LIMIT: _Readers = ((lambda smi, h: smi.amdsmi_get_power_info(h)["power_limit"], 1.0),)
_MICROWATTS_FROM = 10_000
"""The power limit is in watts or in microwatts, by release; no board draws 10 kW."""


class Amd:
    """Every AMD GPU that ``amdsmi`` shows."""

    note = ""

    def __init__(self) -> None:
        self.gpus: tuple[Gpu, ...] = ()
        self._smi: Any = None
        self._handles: list[tuple[str, Any]] = []

    def open(self) -> str | None:
        """None when at least one GPU is seen; else why not."""
        try:
            # Its native library is loaded on import, and missing with a KeyError, an OSError or an ImportError.
            smi = importlib.import_module("amdsmi")
        except (ImportError, OSError, KeyError):
            return "no AMD GPU is watched: amdsmi (part of ROCm) is not installed"
        try:
            smi.amdsmi_init()
            handles = smi.amdsmi_get_processor_handles()
            self._handles = [(str(smi.amdsmi_get_gpu_device_uuid(handle)), handle) for handle in handles]
        except smi.AmdSmiException as error:
            return f"no AMD GPU is watched: {error}"
        if not self._handles:
            return "amdsmi sees no GPU"
        self._smi = smi
        self.gpus = tuple(self._facts(uuid, handle) for uuid, handle in self._handles)
        return None

    def read(self, at_s: float) -> list[Sample]:
        """Every figure of every GPU, ``of`` its UUID; ``gpu_lost`` alone for one that tells nothing any more."""
        found = []
        for uuid, handle in self._handles:
            figures = {name: self._ask(readers, handle) for name, readers in _FIGURES.items()}
            known = [Sample(at_s, name, value, uuid) for name, value in figures.items() if value is not None]
            found += known or [Sample(at_s, "gpu_lost", 1.0, uuid)]
        return found

    def close(self) -> None:
        """Let go of the library."""
        if self._smi is not None:
            self._smi.amdsmi_shut_down()
            self._smi, self._handles = None, []

    def _facts(self, uuid: str, handle: Any) -> Gpu:
        total, limit = self._ask(_MEMORY_TOTAL, handle), self._ask(_POWER_LIMIT, handle)
        return Gpu(
            uuid=uuid,
            name=self._text(lambda smi, h: smi.amdsmi_get_gpu_asic_info(h)["market_name"], handle) or "AMD GPU",
            memory_total_bytes=None if total is None else int(total),
            power_limit_w=limit / 1e6 if limit is not None and limit > _MICROWATTS_FROM else limit,
            temperature_slowdown_c=self._ask(_SLOWDOWN, handle),
            temperature_shutdown_c=self._ask(_SHUTDOWN, handle),
            driver=self._text(lambda smi, h: smi.amdsmi_get_gpu_driver_info(h)["driver_version"], handle),
        )

    def _ask(self, readers: _Readers, handle: Any) -> float | None:
        for read, factor in readers:
            try:
                value = read(self._smi, handle)
            except (self._smi.AmdSmiException, KeyError, AttributeError):
                continue
            if isinstance(value, (int, float)):
                return value * factor
        return None

    def _text(self, read: _Read, handle: Any) -> str | None:
        try:
            value = read(self._smi, handle)
        except (self._smi.AmdSmiException, KeyError, AttributeError):
            return None
        return value if isinstance(value, str) and value != "N/A" else None


def _temperature(smi: Any, handle: Any, sensor: str, metric: str) -> Any:
    kind, what = getattr(smi.AmdSmiTemperatureType, sensor), getattr(smi.AmdSmiTemperatureMetric, metric)
    return smi.amdsmi_get_temp_metric(handle, kind, what)
