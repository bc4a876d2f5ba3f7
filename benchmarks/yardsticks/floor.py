"""The least a Python client can do: uvloop, httptools, one ``json.loads`` an event, and nothing else.

``floor.py PORT PEOPLE ANSWERS TOKENS OUT [RATE]``: closed loop on connections opened before; with ``RATE`` Poisson
arrivals, times counted from when a request was due. Writes one line an answer: its start, and every event's instant,
in nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from array import array
from pathlib import Path

import httptools
import uvloop

now_ns = time.monotonic_ns


class Stream(asyncio.Protocol):
    """One connection, one answer at a time."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def start(self, due_ns: int = 0) -> None:
        """Ask; its time counts from ``due_ns`` where that is given."""
        self.parser = httptools.HttpResponseParser(self)
        self.at_ns = array("q")
        self.rest = b""
        self.began_ns = due_ns or now_ns()
        self.transport.write(self.floor.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.read_ns = now_ns()
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Split by blank lines, decode, stamp what holds content."""
        *events, self.rest = (self.rest + body if self.rest else body).split(b"\n\n")
        for event in events:
            if event == b"data: [DONE]":
                continue
            said = json.loads(event[6:])
            if said["choices"] and said["choices"][0]["delta"].get("content"):
                self.at_ns.append(self.read_ns)

    def on_message_complete(self) -> None:
        self.floor.done(self)


class Floor:
    """So many answers, in all."""

    def __init__(self, port: int, answers: int, tokens: int) -> None:
        self.port = port
        self.left = self.unasked = answers
        self.found: list[tuple[int, array[int]]] = []
        self.idle: list[Stream] | None = None
        """Connections without work; None in the closed loop, where there are none."""
        self.loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self.loop.create_future()
        body = json.dumps(
            {
                "model": "mock",
                "stream": True,
                "max_tokens": tokens,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "hello"}],
            }
        ).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self.request = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body

    async def connect(self) -> Stream:
        """One more connection."""
        _, stream = await self.loop.create_connection(lambda: Stream(self), "127.0.0.1", self.port)
        return stream

    def done(self, stream: Stream) -> None:
        """An answer is whole."""
        self.found.append((stream.began_ns, stream.at_ns))
        self.left -= 1
        if self.left == 0:
            self.over.set_result(None)
        elif self.idle is not None:
            self.idle.append(stream)
        elif self.unasked:
            self.unasked -= 1
            self.loop.call_soon(stream.start)

    async def closed(self, people: int) -> None:
        """Everybody starts at once and asks again at once."""
        streams = [await self.connect() for _ in range(people)]
        self.unasked -= people
        for stream in streams:
            stream.start()
        await self.over

    async def open(self, rate_per_s: float, people: int) -> None:
        """Poisson arrivals over connections opened before; more are opened when they do not suffice."""
        chance = random.Random(1)
        self.idle = [await self.connect() for _ in range(people)]
        tasks = []
        due_ns = now_ns()
        for _ in range(self.unasked):
            due_ns += int(chance.expovariate(rate_per_s) * 1e9)
            await asyncio.sleep(max(0.0, (due_ns - now_ns()) / 1e9))
            if self.idle:
                self.idle.pop().start(due_ns)
            else:
                tasks.append(self.loop.create_task(self.start_anew(due_ns)))
        await self.over

    async def start_anew(self, due_ns: int) -> None:
        """On a new connection."""
        (await self.connect()).start(due_ns)


async def measure() -> list[tuple[int, array[int]]]:
    """What the arguments say."""
    port, people, answers, tokens = map(int, sys.argv[1:5])
    floor = Floor(port, answers, tokens)
    if len(sys.argv) > 6:
        await floor.open(float(sys.argv[6]), people)
    else:
        await floor.closed(people)
    return floor.found


if __name__ == "__main__":
    lines = (json.dumps([began_ns, *at_ns]) for began_ns, at_ns in uvloop.run(measure()))
    Path(sys.argv[5]).write_text("\n".join(lines))
