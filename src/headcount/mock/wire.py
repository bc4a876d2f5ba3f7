"""HTTP/1.1 as a server speaks it: whole answers and chunked streams on kept connections. Knows nothing of models."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools

__all__ = ["Connection", "chunk"]

_MOST_HEAD_BYTES = 64 * 1024
_MOST_BODY_BYTES = 16 * 1024 * 1024


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client's connection. ``handle`` gets each request when the answer before it has ended and gone out."""

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
        self._descriptor: int | None = None
        """Of the socket, to write to at once; None where only the transport can."""
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._in_head = False
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._expects = False
        self._next: deque[tuple[str, str, bytes, bool]] = deque()
        self._busy = False
        self._bodiless = False
        self._slow = False
        """The client does not read what was written."""
        self._keep = True
        self._closing = False

    # --- called by the event loop and the parser -------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = cast(asyncio.Transport, transport)
        if sys.platform != "win32":
            self._descriptor = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or we have hung up."""
        self._transport = None
        self._next.clear()
        self._gone(self)

    def pause_writing(self) -> None:
        """The client reads slower than it is written to: its next request waits."""
        self._slow = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._slow = False
        self._proceed()

    def data_received(self, data: bytes) -> None:
        """Whatever is no HTTP, or too much of it, ends the connection."""
        if self._closing:
            return
        if self._in_head:  # a name or a value without an end is known to the parser alone
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # its body, if it has one, cannot be told from the other protocol
            self._next.clear()
            self._refuse(HTTPStatus.NOT_IMPLEMENTED)
        except httptools.HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._body_bytes > _MOST_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif self._head_bytes > _MOST_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._proceed()
        if self._next and self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._path, self._body, self._body_bytes, self._expects = "", [], 0, False
        self._in_head, self._head_bytes = True, 0

    def on_url(self, url: bytes) -> None:
        """Its path may come in pieces."""
        self._path += url.decode("latin-1")
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Only the key and the wish to be told to go on are looked at."""
        self._head_bytes += len(name) + len(value)
        if name.lower() == b"authorization":
            self.authorization = value.decode("latin-1")
        elif name.lower() == b"expect":
            self._expects = True

    def on_headers_complete(self) -> None:
        """Some clients wait for a word before they send a long body."""
        self._in_head = False
        if self._expects and not self._busy:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Kept up to 16 MiB."""
        self._body_bytes += len(body)
        if self._body_bytes <= _MOST_BODY_BYTES:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        if self._body_bytes <= _MOST_BODY_BYTES and self._head_bytes <= _MOST_HEAD_BYTES:
            method = self._parser.get_method().decode("latin-1")
            self._next.append((method, self._path, b"".join(self._body), self._parser.should_keep_alive()))

    def _proceed(self) -> None:
        while self._next and not (self._busy or self._slow or self._closing):
            method, path, body, self._keep = self._next.popleft()
            self._busy, self._bodiless = True, method == "HEAD"
            self._handle(self, "GET" if self._bodiless else method, path, body)
        if not self._next and self._transport is not None and not self._closing:
            self._transport.resume_reading()

    def _refuse(self, status: HTTPStatus) -> None:
        """No word in the middle of another answer."""
        if self._busy or self._next:
            self.hang_up()
        else:
            self.respond(status, b'{"error":"%b"}' % status.phrase.encode(), keep=False)

    # --- called by whoever answers ---------------------------------------------------------

    def respond(self, status: int, body: bytes, content_type: str = "application/json", keep: bool = True) -> None:
        """A whole answer."""
        reason = HTTPStatus(status).phrase.encode()
        head = b"HTTP/1.1 %d %b\r\nserver: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
        head %= (status, reason, self._name, content_type.encode(), len(body))
        head += b"\r\n" if keep and self._keep else b"connection: close\r\n\r\n"
        self.write(head if self._bodiless else head + body)
        self._end(keep)

    def begin_stream(self) -> None:
        """The head of an event stream."""
        self.write(
            b"HTTP/1.1 200 OK\r\nserver: %b\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n" % self._name
        )

    def write(self, data: bytes) -> None:
        """Bytes as they are, into the socket before this returns where it has room; nothing when the client has gone.

        The event loop would keep them until everything else of this moment is done: with many streams, milliseconds.
        """
        transport = self._transport
        if transport is None:
            return
        if self._descriptor is not None and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._descriptor, data)
            except OSError:  # full, or broken: the transport finds out which
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        transport.write(data)

    def end_stream(self, last: bytes = b"", keep: bool = True) -> None:
        """``last`` and the end of a chunked body."""
        self.write(last + b"0\r\n\r\n")
        self._end(keep)

    def hang_up(self, reset: bool = False) -> None:
        """Close without another word; ``reset``: with a TCP reset where the system allows."""
        self._closing = True
        if self._transport is not None:
            self._descriptor = None
            if reset:
                self._transport.abort()
            else:
                self._transport.close()

    def _end(self, keep: bool) -> None:
        self._busy = False
        if not (keep and self._keep):
            self.hang_up()
        elif self._next:  # not from within the answer before
            asyncio.get_running_loop().call_soon(self._proceed)
