"""A small real gateway for the tests: one port, a key, models by name, a cap for each, refusals and fallbacks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

MODELS, CHAT = "/v1/models", "/v1/chat/completions"


@dataclass
class Route:
    """Where a model is answered."""

    url: str
    cap: int | None = None
    """Requests in flight beyond which a request is refused; None: no limit."""
    fallback: str | None = None
    """The model that answers instead when there is no room, or nobody there."""
    in_flight: int = 0


@dataclass
class Gateway:
    """Passes streams on as they come. ``async with`` starts and stops it."""

    routes: dict[str, Route]
    api_key: str | None = None
    delay_s: float = 0.0
    """Before each request is passed on."""
    url: str = ""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *failure: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest if each)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = line.split(" ")[1]
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            _say(writer, 401, {"error": {"message": "no such key"}})
        elif path == MODELS:
            _say(writer, 200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.routes]})
        elif path == CHAT:
            await self._chat(body, writer)
        else:
            _say(writer, 404, {"error": {"message": "not found"}})
        await writer.drain()
        return True

    async def _chat(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(body)
        name = asked["model"]
        await asyncio.sleep(self.delay_s)
        for tried in (name, self.routes[name].fallback):
            if tried is None:
                continue
            route = self.routes[tried]
            if route.cap is not None and route.in_flight >= route.cap:
                continue
            route.in_flight += 1
            try:
                body = json.dumps({**asked, "model": tried}).encode()
                if await _pass_on(route.url, body, writer, f"x-litellm-attempted-fallbacks: {int(tried != name)}"):
                    return
            finally:
                route.in_flight -= 1
        full = any(route.cap is not None and route.in_flight >= route.cap for route in self.routes.values())
        _say(writer, 429 if full else 502, {"error": {"message": "all slots are in use" if full else "no server"}})


async def _pass_on(url: str, body: bytes, writer: asyncio.StreamWriter, header: str) -> bool:
    """The server's answer byte by byte, with one header more; False when nobody is there."""
    address = urlsplit(url)
    try:
        reader, upstream = await asyncio.open_connection(address.hostname, address.port)
    except OSError:
        return False
    try:
        upstream.write(
            f"POST {CHAT} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        status, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        writer.write(status + b"\r\n" + header.encode() + b"\r\n" + rest)
        lengths = [line for line in rest.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if lengths:
            writer.write(await reader.readexactly(int(lengths[0].partition(b":")[2])))
            return True
        while True:
            size = await reader.readuntil(b"\r\n")
            piece = await reader.readexactly(int(size, 16) + 2)
            writer.write(size + piece)
            await writer.drain()
            if size.strip() == b"0":
                return True
    finally:
        upstream.close()


def _say(writer: asyncio.StreamWriter, status: int, said: object) -> None:
    body = json.dumps(said).encode()
    reason = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}.get(status, "Bad Gateway")
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
