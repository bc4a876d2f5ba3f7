"""Our own load process: how late its event loop is, how busy it is, how many descriptors it holds.

The one source that must be opened and read on the event loop it watches, not beside it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from headcount.records import Gpu, Sample
from headcount.virtual import clock

__all__ = ["LoadProcess"]

TICK_S = 0.01
"""Often enough to catch a pause that a person's latency would show; cheap: 100 callbacks a second."""


class LoadProcess:
    """Samples ``client_loop_lag_s`` (p99 since the last reading), ``client_loop_lag_p50_s``,
    ``client_loop_lag_max_s``, ``client_cpu_fraction`` (of one core) and ``client_open_descriptors``.

    Lag is how much later than asked a timer fires. Timers of a millisecond's grain add up to 1 ms to it.
    """

    gpus: tuple[Gpu, ...] = ()
    note = ""

    def __init__(self, name: str = "") -> None:
        """``name`` becomes the samples' ``of``: which of several load processes."""
        self._name = name
        self._lags_s: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._cpu_s = 0.0
        self._read_at_s: float | None = None

    def open(self) -> str | None:
        """Start ticking on the running loop. Always works."""
        self._loop = asyncio.get_running_loop()
        self._now: Callable[[], float] = clock()
        self._cpu_s, self._read_at_s = _cpu_s(), None
        self._tick_from_now()
        return None

    def read(self, at_s: float) -> list[Sample]:
        """What was seen since the last reading; the share of a core from the second reading on."""
        found: dict[str, float] = {}
        if lags_s := sorted(self._lags_s):
            found["client_loop_lag_s"] = lags_s[min(len(lags_s) - 1, int(0.99 * len(lags_s)))]
            found["client_loop_lag_p50_s"] = lags_s[len(lags_s) // 2]
            found["client_loop_lag_max_s"] = lags_s[-1]
        self._lags_s = []
        cpu_s = _cpu_s()
        if self._read_at_s is not None and at_s > self._read_at_s:
            found["client_cpu_fraction"] = (cpu_s - self._cpu_s) / (at_s - self._read_at_s)
        self._cpu_s, self._read_at_s = cpu_s, at_s
        if (descriptors := _open_descriptors()) is not None:
            found["client_open_descriptors"] = descriptors
        return [Sample(at_s, name, value, self._name) for name, value in found.items()]

    def close(self) -> None:
        """Stop ticking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick_from_now(self) -> None:
        self._due_at_s = self._now() + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._lags_s.append(max(0.0, self._now() - self._due_at_s))
        self._tick_from_now()


def _cpu_s() -> float:
    """Processor time of this process so far, user and system."""
    times = os.times()
    return times.user + times.system


def _open_descriptors() -> float | None:
    """How many descriptors this process holds; None where the system does not count them for us."""
    try:
        # Since Linux 6.2 the folder's size is the count: no need to list thousands of entries on the loop.
        return float(Path("/proc/self/fd").stat().st_size) or None
    except OSError:
        return None
