"""Reads every open source once an interval on a thread of its own, so that no reading adds to the loop's lag.

Knows nothing of what the sources look at.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from headcount.records import Gpu, Sample
from headcount.telemetry import Source
from headcount.telemetry.amd import Amd
from headcount.telemetry.host import Host
from headcount.telemetry.nvml import Nvml
from headcount.telemetry.processes import is_local
from headcount.telemetry.prometheus import Prometheus
from headcount.virtual import clock

__all__ = ["Opened", "Sampler", "open_sources", "opened", "usual_sources"]


class Opened(NamedTuple):
    """Sources that can be read, and what a reader should know of all that were tried."""

    sources: tuple[Source, ...]
    notes: tuple[str, ...]
    """Which GPUs are watched, and which source sees nothing and why."""


def usual_sources(gpu_metrics: str | None = None, address: str = "") -> list[Source]:
    """What can tell something of the server at ``address``: this host, its GPUs when the server is here (or when
    no address is given), and the Prometheus address of the server's GPUs when one is given."""
    sources: list[Source] = [Host()]
    if gpu_metrics is not None:
        return [*sources, Prometheus(gpu_metrics)]
    if address and not is_local(address):
        return [*sources, _Elsewhere()]
    # Without ROCm there is no AMD GPU to miss, and nothing to say about it.
    amd: list[Source] = [Amd()] if importlib.util.find_spec("amdsmi") else []
    return [*sources, Nvml(_port(address)), *amd]


def opened(sources: Iterable[Source]) -> Opened:
    """Open each; those that see nothing are left out, and their reasons kept."""
    able, notes = [], []
    for source in sources:
        why_not = source.open()
        if why_not is None:
            able.append(source)
        notes.append(why_not or source.note)
    return Opened(tuple(able), tuple(note for note in notes if note))


def open_sources(gpu_metrics: str | None = None, address: str = "") -> Opened:
    """The usual sources, opened. May take some seconds with an address that does not answer."""
    return opened(usual_sources(gpu_metrics, address))


class Sampler:
    """Hands samples to a callback on the event loop that called ``start``.

    A reading that takes longer than the interval is not caught up: the next one is due at the next beat.
    """

    def __init__(self, found: Opened) -> None:
        self.gpus: tuple[Gpu, ...] = tuple(gpu for source in found.sources for gpu in source.gpus)
        self.notes = found.notes
        self._sources = found.sources
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, interval_s: float, origin_s: float, on_samples: Callable[[list[Sample]], None]) -> None:
        """Read the sources from now on. ``origin_s``: the run's beginning on the loop's clock."""
        loop, now = asyncio.get_running_loop(), clock()

        def read() -> None:
            due_at_s = now()
            while not self._stopping.wait(max(0.0, due_at_s - now())):
                at_s = now() - origin_s
                samples = [sample for source in self._sources for sample in source.read(at_s)]
                try:
                    loop.call_soon_threadsafe(on_samples, samples)
                except RuntimeError:
                    return  # the loop was closed without waiting for us
                due_at_s += (int((now() - due_at_s) / interval_s) + 1) * interval_s

        self._thread = threading.Thread(target=read, name="telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the reading in progress and close the sources. Safe to call twice, or without ``start``."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for source in self._sources:
            source.close()
        self._sources = ()


class _Elsewhere:
    """The GPUs of a server on another machine, without an address to ask: nothing to see, and it says so."""

    gpus: tuple[Gpu, ...] = ()
    note = ""

    def open(self) -> str | None:
        return "the server runs on another machine: its GPUs are not watched (give --gpu-metrics URL)"

    def read(self, at_s: float) -> list[Sample]:
        return []

    def close(self) -> None:
        return None


def _port(address: str) -> int | None:
    """The port of ``http://host:port``, or the scheme's own; None where there is none."""
    parts = urlsplit(address)
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
