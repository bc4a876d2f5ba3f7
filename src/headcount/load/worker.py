"""The main program of a load process: orders come in on stdin, facts go out on stdout.

It ends when its orders end, so it never outlives the session, however that died.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec

from headcount.errors import HeadcountError
from headcount.load.crew import Crew
from headcount.load.descriptors import raise_descriptor_limit
from headcount.load.orders import EVENT, REQUEST, SAMPLES, Event, Order, Setup
from headcount.records import Sample
from headcount.virtual import run_in_real_time

__all__ = ["main"]

FLUSH_INTERVAL_S = 0.25
"""Facts wait at most so long in this process; a killed run loses no more."""
PRIORITY = -10
"""As of ``nice``: well before a server's threads, behind what the system itself needs."""


class _Outbox:
    """Lines on their way to the session. They leave together a few times a second: one write, not one a request."""

    def __init__(self, pipe: asyncio.WriteTransport) -> None:
        self._pipe = pipe
        self._lines: list[bytes] = []

    def lines(self, lines: bytes) -> None:
        self._lines.append(REQUEST + lines)

    def samples(self, samples: list[Sample]) -> None:
        self._lines.append(SAMPLES + msgspec.json.encode(samples) + b"\n")

    def event(self, event: Event) -> None:
        self._lines.append(EVENT + msgspec.json.encode(event) + b"\n")
        self.flush()

    def flush(self) -> None:
        if self._lines:
            self._pipe.write(b"".join(self._lines))
            self._lines.clear()

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            self.flush()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer)
    pipe, _ = await loop.connect_write_pipe(asyncio.Protocol, sys.stdout.buffer)
    outbox = _Outbox(pipe)
    flushing = loop.create_task(outbox.keep_flushing())
    setup = msgspec.json.decode(await orders.readline(), type=Setup)
    raise_descriptor_limit()
    try:
        crew = Crew(setup, on_lines=outbox.lines, on_samples=outbox.samples, on_event=outbox.event)
        await crew.open()
        while line := await orders.readline():
            order = msgspec.json.decode(line, type=Order)
            if order.prepare is not None:
                await crew.prepare(order.prepare)
            elif order.begin_at_s is not None:
                await crew.begin(order.begin_at_s)
            else:
                await crew.stop()
        await crew.close()
    except HeadcountError as error:
        outbox.event(Event("failed", error.message))
    finally:
        flushing.cancel()
        outbox.flush()
        pipe.close()


def _ask_for_priority() -> None:
    """Run before others where the system permits it: a server on the same machine may keep every core busy, and a load
    process that waits for its turn is late without having much to do."""
    with contextlib.suppress(PermissionError, AttributeError):  # not root; no such thing on Windows
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    with contextlib.suppress(OSError):  # Linux may weigh sessions before the processes in them
        Path("/proc/self/autogroup").write_text(str(PRIORITY))


def main() -> None:
    """Serve one session until its orders end."""
    _ask_for_priority()
    run_in_real_time(_serve())


if __name__ == "__main__":
    main()
