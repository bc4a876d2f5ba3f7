"""One connection and the exchange under way on it. Stamps arrival times. Knows nothing of other connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from headcount.http.exchange import Exchange, Failure
from headcount.http.target import Target

__all__ = ["Connection", "Owner"]

LINGER_S = 1.0
"""How long the end of the framing is waited for once the content has said that it is over."""
STALE_S = 1.0
"""A pooled connection that dies within this time of being used again, without a byte, had been closed before."""


class Owner(Protocol):
    """Who has connections, and wants to know what becomes of them."""

    def on_free(self, connection: Connection, keeps_alive: bool) -> None:
        """An exchange has come to its end; another one may follow if the connection ``keeps_alive``."""

    def on_gone(self, connection: Connection) -> None:
        """The connection is being closed or has been lost. May be told more than once."""


class Connection(asyncio.Protocol):
    """A transport and at most one exchange at a time."""

    __slots__ = (
        "_exchange",
        "_fd",
        "_loop",
        "_now",
        "_owner",
        "_pooled",
        "_target",
        "_timer",
        "_transport",
        "_waiter",
        "free_at_s",
        "served",
    )

    def __init__(self, owner: Owner, target: Target, now: Callable[[], float], loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._target = target
        self._now = now
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._fd: int | None = None
        self._exchange: Exchange | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pooled = False
        self.served = 0
        """Exchanges that have ended here, in whatever way."""
        self.free_at_s = now()
        """When the last exchange ended, or the connection was made."""

    # --- what its owner does with it ---------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether a request may be sent, as far as can be known."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, exchange: Exchange, pooled: bool) -> bool:
        """Send ``request`` and fill ``exchange`` until it ends in whatever way.

        False: a ``pooled`` connection turned out dead before it gave a byte, and nothing was lost. Cancelled:
        the connection is closed.
        """
        exchange.restart()
        self._exchange = exchange
        self._pooled = pooled
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        self._timer = self._loop.call_later(exchange.patience_s(self._target), self._look_at_the_clock)
        self._send(request, exchange)
        try:
            return await waiter
        except asyncio.CancelledError:
            if self._waiter is waiter:  # else the answer had just ended, and somebody else may be asking already
                self._forget()
                self.close()
            raise

    def close(self) -> None:
        """Let go of the transport; an exchange under way is lost."""
        if self._transport is not None:
            self._transport.abort()
        self._owner.on_gone(self)

    # --- what the event loop tells it --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands; TCP_NODELAY is set by the event loop."""
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(0)
        if os.name == "posix" and transport.get_extra_info("ssl_object") is None:
            self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """One read, one time stamp."""
        exchange = self._exchange
        if exchange is None:  # nobody has asked: a proxy that says good-bye, or a server out of step
            self.close()
            return
        at_s = exchange.read_at_s = self._now()
        if exchange.first_byte_at_s is None:
            exchange.first_byte_at_s = at_s
        try:
            exchange.parser.feed_data(data)  # type: ignore[union-attr]
        except httptools.HttpParserCallbackError as error:
            self._end("client", f"headcount could not take the answer in: {error.__context__!r}")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end("malformed", f"not HTTP/1.1: {error}")
        else:
            if exchange.over:
                self._settle(exchange)

    def eof_received(self) -> None:
        """The server sends no more."""
        self._owner.on_gone(self)  # at once: the descriptor may belong to somebody else before connection_lost comes
        self._fd = None

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is no more; for an answer without a length that is its end."""
        self._owner.on_gone(self)
        self._fd = None
        exchange = self._exchange
        if exchange is None:
            return
        unframed = "content-length" not in exchange.headers and "transfer-encoding" not in exchange.headers
        if error is None and exchange.status is not None and unframed:
            exchange.complete = True
            exchange.ended_at_s = self._now()
            self._end(None, "")
        elif error is None:
            self._end("lost", "the server closed the connection")
        else:
            self._end("lost", f"the connection was lost: {error}")

    def resume_writing(self) -> None:
        """What the kernel had not taken at once is gone too."""
        if self._exchange is not None:
            self._exchange.sent_at_s = self._now()

    # --- inside ------------------------------------------------------------------------------

    def _send(self, request: bytes, exchange: Exchange) -> None:
        """Hand the request to the kernel here and now.

        uvloop's ``write`` would do so at the end of the loop's turn, after everything else that is ready:
        late under load, and without telling when.
        """
        assert self._transport is not None
        sent = 0
        if self._fd is not None:
            try:
                sent = os.write(self._fd, request)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._end("lost", f"the connection was lost: {error.strerror}")
                return
        if sent < len(request):
            self._transport.write(memoryview(request)[sent:] if sent else request)
        exchange.sent_at_s = self._now()

    def _all_sent(self) -> bool:
        """Whether the kernel has all of the request: a server may refuse one before it has read it."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def _settle(self, exchange: Exchange) -> None:
        """The answer is over: by its framing, or only by what it said, and then the framing's end follows soon."""
        if exchange.complete:
            self._end(None, "")
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(LINGER_S, self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        """End the exchange when one of its time-outs has passed; else come again when the next one may.

        One timer an exchange, never moved when something arrives: that would cost more than the arrival.
        """
        exchange = self._exchange
        if exchange is None:
            return
        now_s = self._now()
        due_at_s, text = exchange.due(self._target, LINGER_S)
        if now_s < due_at_s:
            wait_s = min(due_at_s - now_s, exchange.patience_s(self._target))
            self._timer = self._loop.call_later(wait_s + 0.001, self._look_at_the_clock)  # uvloop cuts to milliseconds
        else:
            self._end("timeout" if text else None, text)

    def _end(self, failure: Failure | None, text: str) -> None:
        """The exchange has come to its end; its connection is good for another one, or is closed."""
        exchange, waiter = self._exchange, self._waiter
        if exchange is None or waiter is None:
            return
        now_s = self._now()
        keeps_alive = failure is None and exchange.complete and exchange.keeps_alive and self._all_sent()
        if exchange.over and failure != "timeout":
            failure = None
        stale = failure == "lost" and self._pooled and exchange.read_at_s is None
        stale = stale and (exchange.sent_at_s is None or now_s - exchange.sent_at_s < STALE_S)
        if not stale:
            exchange.failure, exchange.failure_text = failure, text
            if exchange.ended_at_s is None:
                exchange.ended_at_s = now_s if failure or exchange.read_at_s is None else exchange.read_at_s
        if not waiter.done():
            waiter.set_result(not stale)
        self._forget()
        self.free_at_s = now_s
        self.served += 1
        self._owner.on_free(self, keeps_alive)

    def _forget(self) -> None:
        """Hold nothing of the exchange any more, nor let it hold its parser, which holds it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._exchange is not None:
            self._exchange.parser = None
        self._exchange = self._waiter = self._timer = None
