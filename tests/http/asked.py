"""One exchange with a client, its body kept piece by piece with the times; shared by the tests of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headcount.http import Client, Exchange
from tests.playback import Script, stream, token, whole

__all__ = ["ENDLESS", "OK", "SILENT", "Kept", "Run", "ask", "settled"]

Run = Callable[[Coroutine[Any, Any, Any]], Any]
OK = Script([(0, whole(b"hello", "text/plain"))])
"""A whole answer."""
SILENT = Script([], "hang")
"""Takes a request, and that is all."""
ENDLESS = stream(*((0.02 * i, token("a")) for i in range(200)))
"""A token every 20 ms, for longer than any test waits."""


class Kept(Exchange):
    """Keeps the body's pieces and their times; output is any body, and ``[DONE]`` says that all is said."""

    __slots__ = ("pieces",)

    def __init__(self, whole: bool = False) -> None:
        super().__init__(whole)
        self.pieces: list[tuple[bytes, float | None]] = []

    def on_body(self, data: bytes) -> None:
        self.pieces.append((data, self.read_at_s))
        self.has_output = self.has_output or not data.startswith(b":")
        self.over = self.over or b"[DONE]" in data


async def ask(client: Client, body: bytes = b"{}", whole: bool = False) -> Kept:
    """One exchange, whatever comes of it."""
    exchange = Kept(whole)
    await client.send("/v1/chat/completions", body, exchange)
    assert exchange.ended_at_s is not None
    assert exchange.parser is None
    return exchange


async def settled(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after 10 s."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never came to hold")
