"""The HTTP/1.1 client: a pool of connections to one server, without a limit of its own.

Asks for no compression, follows no redirect, retries nothing except a request that a dead pooled
connection swallowed. Knows nothing of models and people.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import msgspec

from headcount.errors import ScenarioError, ServerError
from headcount.http.connection import Connection
from headcount.http.exchange import Exchange
from headcount.http.target import Target, parse_url
from headcount.virtual import clock

__all__ = ["Client", "Counts", "Response", "descriptors_needed"]

OPEN_AT_ONCE = 16
"""Connections opened at the same time ahead of need: small servers let only a handful wait to be accepted."""
SPARE_DESCRIPTORS = 64
"""For files, pipes, the event loop and connections that are being closed."""
BEHIND_S = 0.5
"""A connection closed within this time of an answer was closed because of its end, not because it idled."""
OUR_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Descriptors, memory or ports ran out on our side."""


class Response(msgspec.Struct, frozen=True):
    """A whole answer. Whether its status is a good one is the caller's business."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


class Counts(msgspec.Struct):
    """What became of connections, for the self-audit."""

    opened: int = 0
    reused: int = 0
    """Requests sent on a connection that had stood before."""
    failed: int = 0
    """Connections that could not be opened."""
    resends: int = 0
    open_now: int = 0
    open_peak: int = 0


def descriptors_needed(connections: int) -> int:
    """Open files that a process with so many connections needs, everything else it has open included."""
    return connections + SPARE_DESCRIPTORS


class _Collected(Exchange):
    """Keeps the body."""

    __slots__ = ("pieces",)

    def __init__(self, timeout_s: float) -> None:
        super().__init__(whole=True, total_timeout_s=timeout_s)
        self.pieces: list[bytes] = []

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)


class Client:
    """Connections to one server. To be made and used inside one running event loop."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.counts = Counts()
        self.keep_alive = True
        """False once the server was seen closing connections behind good answers: none is kept or opened ahead."""
        self.closed_behind = False
        """Whether the connection of the latest exchange was closed with it, or right behind it."""
        self._address = parse_url(target.url)
        self._tls = _tls_context(target) if self._address.tls else None
        self._head = _head_lines(target, self._address.host_header)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._idle: dict[Connection, None] = {}
        self._open: set[Connection] = set()
        self._wanted = 0
        self._opening: set[asyncio.Task[bool]] = set()
        self._few_at_once = asyncio.Semaphore(OPEN_AT_ONCE)
        self._places: list[tuple[str, int, socket.AddressFamily]] = []
        self._now = clock()
        self._loop = asyncio.get_running_loop()

    # --- asking ------------------------------------------------------------------------------

    async def get(self, path: str, timeout_s: float = 10.0) -> Response:
        """Raises ``ServerError`` when no answer comes, or only a redirect; any other status is an answer."""
        return await self._whole("GET", path, b"", timeout_s)

    async def post(self, path: str, body: bytes, timeout_s: float = 60.0) -> Response:
        """The same with a JSON body."""
        return await self._whole("POST", path, body, timeout_s)

    async def send(self, path: str, body: bytes, exchange: Exchange, method: str = "POST") -> None:
        """Fill ``exchange``. Raises nothing for what servers and networks do.

        Cancelled: the connection is closed, and ``exchange`` keeps what was seen.
        """
        exchange.began_at_s = self._now()
        head = self._heads.get((method, path)) or self._new_head(method, path)
        request = b"%b%d\r\n\r\n%b" % (head, len(body), body)
        try:
            connection = self._take()
            if connection is not None:
                exchange.connected_at_s = exchange.began_at_s
                self.counts.reused += 1
                if await connection.ask(request, exchange, pooled=True):
                    return
                self.counts.resends += 1
                exchange.resends += 1
            connection = await self._connect(exchange)
            if connection is not None:
                exchange.connected_at_s = self._now()
                await connection.ask(request, exchange, pooled=False)
        finally:
            if exchange.ended_at_s is None:
                exchange.ended_at_s = self._now()

    async def open(self, wanted: int) -> int:
        """Have ``wanted`` connections standing ahead of need; returns how many stand.

        Fewer when one cannot be opened (``counts.failed``), and none more for a server that closes them anyway.
        From now on one that the server closes while it idles is replaced once, so that connecting stays out
        of what is measured.
        """
        self._wanted = wanted
        missing = wanted - len(self._open) if self.keep_alive else 0
        tries = iter(range(missing))

        async def some() -> None:
            for _ in tries:
                if not await self._open_ahead():
                    break

        await asyncio.gather(*(some() for _ in range(min(OPEN_AT_ONCE, missing))))
        return len(self._open)

    async def close(self) -> None:
        """Close every connection; exchanges under way are lost."""
        self._wanted = 0
        for task in self._opening:
            task.cancel()
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # the event loop closes descriptors in its next turn
        await asyncio.sleep(0)

    # --- what connections tell ---------------------------------------------------------------

    def on_free(self, connection: Connection, keeps_alive: bool) -> None:
        """Back into the pool, or closed. The one used last is used next, so that the others age in peace."""
        self.closed_behind = not keeps_alive
        if keeps_alive and self.keep_alive:
            self._idle[connection] = None
        else:
            connection.close()

    def on_gone(self, connection: Connection) -> None:
        """Not to be used again; replaced when the server has closed it in a pause."""
        self._open.discard(connection)
        self.counts.open_now = len(self._open)
        if connection not in self._idle:
            return
        del self._idle[connection]
        idle_s = self._now() - connection.free_at_s
        if connection.served and idle_s < BEHIND_S:
            self.closed_behind = True
        elif connection.served and self.keep_alive and len(self._open) < self._wanted:
            task = self._loop.create_task(self._open_ahead())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    # --- inside ------------------------------------------------------------------------------

    async def _whole(self, method: str, path: str, body: bytes, timeout_s: float) -> Response:
        exchange = _Collected(timeout_s)
        await self.send(path, body, exchange, method)
        url = self.target.url
        if exchange.failure is not None:
            raise ServerError(f"{url}: {exchange.failure_text}", _hint(exchange, self._tls is not None))
        status = exchange.status or 0
        if 300 <= status < 400:
            where = exchange.headers.get("location", "elsewhere")
            raise ServerError(f"{url}{path} redirects to {where}", "redirects are not followed; give the final address")
        return Response(status, exchange.headers, b"".join(exchange.pieces))

    async def _open_ahead(self) -> bool:
        """One more connection for the pool; False when there is none to be had."""
        try:
            async with self._few_at_once:
                connection = await self._dial()
        except OSError:
            self.counts.failed += 1
            return False
        self._idle[connection] = None
        return True

    def _new_head(self, method: str, path: str) -> bytes:
        line = f"{method} {self._address.base}{path} HTTP/1.1\r\n".encode("ascii")
        head = self._heads[method, path] = line + self._head
        return head

    def _take(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.usable:
                return connection
        return None

    async def _connect(self, exchange: Exchange) -> Connection | None:
        """A new connection; None with the failure noted when there is none to be had."""
        try:
            return await self._dial()
        except TimeoutError:
            exchange.failure = "timeout"
            exchange.failure_text = f"no connection within {self.target.connect_timeout_s:g} s"
        except OSError as error:
            exchange.failure = "client" if error.errno in OUR_FAULT else "unreachable"
            exchange.failure_text = f"no connection: {_said(error)}"
        self.counts.failed += 1
        return None

    async def _dial(self) -> Connection:
        """Connect within the connect time-out. Raises ``OSError``, of which ``TimeoutError`` is a kind."""
        async with asyncio.timeout(self.target.connect_timeout_s):
            if self._address.socket_path is not None:
                _, connection = await self._loop.create_unix_connection(self._new, self._address.socket_path)
            else:
                connection = await self._dial_tcp()
        if not connection.usable:
            raise ConnectionResetError(errno.ECONNRESET, "closed as soon as it stood")
        self._open.add(connection)
        self.counts.opened += 1
        self.counts.open_now = len(self._open)
        self.counts.open_peak = max(self.counts.open_peak, len(self._open))
        return connection

    async def _dial_tcp(self) -> Connection:
        """Try every place the name stands for, beginning with the one that worked last. Names are asked for once."""
        if not self._places:
            found = await self._loop.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
            self._places = [(str(place[0]), int(place[1]), family) for family, _, _, _, place in found]
        name = self._address.host if self._tls is not None else None
        for place in list(self._places):
            host, port, family = place
            try:
                _, connection = await self._loop.create_connection(
                    self._new, host, port, family=family, ssl=self._tls, server_hostname=name
                )
            except OSError as error:
                if place == self._places[-1] or error.errno in OUR_FAULT:
                    raise
            else:
                self._places.sort(key=lambda other: other != place)
                return connection
        raise OSError(errno.EADDRNOTAVAIL, "the name has no address")

    def _new(self) -> Connection:
        return Connection(self, self.target, self._now, self._loop)


def _head_lines(target: Target, host: str) -> bytes:
    """Every header line except the request's own length, which comes last."""
    headers = {
        "host": host,
        "user-agent": "headcount",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if target.api_key is not None:
        headers["authorization"] = f"Bearer {target.api_key}"
    headers |= {name.lower(): value for name, value in target.headers.items()}
    headers.pop("content-length", None)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if any(c in name + value for name, value in headers.items() for c in "\r\n\0"):
        raise ScenarioError("a header or the API key holds a line break", "check for a stray newline in it")
    try:
        return lines.encode("latin-1") + b"content-length: "
    except UnicodeEncodeError as error:
        raise ScenarioError(
            "a header or the API key holds characters that HTTP cannot carry", "was it copied with quotes or dots?"
        ) from error


def _tls_context(target: Target) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ScenarioError(f"ca_file {target.ca_file!r} cannot be used: {error}", "give a PEM file") from error
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _said(error: OSError) -> str:
    """An OS error without its numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS handshake ({error.reason or error})"
    return str(error.strerror or error).lower()


def _hint(exchange: Exchange, tls: bool) -> str:
    """What to do about a failed request."""
    text = exchange.failure_text
    if "certificate" in text:
        return "give its CA with ca_file, or insecure = true to believe any certificate"
    if "TLS" in text:
        return "does it speak plain HTTP? Then write http:// instead of https://"
    if exchange.failure == "client":
        return "raise the limit of open files (ulimit -n)"
    if exchange.failure == "malformed" or (exchange.failure == "lost" and not tls):
        return "does it speak TLS? Then write https://; else check that the port is the model server's"
    if exchange.failure == "timeout":
        return "is the server overloaded, or a firewall in between?" + (" Or does it speak plain HTTP?" if tls else "")
    return "is the server running, and are host and port right?"
