"""GPUs of another machine, from a Prometheus address: NVIDIA's DCGM exporter or ``nvidia_gpu_exporter``.

Fetches with the standard library because sources are read on a thread. Knows nothing of engines.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable

from headcount.http.prometheus import Reading, readings
from headcount.records import Gpu, Sample
from headcount.telemetry import throttle

__all__ = ["FIGURES", "Prometheus"]

_MIB = 1024 * 1024
_TIMEOUT_S = 5.0
_MOST_BYTES = 16 * _MIB

_Names = tuple[tuple[str, float], ...]
"""Their names, newest first, with the factor that brings each to our unit."""

FIGURES: dict[str, _Names] = {
    "gpu_utilization_fraction": (
        ("DCGM_FI_DEV_GPU_UTIL", 0.01),
        ("nvidia_smi_utilization_gpu_ratio", 1.0),
    ),
    "gpu_memory_busy_fraction": (
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 0.01),
        ("nvidia_smi_utilization_memory_ratio", 1.0),
    ),
    "gpu_memory_used_bytes": (("DCGM_FI_DEV_FB_USED", _MIB), ("nvidia_smi_memory_used_bytes", 1.0)),
    "gpu_power_w": (
        ("DCGM_FI_DEV_POWER_USAGE", 1.0),
        ("nvidia_smi_power_draw_watts", 1.0),
        ("nvidia_smi_power_draw_average_watts", 1.0),
    ),
    "gpu_power_limit_w": (
        ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1.0),
        ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0),
        ("nvidia_smi_enforced_power_limit_watts", 1.0),
        ("nvidia_smi_power_limit_watts", 1.0),
    ),
    "gpu_energy_j_total": (
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e-3),
        ("nvidia_smi_energy_joules_total", 1.0),
    ),
    "gpu_temperature_c": (("DCGM_FI_DEV_GPU_TEMP", 1.0), ("nvidia_smi_temperature_gpu", 1.0)),
    "gpu_sm_clock_hz": (
        ("DCGM_FI_DEV_SM_CLOCK", 1e6),
        ("nvidia_smi_clocks_current_sm_clock_hz", 1.0),
    ),
    "gpu_memory_clock_hz": (
        ("DCGM_FI_DEV_MEM_CLOCK", 1e6),
        ("nvidia_smi_clocks_current_memory_clock_hz", 1.0),
    ),
    "gpu_pcie_replays_total": (("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1.0),),
    "gpu_ecc_uncorrected_errors_total": (
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1.0),
        ("nvidia_smi_ecc_errors_uncorrected_volatile_total", 1.0),
    ),
    "gpu_ecc_corrected_errors_total": (
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 1.0),
        ("nvidia_smi_ecc_errors_corrected_volatile_total", 1.0),
    ),
}
"""Our name → theirs. What an exporter is not configured to show is left out."""

_THROTTLE = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
_MEMORY_FREE = "DCGM_FI_DEV_FB_FREE"
_MEMORY_RESERVED = "DCGM_FI_DEV_FB_RESERVED"
_MEMORY_TOTAL = (("DCGM_FI_DEV_FB_TOTAL", _MIB), ("nvidia_smi_memory_total_bytes", 1.0))
_SLOWDOWN = ("DCGM_FI_DEV_SLOWDOWN_TEMP",)
_SHUTDOWN = ("DCGM_FI_DEV_SHUTDOWN_TEMP",)
_POWER_DEFAULT_LIMIT = ("nvidia_smi_power_default_limit_watts",)
_INFO = "nvidia_smi_gpu_info"

_NAMES = {name for names in FIGURES.values() for name, _ in names} | {
    *_THROTTLE,
    _MEMORY_FREE,
    _MEMORY_RESERVED,
    *(name for name, _ in _MEMORY_TOTAL),
    *_SLOWDOWN,
    *_SHUTDOWN,
    *_POWER_DEFAULT_LIMIT,
    _INFO,
}


class Prometheus:
    """Every GPU an exporter shows, ``of`` its UUID. An address that stops answering gives no samples."""

    def __init__(self, url: str) -> None:
        """``url``: the exporter's page; ``/metrics`` is added to an address without a path."""
        self.gpus: tuple[Gpu, ...] = ()
        self.note = ""
        self._url = url if "/" in url.partition("://")[2] else url + "/metrics"
        # No proxy from the environment: an exporter stands beside the server, not behind our way out.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def open(self) -> str | None:
        """None when the page shows at least one GPU; else why not."""
        try:
            boards = _by_gpu(readings(self._fetch(), _NAMES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"no GPU metrics from {self._url}: {_reason(error)}"
        if not boards:
            return f"no GPU metrics from {self._url}: no known name on the page (DCGM_FI_DEV_… or nvidia_smi_…)"
        self.gpus = tuple(_facts(uuid, lines) for uuid, lines in boards.items())
        self.note = f"{len(boards)} GPUs as {self._url} shows them"
        return None

    def read(self, at_s: float) -> list[Sample]:
        """What the page shows now; nothing when it cannot be fetched."""
        try:
            boards = _by_gpu(readings(self._fetch(), _NAMES))
        except (OSError, http.client.HTTPException, ValueError):
            return []
        return [sample for uuid, lines in boards.items() for sample in _samples(at_s, uuid, lines)]

    def close(self) -> None:
        """Nothing is held."""

    def _fetch(self) -> str:
        with self._opener.open(self._url, timeout=_TIMEOUT_S) as answer:
            page: bytes = answer.read(_MOST_BYTES)
        return page.decode(errors="replace")


def _by_gpu(lines: Iterable[Reading]) -> dict[str, list[Reading]]:
    """Readings by the GPU's UUID; a reading that names none is of no GPU."""
    found: dict[str, list[Reading]] = {}
    for line in lines:
        uuid = line.labels.get("UUID") or line.labels.get("uuid")
        if uuid:
            found.setdefault(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}", []).append(line)
    return found


def _first(lines: list[Reading], names: Iterable[tuple[str, float]]) -> float | None:
    """The value of the first name that is there; the largest of several series (one a MIG slice, one a pod)."""
    for name, factor in names:
        if values := [line.value for line in lines if line.name == name]:
            return max(values) * factor
    return None


def _plain(names: Iterable[str]) -> list[tuple[str, float]]:
    return [(name, 1.0) for name in names]


def _samples(at_s: float, uuid: str, lines: list[Reading]) -> list[Sample]:
    found = []
    for name, names in FIGURES.items():
        if (value := _first(lines, names)) is not None:
            found.append(Sample(at_s, name, value, uuid))
    if (bits := _first(lines, _plain(_THROTTLE))) is not None:
        found += throttle.samples(at_s, uuid, int(bits))
    return found


def _facts(uuid: str, lines: list[Reading]) -> Gpu:
    labels = {key: value for line in lines for key, value in line.labels.items()}
    return Gpu(
        uuid=uuid,
        name=labels.get("modelName") or labels.get("name") or "NVIDIA GPU",
        memory_total_bytes=_memory_total_bytes(lines),
        power_limit_w=_first(lines, FIGURES["gpu_power_limit_w"]),
        power_default_limit_w=_first(lines, _plain(_POWER_DEFAULT_LIMIT)),
        temperature_slowdown_c=_first(lines, _plain(_SLOWDOWN)),
        temperature_shutdown_c=_first(lines, _plain(_SHUTDOWN)),
        driver=labels.get("DCGM_FI_DRIVER_VERSION") or labels.get("driver_version"),
    )


def _memory_total_bytes(lines: list[Reading]) -> int | None:
    """Told, or the sum of used, free and reserved; None when neither is there."""
    if (total := _first(lines, _MEMORY_TOTAL)) is not None:
        return int(total)
    used = _first(lines, [("DCGM_FI_DEV_FB_USED", _MIB)])
    free = _first(lines, [(_MEMORY_FREE, _MIB)])
    if used is None or free is None:
        return None
    return int(used + free + (_first(lines, [(_MEMORY_RESERVED, _MIB)]) or 0.0))


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error}"
    return str(error) or type(error).__name__
