"""A real server on a free loopback port that plays recorded bytes on schedule, and remembers when it did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from headcount.virtual import clock

End = Literal["keep", "eof", "reset", "hang"]
"""``keep``: read the next request; ``hang``: stay silent until the other side goes."""


@dataclass(frozen=True)
class Script:
    """What follows one request: bytes with their times after it, and how the connection ends."""

    writes: Sequence[tuple[float, bytes]]
    end: End = "keep"


@dataclass
class Seen:
    """One request as it came, and when the bytes of its answer were written."""

    connection: int
    head: str
    body: bytes
    at_s: float
    wrote_at_s: list[float] = field(default_factory=list)

    @property
    def line(self) -> str:
        """Its first line."""
        return self.head.split("\r\n")[0]

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name."""
        pairs = (line.partition(":") for line in self.head.split("\r\n")[1:] if line)
        return {name.lower(): value.strip() for name, _, value in pairs}


class Playback:
    """Answers the first request with the first script and so on; the last one is played again and again."""

    def __init__(
        self,
        *scripts: Script,
        host: str = "127.0.0.1",
        socket_path: str | None = None,
        tls: ssl.SSLContext | None = None,
        idle_s: float | None = None,
    ) -> None:
        """``idle_s``: how long a connection may wait for its next request before it is closed."""
        self.scripts = list(scripts)
        self.seen: list[Seen] = []
        self.connections = 0
        self.open_now = 0
        self.in_flight = 0
        self.in_flight_peak = 0
        self._host, self._socket_path, self._tls, self._idle_s = host, socket_path, tls, idle_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._socket_path is not None:
            return f"unix:{self._socket_path}"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'s' if self._tls else ''}://{host}:{self.port}"

    @property
    def port(self) -> int:
        """The free port it was given."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        if self._socket_path is not None:
            self._server = await asyncio.start_unix_server(self._serve, self._socket_path)
        else:
            self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def script_for(self, seen: Seen) -> Script:
        """What to play for a request that has just come."""
        return self.scripts[min(len(self.seen), len(self.scripts) - 1)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open_now += 1
        number = self.connections
        try:
            with contextlib.suppress(
                ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError
            ):
                while await self._answer(number, reader, writer):
                    pass
        finally:
            self.open_now -= 1
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and play its script; whether the connection goes on."""
        async with asyncio.timeout(self._idle_s):
            head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1")
        seen = Seen(number, head, b"", 0.0)
        seen.body = await reader.readexactly(int(seen.headers.get("content-length", 0)))
        seen.at_s = began_s = clock()()
        script = self.script_for(seen)
        self.seen.append(seen)
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight, self.in_flight_peak)
        try:
            await _play(script, seen, began_s, writer)
        finally:
            self.in_flight -= 1
        if script.end == "reset":
            end = writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif script.end == "hang":
            await reader.read()
        return script.end == "keep"


async def _play(script: Script, seen: Seen, began_s: float, writer: asyncio.StreamWriter) -> None:
    now = clock()
    for at_s, data in script.writes:
        await asyncio.sleep(max(0.0, began_s + at_s - now()))
        seen.wrote_at_s.append(now())
        writer.write(data)
        await writer.drain()


# --- bytes to play ---------------------------------------------------------------------------


def head(content_type: str = "text/event-stream", status: int = 200, *more: str) -> bytes:
    """The head of an answer that goes on until the connection closes, unless ``more`` says otherwise."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def whole(body: bytes, content_type: str = "application/json", status: int = 200, *more: str) -> bytes:
    """A whole answer with its length."""
    return head(content_type, status, f"Content-Length: {len(body)}", *more) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; the last one for no data."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(data: str) -> bytes:
    """One event of a stream."""
    return f"data: {data}\n\n".encode()


def token(text: str) -> bytes:
    """One event with one piece of content."""
    return event(json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}))


FINISH = event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
USAGE = event('{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}')
DONE = event("[DONE]")
CHUNKED = "Transfer-Encoding: chunked"


def stream(*events: tuple[float, bytes], end: End = "keep") -> Script:
    """A chunked event stream: its head at once, each event at its time, the end of the body with the last one."""
    writes = [(0.0, head("text/event-stream", 200, CHUNKED)), *((at_s, chunk(data)) for at_s, data in events)]
    return Script([*writes[:-1], (writes[-1][0], writes[-1][1] + chunk(b""))], end)


GOOD = stream((0.0, token("H")), (0.0, token("i")), (0.0, FINISH + USAGE + DONE))
"""A good answer as fast as can be."""
