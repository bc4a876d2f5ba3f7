"""The same people spread over load processes, which only take a slice of the people and return facts.

``ProcessFleet`` starts processes on this machine; ``LocalFleet`` runs everything on the current loop, for the
virtual clock. Knows nothing of files and conclusions.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Protocol

import msgspec

from headcount.engine import Engine
from headcount.errors import ServerError
from headcount.load.crew import Crew
from headcount.load.orders import EVENT, REQUEST, Event, Order, Setup
from headcount.records import Level, Sample

__all__ = ["Fleet", "LinesSink", "LocalFleet", "ProcessFleet", "SamplesSink"]

LinesSink = Callable[[int, bytes], None]
"""Gets the number of a load process and whole JSON lines of requests, as they will lie in the run folder."""

SamplesSink = Callable[[list[Sample]], None]

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
PIPE_LIMIT_BYTES = 1 << 24
"""The longest line a load process may send: a request with very many chunks."""


class Fleet(Protocol):
    """What the session needs of whoever carries the load."""

    async def open(self) -> None:
        """Start; returns when every process is ready. Raises ``ServerError`` when one is not."""

    async def begin(self, level: Level) -> None:
        """Begin a level; returns when every process has its people waiting for their start."""

    async def finished(self) -> None:
        """Wait until a finite test is over, or a process was lost (then ``lost`` says so)."""

    async def stop(self) -> None:
        """End the level: cut what is in flight; returns when all of it has been handed out."""

    async def close(self) -> None:
        """End every process."""

    @property
    def lost(self) -> str:
        """Why the load is no longer what was asked for: a load process died. Empty while all is well."""


class LocalFleet:
    """Everybody on the current event loop."""

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
        if event.kind == "finished":
            self._finished.set()

    async def open(self) -> None:
        """Start the self-audit."""
        await self._crew.open()

    async def begin(self, level: Level) -> None:
        """Begin a level."""
        self._finished.clear()
        await self._crew.begin(Order(begin=level, connections=level.users))

    async def finished(self) -> None:
        """Wait until a finite test is over."""
        await self._finished.wait()

    async def stop(self) -> None:
        """End the level."""
        await self._crew.stop()

    async def close(self) -> None:
        """Close the engine."""
        await self._crew.close()


class ProcessFleet:
    """Everybody in processes of their own, started before the clock, all on the machine's one monotonic clock."""

    def __init__(self, setups: list[Setup], on_lines: LinesSink, on_samples: SamplesSink) -> None:
        self._workers = [_Worker(setup, on_lines, on_samples) for setup in setups]

    @property
    def lost(self) -> str:
        """The first process that died, in words."""
        return next((worker.lost for worker in self._workers if worker.lost), "")

    async def open(self) -> None:
        """Start all processes at once."""
        await asyncio.gather(*(worker.open() for worker in self._workers))

    async def begin(self, level: Level) -> None:
        """Give every process its order. People go to the processes in turn."""
        share = -(-level.users // len(self._workers))
        await asyncio.gather(*(w.order(Order(begin=level, connections=share), "began") for w in self._workers))

    async def finished(self) -> None:
        """Wait until all processes have told so, or one was lost."""
        waits = [asyncio.ensure_future(worker.finished()) for worker in self._workers]
        try:
            await asyncio.gather(*waits)
        finally:
            for wait in waits:
                wait.cancel()

    async def stop(self) -> None:
        """End the level in every process."""
        await asyncio.gather(*(worker.order(Order(), "stopped") for worker in self._workers))

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
        self._heard: dict[str, asyncio.Event] = {k: asyncio.Event() for k in ("ready", "began", "finished", "stopped")}
        self._closing = False
        self._failed = ""
        self.lost = ""

    async def open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headcount.load.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=PIPE_LIMIT_BYTES,
            start_new_session=True,  # Ctrl-C is the session's to handle
        )
        self._reader = asyncio.get_running_loop().create_task(self._read())
        self._tell(msgspec.json.encode(self._setup))
        await self._hear("ready", START_TIMEOUT_S)

    async def order(self, order: Order, answer: str) -> None:
        if self.lost:
            return
        self._heard[answer].clear()
        if order.begin is not None:
            self._heard["finished"].clear()
        self._tell(msgspec.json.encode(order))
        await self._hear(answer, STOP_TIMEOUT_S)

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
            self.lost = self.lost or f"load process {self._setup.process} did not answer {kind!r} in {timeout_s:g} s"
        if self._failed or (self.lost and kind == "ready"):
            raise ServerError(self._failed or self.lost)

    async def _read(self) -> None:
        """Hand on what the process says, until it says no more."""
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            tag, body = line[:1], line[1:]
            if tag == REQUEST:
                self._on_lines(self._setup.process, body)
            elif tag == EVENT:
                event = msgspec.json.decode(body, type=Event)
                if event.kind == "failed":
                    self._failed = event.text
                else:
                    self._heard[event.kind].set()
            else:
                self._on_samples(msgspec.json.decode(body, type=list[Sample]))
        if not self._closing:
            status = await self._process.wait()
            self.lost = f"load process {self._setup.process} ended by itself (status {status})"
        for event_heard in self._heard.values():
            event_heard.set()
