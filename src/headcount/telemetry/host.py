"""The host: processor, memory and swap, from the Linux files in ``/proc``. Knows nothing of GPUs.

On other systems there is nothing to read, which ``open`` says.
"""

from __future__ import annotations

import os
from pathlib import Path

from headcount.records import Gpu, Sample

__all__ = ["Host"]

_Ticks = tuple[float, float]
"""Busy and total time of one processor since boot, in clock ticks."""


class Host:
    """Samples ``host_cpu_fraction``, ``host_cpu_busiest_core_fraction``, ``host_memory_used_bytes``,
    ``host_memory_total_bytes``, ``host_swap_used_bytes`` and ``host_swap_traffic_bytes_total``.

    The busiest core stands for all of them: one saturated thread is what a mean over 64 cores hides.
    """

    gpus: tuple[Gpu, ...] = ()
    note = ""

    def __init__(self, proc: str | Path = "/proc") -> None:
        self._proc = Path(proc)
        self._before: dict[str, _Ticks] = {}

    def open(self) -> str | None:
        """None on Linux; elsewhere why not. Processor use counts from here on."""
        self._before = self._ticks()
        return None if self._before else "host processor, memory and swap are only read on Linux (/proc)"

    def read(self, at_s: float) -> list[Sample]:
        """What ``/proc`` tells now; processor use is the mean since the last reading."""
        found = {**self._cpu(), **self._memory(), **self._swap_traffic()}
        return [Sample(at_s, name, value) for name, value in found.items()]

    def close(self) -> None:
        """Nothing is held."""

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []

    def _ticks(self) -> dict[str, _Ticks]:
        """``cpu`` for all together, ``cpu0`` … for each core; idle and waiting for disks are not busy."""
        found: dict[str, _Ticks] = {}
        for line in self._lines("stat"):
            name, *fields = line.split()
            if name.startswith("cpu") and len(fields) >= 5:
                # Guest time (fields 9 and 10) is already inside user time.
                times = [float(field) for field in fields[:8]]
                total = sum(times)
                found[name] = (total - times[3] - times[4], total)
        return found

    def _cpu(self) -> dict[str, float]:
        now, before = self._ticks(), self._before
        self._before = now
        fractions = {
            name: min(1.0, max(0.0, (busy - before[name][0]) / (total - before[name][1])))
            for name, (busy, total) in now.items()
            if name in before and total > before[name][1]
        }
        found = {}
        if "cpu" in fractions:
            found["host_cpu_fraction"] = fractions.pop("cpu")
        if fractions:
            found["host_cpu_busiest_core_fraction"] = max(fractions.values())
        return found

    def _memory(self) -> dict[str, float]:
        kib = _numbers(self._lines("meminfo"))
        found = {}
        if "MemTotal" in kib and "MemAvailable" in kib:
            found["host_memory_used_bytes"] = 1024 * (kib["MemTotal"] - kib["MemAvailable"])
            found["host_memory_total_bytes"] = 1024 * kib["MemTotal"]
        if "SwapTotal" in kib and "SwapFree" in kib:
            found["host_swap_used_bytes"] = 1024 * (kib["SwapTotal"] - kib["SwapFree"])
        return found

    def _swap_traffic(self) -> dict[str, float]:
        pages = _numbers(self._lines("vmstat"))
        if "pswpin" not in pages or "pswpout" not in pages:
            return {}
        return {"host_swap_traffic_bytes_total": os.sysconf("SC_PAGE_SIZE") * (pages["pswpin"] + pages["pswpout"])}


def _numbers(lines: list[str]) -> dict[str, float]:
    """``Name:  12 kB`` or ``name 12`` → {"Name": 12.0}; other lines are passed over."""
    found = {}
    for line in lines:
        name, *fields = line.split()
        if fields and fields[0].isdigit():
            found[name.rstrip(":")] = float(fields[0])
    return found
