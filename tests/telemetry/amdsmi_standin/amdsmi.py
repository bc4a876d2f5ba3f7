"""A stand-in for ROCm's ``amdsmi``: one board of the MI300 kind, one that tells little, from the documentation."""

from __future__ import annotations

import enum
from typing import Any


class AmdSmiException(Exception):  # noqa: N818  (its name there)
    """What every call may raise."""


class AmdSmiTemperatureType(enum.Enum):
    EDGE = 0
    HOTSPOT = 1


class AmdSmiTemperatureMetric(enum.Enum):
    CURRENT = 0
    CRITICAL = 5
    EMERGENCY = 7


class AmdSmiClkType(enum.Enum):
    GFX = 0
    MEM = 4


BOARDS: list[str] = ["full", "poor"]
LOST: set[str] = set()
FAILS = False


def amdsmi_init() -> None:
    if FAILS:
        raise AmdSmiException("no driver")


def amdsmi_shut_down() -> None:
    return None


def amdsmi_get_processor_handles() -> list[str]:
    return list(BOARDS)


def _answer(handle: str, full: Any, poor: Any = None) -> Any:
    """A board that is lost, or a poor one asked what it does not know, raises."""
    if handle in LOST or (handle == "poor" and poor is None):
        raise AmdSmiException("not supported")
    return full if handle == "full" else poor


def amdsmi_get_gpu_device_uuid(handle: str) -> str:
    return f"uuid-{handle}"


def amdsmi_get_gpu_asic_info(handle: str) -> Any:
    return _answer(handle, {"market_name": "AMD Instinct MI300X"}, {"market_name": "N/A"})


def amdsmi_get_gpu_driver_info(handle: str) -> Any:
    return _answer(handle, {"driver_version": "6.12.12"})


def amdsmi_get_gpu_activity(handle: str) -> Any:
    return _answer(handle, {"gfx_activity": 87, "umc_activity": 30}, {"gfx_activity": 5, "umc_activity": "N/A"})


def amdsmi_get_power_info(handle: str) -> Any:
    return _answer(
        handle,
        {"current_socket_power": 640, "average_socket_power": "N/A", "power_limit": 750_000_000},
        {"current_socket_power": "N/A", "average_socket_power": 120, "power_limit": 300},
    )


def amdsmi_get_temp_metric(handle: str, sensor: AmdSmiTemperatureType, metric: AmdSmiTemperatureMetric) -> Any:
    if sensor is AmdSmiTemperatureType.HOTSPOT:
        return _answer(handle, {0: 66, 5: 100, 7: 105}[metric.value])
    return _answer(handle, 60, 51)


def amdsmi_get_clock_info(handle: str, kind: AmdSmiClkType) -> Any:
    return _answer(handle, {"clk": 2100 if kind is AmdSmiClkType.GFX else 1300})


def amdsmi_get_gpu_vram_usage(handle: str) -> Any:
    return _answer(handle, {"vram_total": 196592, "vram_used": 1024})


def amdsmi_get_gpu_total_ecc_count(handle: str) -> Any:
    return _answer(handle, {"correctable_count": 4, "uncorrectable_count": 0})
