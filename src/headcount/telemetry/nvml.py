"""NVIDIA GPUs through the driver's own library (nvidia-ml-py), each known by its UUID.

Every figure a board does not support is left out: a unified-memory board tells no memory, a laptop no power
limit. Knows nothing of servers but the processes that hold a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pynvml

from headcount.records import Gpu, Sample
from headcount.telemetry import processes, throttle

__all__ = ["Nvml"]

_ERRORS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""The second is no child of the first: an old driver under a new nvidia-ml-py."""

_Handle = Any
_Readers = tuple[Callable[[_Handle], float], ...]

_FIGURES: dict[str, _Readers] = {
    "gpu_utilization_fraction": (lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu / 100,),
    "gpu_memory_busy_fraction": (lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).memory / 100,),
    "gpu_power_w": (lambda h: pynvml.nvmlDeviceGetPowerUsage(h) / 1e3,),
    "gpu_power_limit_w": (
        lambda h: pynvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3,
        lambda h: pynvml.nvmlDeviceGetPowerManagementLimit(h) / 1e3,
    ),
    "gpu_energy_j_total": (lambda h: pynvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,),
    "gpu_temperature_c": (
        lambda h: pynvml.nvmlDeviceGetTemperatureV(h, pynvml.NVML_TEMPERATURE_GPU),
        lambda h: pynvml.nvmlDeviceGetTemperature(h, pynvml.NVML_TEMPERATURE_GPU),
    ),
    "gpu_sm_clock_hz": (lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM) * 1e6,),
    "gpu_memory_clock_hz": (lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_MEM) * 1e6,),
    "gpu_pcie_generation": (lambda h: pynvml.nvmlDeviceGetCurrPcieLinkGeneration(h),),
    "gpu_pcie_lanes": (lambda h: pynvml.nvmlDeviceGetCurrPcieLinkWidth(h),),
    "gpu_pcie_replays_total": (lambda h: pynvml.nvmlDeviceGetPcieReplayCounter(h),),
    "gpu_ecc_uncorrected_errors_total": (
        lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
            h, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        ),
    ),
    "gpu_ecc_corrected_errors_total": (
        lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
            h, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC
        ),
    ),
}
"""Our name → the driver's calls, newest first; the next is tried where a driver or board does not know one.
PCIe throughput is left out: asking for it blocks for 20 ms."""

_THROTTLE: _Readers = (
    lambda h: pynvml.nvmlDeviceGetCurrentClocksEventReasons(h),
    lambda h: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(h),
)
_MEMORY_USED: _Readers = (lambda h: pynvml.nvmlDeviceGetMemoryInfo(h).used,)
_MEMORY_TOTAL: _Readers = (lambda h: pynvml.nvmlDeviceGetMemoryInfo(h).total,)
_POWER_LIMIT: _Readers = (lambda h: pynvml.nvmlDeviceGetPowerManagementLimit(h) / 1e3,)
_POWER_DEFAULT_LIMIT: _Readers = (lambda h: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(h) / 1e3,)
_SLOWDOWN: _Readers = (
    lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
)
_SHUTDOWN: _Readers = (
    lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
)
_PROCESSES = (
    pynvml.nvmlDeviceGetComputeRunningProcesses,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2,
)


class _Card:
    """One board, and the parts of its memory that count: all of it, or the MIG slices that were named."""

    def __init__(self, handle: _Handle) -> None:
        self.handle = handle
        self.memory: list[_Handle] = [handle]
        self.uuid: str = pynvml.nvmlDeviceGetUUID(handle)
        self.name: str = pynvml.nvmlDeviceGetName(handle)

    def facts(self, driver: str | None, holds_server: bool | None) -> Gpu:
        return Gpu(
            uuid=self.uuid,
            name=self.name,
            memory_total_bytes=_whole(self._memory(_MEMORY_TOTAL)),
            power_limit_w=_ask(_POWER_LIMIT, self.handle),
            power_default_limit_w=_ask(_POWER_DEFAULT_LIMIT, self.handle),
            temperature_slowdown_c=_ask(_SLOWDOWN, self.handle),
            temperature_shutdown_c=_ask(_SHUTDOWN, self.handle),
            driver=driver,
            holds_server=holds_server,
        )

    def pids(self) -> set[int]:
        """Processes on this board as far as the driver shows them."""
        found: set[int] = set()
        for list_processes in _PROCESSES:
            try:
                found.update(process.pid for process in list_processes(self.handle))
            except _ERRORS:
                continue
        return found

    def read(self, at_s: float) -> list[Sample]:
        """What the board tells now; ``gpu_lost`` alone when it tells nothing any more."""
        found = []
        for name, readers in _FIGURES.items():
            if (value := _ask(readers, self.handle)) is not None:
                found.append(Sample(at_s, name, value, self.uuid))
        if (used := self._memory(_MEMORY_USED)) is not None:
            found.append(Sample(at_s, "gpu_memory_used_bytes", used, self.uuid))
        if (bits := _ask(_THROTTLE, self.handle)) is not None:
            found += throttle.samples(at_s, self.uuid, int(bits))
        return found or [Sample(at_s, "gpu_lost", 1.0, self.uuid)]

    def _memory(self, readers: _Readers) -> float | None:
        parts = [_ask(readers, handle) for handle in self.memory]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


class Nvml:
    """The NVIDIA GPUs that count: those that hold the server's processes when that can be seen, else those
    ``CUDA_VISIBLE_DEVICES`` names, else all of them; ``note`` says which and why.

    A GPU that falls off the bus leaves ``gpu_lost`` samples and nothing else.
    """

    def __init__(
        self,
        port: int | None = None,
        variables: Mapping[str, str] | None = None,
        proc: str | Path = "/proc",
    ) -> None:
        """``port``: where the server listens on this machine; ``variables``: ours, when the server's cannot be read."""
        self.gpus: tuple[Gpu, ...] = ()
        self.note = ""
        self._port = port
        self._variables = os.environ if variables is None else variables
        self._proc = proc
        self._cards: list[_Card] = []

    def open(self) -> str | None:
        """None when at least one GPU counts; else why none does."""
        try:
            pynvml.nvmlInit()
        except _ERRORS as error:
            return _why_not(error)
        try:
            cards = [_Card(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
            driver: str | None = pynvml.nvmlSystemGetDriverVersion()
        except _ERRORS as error:
            pynvml.nvmlShutdown()
            return f"the NVIDIA driver answers with an error: {error}"
        self._cards, holders = self._choose(cards)
        if not self._cards:
            pynvml.nvmlShutdown()
            return self.note
        self.gpus = tuple(card.facts(driver, card.uuid in holders if holders else None) for card in self._cards)
        return None

    def read(self, at_s: float) -> list[Sample]:
        """Every figure of every GPU that counts, ``of`` its UUID."""
        return [sample for card in self._cards for sample in card.read(at_s)]

    def close(self) -> None:
        """Let go of the driver's library."""
        if self._cards:
            self._cards = []
            pynvml.nvmlShutdown()

    def _choose(self, cards: list[_Card]) -> tuple[list[_Card], set[str]]:
        """The cards that count and the UUIDs of those seen to hold the server; sets ``note``."""
        if not cards:
            self.note = "the NVIDIA driver sees no GPU"
            return [], set()
        pids = frozenset() if self._port is None else processes.serving(self._port, self._proc)
        holders = {card.uuid for card in cards if pids & card.pids()}
        if holders:
            self.note = f"{len(holders)} of {len(cards)} GPUs: those that hold the server's processes"
            return [card for card in cards if card.uuid in holders], holders
        visible = self._visible(pids)
        if visible is None:
            self.note = f"all {len(cards)} GPUs: the server's processes were not seen on any of them"
            return cards, set()
        chosen = _visible_cards(cards, visible)
        self.note = f"{len(chosen)} of {len(cards)} GPUs: CUDA_VISIBLE_DEVICES={visible}"
        by_number = any(token.strip().isdigit() for token in visible.split(","))
        alike = len({card.name for card in cards}) == 1
        if by_number and not alike and self._variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            self.note += "; they differ in kind, so CUDA may number them in another order than the driver"
        return chosen, set()

    def _visible(self, pids: frozenset[int]) -> str | None:
        """``CUDA_VISIBLE_DEVICES`` as the server has it, else as we have it."""
        name = "CUDA_VISIBLE_DEVICES"
        of_server = (processes.environment(pid, name, self._proc) for pid in sorted(pids))
        return next((value for value in of_server if value is not None), self._variables.get(name))


def _visible_cards(cards: list[_Card], visible: str) -> list[_Card]:
    """The cards named by numbers, UUIDs (whole or their beginning) or MIG ids; like CUDA, the list ends at
    the first name nobody bears."""
    chosen: dict[str, _Card] = {}
    slices: dict[str, list[_Handle]] = {}
    for token in (part.strip() for part in visible.split(",")):
        if token.startswith("MIG-"):
            found, piece = _slice(cards, token)
        else:
            piece = None
            named = [c for i, c in enumerate(cards) if token == str(i) or (token and c.uuid.startswith(token))]
            found = named[0] if len(named) == 1 else None
        if found is None:
            break
        chosen[found.uuid] = found
        if piece is not None:
            slices.setdefault(found.uuid, []).append(piece)
    for uuid, pieces in slices.items():
        chosen[uuid].memory = pieces
    return list(chosen.values())


def _slice(cards: list[_Card], token: str) -> tuple[_Card | None, _Handle]:
    """A MIG slice and the card it is cut from; (None, None) when there is none of that name."""
    try:
        piece = pynvml.nvmlDeviceGetHandleByUUID(token)
        board = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(piece))
    except _ERRORS:
        return None, None
    return next((card for card in cards if card.uuid == board), None), piece


def _ask(readers: _Readers, handle: _Handle) -> float | None:
    """The first of several calls that this driver and this board answer; None when none does."""
    for reader in readers:
        try:
            return float(reader(handle))
        except _ERRORS:
            continue
    return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _why_not(error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "no NVIDIA GPU is watched: the driver's library (libnvidia-ml) is not on this machine"
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "no NVIDIA GPU is watched: the driver is not loaded"
    return f"no NVIDIA GPU is watched: {error}"
