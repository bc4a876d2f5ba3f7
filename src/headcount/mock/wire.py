"""HTTP/1.1 as a server speaks it: whole answers and chunked streams on kept connections. Knows nothing of models."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools

__all__ = ["Connection", "chunk"]

_MOST_BODY_BYTES = 16 * 1024 * 1024


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client's connection. ``handle`` gets each request when the answer before it has ended."""

    def __init__(
        self,
        handle: Callable[[Connection, str, str, bytes], None],
        gone: Callable[[Connection], None],
        name: str,
    ) -> None:
        self.authorization = ""
        self._handle = handle
        self._gone = gone
        self._name = name.encode()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._busy = False
        self._next: deque[tuple[str, str, bytes, bool]] = deque()
        self._keep = True

    # --- called by the event loop and the parser -------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or we have hung up."""
        self._transport = None
        self._next.clear()
        self._gone(self)

    def data_received(self, data: bytes) -> None:
        """Whatever is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.respond(400, b'{"error":"not HTTP"}', keep=False)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._path, self._body, self._body_bytes = "", [], 0

    def on_url(self, url: bytes) -> None:
        """Its path may come in pieces."""
        self._path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Only the key is looked at."""
        if name.lower() == b"authorization":
            self.authorization = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Kept up to 16 MiB."""
        self._body_bytes += len(body)
        if self._body_bytes <= _MOST_BODY_BYTES:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        method = self._parser.get_method().decode("latin-1")
        self._next.append((method, self._path, b"".join(self._body), self._parser.should_keep_alive()))
        self._proceed()

    def _proceed(self) -> None:
        if self._busy or not self._next:
            return
        method, path, body, self._keep = self._next.popleft()
        self._busy = True
        self._handle(self, method, path, body)

    # --- called by whoever answers ---------------------------------------------------------

    def respond(self, status: int, body: bytes, content_type: str = "application/json", keep: bool = True) -> None:
        """A whole answer."""
        reason = HTTPStatus(status).phrase.encode()
        head = b"HTTP/1.1 %d %b\r\nserver: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
        head %= (status, reason, self._name, content_type.encode(), len(body))
        self.write(head + (b"\r\n" if keep and self._keep else b"connection: close\r\n\r\n") + body)
        self._end(keep)

    def begin_stream(self) -> None:
        """The head of an event stream."""
        self.write(
            b"HTTP/1.1 200 OK\r\nserver: %b\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n" % self._name
        )

    def write(self, data: bytes) -> None:
        """Bytes as they are; nothing when the client has gone."""
        if self._transport is not None:
            self._transport.write(data)

    def end_stream(self, last: bytes = b"", keep: bool = True) -> None:
        """``last`` and the end of a chunked body."""
        self.write(last + b"0\r\n\r\n")
        self._end(keep)

    def hang_up(self, reset: bool = False) -> None:
        """Close without another word; ``reset``: with a TCP reset where the system allows."""
        if self._transport is not None:
            if reset:
                self._transport.abort()
            else:
                self._transport.close()

    def _end(self, keep: bool) -> None:
        self._busy = False
        if keep and self._keep:
            self._proceed()
        else:
            self.hang_up()
