"""The same people spread over load processes, which only take a slice of the people and return facts.

``ProcessFleet`` starts processes on this machine; ``LocalFleet`` runs everything on the current loop, for the
virtual clock. Knows nothing of files and conclusions.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable
from typing import Protocol

import msgspec

from headcount.engine import Engine
from headcount.errors import ScenarioError, ServerError
from headcount.http import descriptors_needed
from headcount.load.crew import Crew
from headcount.load.descriptors import descriptor_limit
from headcount.load.orders import EVENT, REQUEST, Event, Order, Setup
from headcount.records import Level, Sample

__all__ = [
    "Fleet",
    "LinesSink",
    "LocalFleet",
    "ProcessFleet",
    "SamplesSink",
    "most_connections",
    "refuse_beyond_descriptors",
]

LinesSink = Callable[[int, bytes], None]
"""Gets the number of a load process and whole JSON lines of requests, as they will lie in the run folder."""

SamplesSink = Callable[[list[Sample]], None]

START_TIMEOUT_S = 30.0
PREPARE_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
READ_BYTES = 1 << 18
"""Taken from a load process at once; twice as much waits here at most, the rest in the load process."""


_decode_event = msgspec.json.Decoder(Event).decode
_decode_samples = msgspec.json.Decoder(list[Sample]).decode


class Fleet(Protocol):
    """What the session needs of whoever carries the load."""

    async def open(self) -> None:
        """Start; returns when every process is ready. Raises ``ServerError`` when one is not."""

    async def prepare(self, level: Level) -> None:
        """Have ready whatever would cost time within a level: one connection a person, and their first words.

        Raises ``ScenarioError`` when this machine does not allow so many connections.
        """

    async def begin(self, at_s: float) -> None:
        """Begin the level that was prepared; returns when every process has its people waiting for their start."""

    async def finished(self) -> None:
        """Wait until nobody is left, or a process was lost (then ``lost`` says so)."""

    async def stop(self) -> None:
        """End the level: cut what is in flight; returns when all of it has been handed out."""

    async def grow(self) -> bool:
        """Between two levels: one more process to carry the next one. False when this machine has no more cores."""

    async def close(self) -> None:
        """End every process."""

    @property
    def processes(self) -> int:
        """How many carry the load."""

    @property
    def lost(self) -> str:
        """Why the load is no longer what was asked for: a load process died. Empty while all is well."""


class LocalFleet:
    """Everybody on the current event loop."""

    processes = 1

    def __init__(
        self, setup: Setup, on_lines: LinesSink, on_samples: SamplesSink, engine: Engine | None = None
    ) -> None:
        self._finished = asyncio.Event()
        self.lost = ""
        self._crew = Crew(
            setup,
            on_lines=lambda lines: on_lines(0, lines),
            on_samples=on_samples,
            on_event=self._hear,
            engine=engine,
        )

    def _hear(self, event: Event) -> None:
        if event.kind == "failed":
            self.lost = event.text
        if event.kind in ("failed", "finished"):
            self._finished.set()

    async def open(self) -> None:
        """Start the self-audit."""
        await self._crew.open()

    async def prepare(self, level: Level) -> None:
        """Get ready for a level."""
        self._finished.clear()
        await self._crew.prepare(level)

    async def begin(self, at_s: float) -> None:
        """Begin it."""
        await self._crew.begin(at_s)

    async def finished(self) -> None:
        """Wait until nobody is left."""
        await self._finished.wait()

    async def stop(self) -> None:
        """End the level."""
        await self._crew.stop()

    async def grow(self) -> bool:
        """Never: it is one loop."""
        return False

    async def close(self) -> None:
        """Close the engine."""
        await self._crew.close()


class ProcessFleet:
    """Everybody in processes of their own, started before the clock, all on the machine's one monotonic clock."""

    def __init__(self, setup: Setup, processes: int, on_lines: LinesSink, on_samples: SamplesSink) -> None:
        """``setup`` is that of the first of so many processes; the others get the same with numbers of their own."""
        self._setup = setup
        self._on_lines = on_lines
        self._on_samples = on_samples
        self._workers = [self._worker(number) for number in range(processes)]

    def _worker(self, number: int) -> _Worker:
        return _Worker(msgspec.structs.replace(self._setup, process=number), self._on_lines, self._on_samples)

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the processes that were started."""
        return tuple(worker.pid for worker in self._workers if worker.pid is not None)

    @property
    def lost(self) -> str:
        """The first process that died, in words."""
        return next((worker.lost for worker in self._workers if worker.lost), "")

    async def open(self) -> None:
        """Start all processes at once."""
        await asyncio.gather(*(worker.open() for worker in self._workers))

    async def prepare(self, level: Level) -> None:
        """Every process opens its share of connections, and people go to the processes in turn."""
        refuse_beyond_descriptors(level.users, self.processes)
        order = Order(prepare=level)
        await asyncio.gather(*(w.obey(order, "prepared", PREPARE_TIMEOUT_S) for w in self._workers))

    async def begin(self, at_s: float) -> None:
        """Give every process its order."""
        order = Order(begin_at_s=at_s)
        await asyncio.gather(*(worker.obey(order, "began", STOP_TIMEOUT_S) for worker in self._workers))

    async def finished(self) -> None:
        """Wait until all processes have told so, or one was lost."""
        waits = [asyncio.ensure_future(worker.finished()) for worker in self._workers]
        try:
            while waits and not self.lost:
                _, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[assignment]
        finally:
            for wait in waits:
                wait.cancel()

    async def stop(self) -> None:
        """End the level in every process."""
        await asyncio.gather(*(worker.obey(Order(), "stopped", STOP_TIMEOUT_S) for worker in self._workers))

    async def grow(self) -> bool:
        """Start one more, at most one a core."""
        if len(self._workers) >= _cores():
            return False
        worker = self._worker(len(self._workers))
        await worker.open()
        self._workers.append(worker)
        return True

    async def close(self) -> None:
        """End every process, those that do not listen by force."""
        await asyncio.gather(*(worker.close() for worker in self._workers))


class _Worker:
    """One load process as the session sees it: orders in, facts out."""

    def __init__(self, setup: Setup, on_lines: LinesSink, on_samples: SamplesSink) -> None:
        self._setup = setup
        self._on_lines = on_lines
        self._on_samples = on_samples
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        kinds = ("ready", "prepared", "began", "finished", "stopped")
        self._heard: dict[str, asyncio.Event] = {kind: asyncio.Event() for kind in kinds}
        self._closing = False
        self.lost = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headcount.load.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=READ_BYTES,
            start_new_session=True,  # Ctrl-C is the session's to handle
        )
        self._reader = asyncio.get_running_loop().create_task(self._read())
        self._tell(msgspec.json.encode(self._setup))
        await self._hear("ready", START_TIMEOUT_S)
        if self.lost:
            raise ServerError(self.lost, "does this machine have memory and processes left? See what was said above")

    async def obey(self, order: Order, answer: str, timeout_s: float) -> None:
        """Give an order and wait until it has been carried out; says nothing to a process that is lost."""
        if self.lost:
            return
        self._heard[answer].clear()
        if order.prepare is not None:
            self._heard["finished"].clear()
        self._tell(msgspec.json.encode(order))
        await self._hear(answer, timeout_s)

    async def finished(self) -> None:
        await self._heard["finished"].wait()

    async def close(self) -> None:
        self._closing = True
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()  # the worker ends when its orders end
        try:
            await asyncio.wait_for(self._process.wait(), 3.0)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        if self._reader is not None:
            await self._reader

    def _tell(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None and not self.lost:
            self._process.stdin.write(line + b"\n")

    async def _hear(self, kind: str, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._heard[kind].wait(), timeout_s)
        except TimeoutError:
            self._lose(f"load process {self._setup.process} did not answer {kind!r} in {timeout_s:g} s")

    def _lose(self, why: str) -> None:
        """The load is no longer what was asked for; nobody is to wait for this process any more."""
        self.lost = self.lost or why
        for heard in self._heard.values():
            heard.set()

    async def _read(self) -> None:
        """Hand on what the process says, until it says no more."""
        assert self._process is not None
        assert self._process.stdout is not None
        rest = b""
        while read := await self._process.stdout.read(READ_BYTES):
            *lines, rest = (rest + read).split(b"\n")  # what it was killed in the middle of stays in the rest
            for tag, together in itertools.groupby(lines, _tag):
                self._take(tag, [line[1:] for line in together])
        if not self._closing:
            status = await self._process.wait()
            self._lose(f"load process {self._setup.process} ended by itself (status {status})")

    def _take(self, tag: bytes, bodies: list[bytes]) -> None:
        """Lines of one kind that follow one another."""
        if tag == REQUEST:
            self._on_lines(self._setup.process, b"\n".join(bodies) + b"\n")
        elif tag == EVENT:
            for event in map(_decode_event, bodies):
                if event.kind == "failed":
                    self._lose(event.text)
                else:
                    self._heard[event.kind].set()
        else:
            for body in bodies:
                self._on_samples(_decode_samples(body))


def _tag(line: bytes) -> bytes:
    return line[:1]


def most_connections(processes: int) -> int:
    """How many this machine's limit of open files leaves to so many load processes."""
    return processes * max(0, descriptor_limit() - descriptors_needed(0))


def refuse_beyond_descriptors(connections: int, processes: int) -> None:
    """Raises ``ScenarioError`` with the limit needed when so many connections cannot stand."""
    if connections > most_connections(processes):
        needed = descriptors_needed(-(-connections // processes))
        raise ScenarioError(
            f"{connections:,} people need {needed:,} open files in each load process, "
            f"and this machine allows {descriptor_limit():,}",
            f"raise the limit (ulimit -Hn {needed}), use more load processes, or ask for fewer people",
        )


def _cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
