"""A model server without a model, on an exact schedule: what this machine's client is checked against.

``python -m headcount.loopback`` serves chat completions on a free loopback port, prints it, and ends when its
standard input closes. Every answer tells in its last event when its first token really left. Knows nothing of
measuring.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import httptools
import msgspec

from headcount.virtual import clock, run_in_real_time

__all__ = ["FIRST_TOKEN_S", "TOKEN_S", "main"]

FIRST_TOKEN_S = 0.1
"""From a request's last byte to the first token."""
TOKEN_S = 0.02
"""From one token to the next."""
TICK_S = 0.001
"""How often what is due is written: finer than anything that is judged by it."""
TOKENS_MAX = 4096

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODELS = b'{"object":"list","data":[{"id":"loopback","object":"model","max_model_len":131072}]}'


def _event(said: bytes) -> bytes:
    """One event as one chunk."""
    data = b"data: %b\n\n" % said
    return b"%x\r\n%b\r\n" % (len(data), data)


_CHUNK = (
    b'{"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"loopback","choices":[{"index":0,%b}]%b}'
)
_TOKEN = _event(_CHUNK % (b'"delta":{"content":" word"},"finish_reason":null', b""))
_DONE = _event(b"[DONE]") + b"0\r\n\r\n"


class _Schedule:
    """Who has something to write, and when."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._due: list[tuple[float, int, _Answering]] = []
        self._count = 0

    def add(self, at_s: float, answering: _Answering) -> None:
        """Have it write at that instant."""
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, answering))

    async def run(self) -> None:
        """Write what is due, every tick."""
        while True:
            while self._due and self._due[0][0] <= self.now():
                self._due[0][2].write_next()
                heapq.heappop(self._due)
            await asyncio.sleep(TICK_S)


class _Answering(asyncio.Protocol):
    """One connection, and the answer it gives."""

    def __init__(self, schedule: _Schedule) -> None:
        self._schedule = schedule
        self._transport: Any = None
        self._fd = -1
        self._body: list[bytes] = []
        self._path = b""
        self._prompt_tokens = self._tokens = self._written = 0
        self._asked_at_s = self._first_at_s = 0.0
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = transport
        self._fd = transport.get_extra_info("socket").fileno()

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing more can be written."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """A piece of the path."""
        self._path += url

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """A whole request: answer on schedule."""
        path, self._path = self._path, b""
        body, self._body = b"".join(self._body), []
        if not path.endswith(b"/chat/completions"):
            self._write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
            return
        asked = cast("dict[str, Any]", msgspec.json.decode(body))
        self._tokens = max(1, min(int(asked.get("max_tokens") or 16), TOKENS_MAX))
        self._prompt_tokens = max(1, len(body) // 4)
        self._written = 0
        self._asked_at_s = self._schedule.now()
        self._write(HEAD)
        self._schedule.add(self._asked_at_s + FIRST_TOKEN_S, self)

    def write_next(self) -> None:
        """The next token; with the last one the end."""
        if self._transport is None:
            return
        self._write(_TOKEN)
        if self._written == 0:
            self._first_at_s = self._schedule.now()
        self._written += 1
        if self._written < self._tokens:
            due_at_s = self._asked_at_s + FIRST_TOKEN_S + self._written * TOKEN_S
            self._schedule.add(due_at_s, self)
        else:
            self._write(_event(_CHUNK % (b'"delta":{},"finish_reason":"length"', self._facts())) + _DONE)

    def _facts(self) -> bytes:
        """Counts, and when the first token really left, by the names that engines use."""
        counts = {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._tokens}
        metrics = {"time_to_first_token_ms": (self._first_at_s - self._asked_at_s) * 1000}
        return b',"usage":%b,"metrics":%b' % (msgspec.json.encode(counts), msgspec.json.encode(metrics))

    def _write(self, data: bytes) -> None:
        """To the kernel here and now, so that the instants told are true."""
        sent = 0
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._transport = None
            return
        if sent < len(data):
            self._transport.write(data[sent:])


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    schedule = _Schedule(clock())
    server = await loop.create_server(lambda: _Answering(schedule), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    over = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(over), sys.stdin.buffer)
    running = loop.create_task(schedule.run())
    await over.read()
    running.cancel()
    server.close()


def main() -> None:
    """Serve until standard input ends."""
    from headcount.load.descriptors import raise_descriptor_limit

    raise_descriptor_limit()
    run_in_real_time(_serve())


if __name__ == "__main__":
    main()
