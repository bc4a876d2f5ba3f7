"""A real server on a free loopback port that answers each path with its own bytes, recorded or written by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from headcount.engine.openai import OpenAI
from headcount.http import Client, Target
from headcount.records import Prompt

E = TypeVar("E", bound=OpenAI)

_DATA = Path(__file__).parent / "data"

PROMPT = Prompt(messages=({"role": "user", "content": "Hello"},), max_output_tokens=2)


def recorded(name: str) -> bytes:
    """One recorded answer: ``vllm/idle_metrics`` to a question about the server, ``vllm/sse_normal`` to a prompt."""
    places = (_DATA / folder / f"{name}.http" for folder in ("servers", "samples"))
    return next(place.read_bytes() for place in places if place.exists())


def page(body: str | bytes, kind: str = "text/plain", status: int = 200, headers: str = "") -> bytes:
    """An answer with a text."""
    data = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{headers}"
    return head.encode() + b"\r\n" + data


def json_page(value: Any, status: int = 200, headers: str = "") -> bytes:
    """An answer with JSON."""
    return page(json.dumps(value), "application/json", status, headers)


def stream(*events: Any) -> bytes:
    """A whole event stream, with its end mark."""
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return page(lines, "text/event-stream")


ANSWER = stream(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]},
    {"choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
)
"""A good chat completion of two tokens."""

MODELS = json_page({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "somebody"}]})
MISSING = json_page({"detail": "Not Found"}, 404)


class Pages:
    """Serves ``pages`` by path, with or without its query; 404 for any other. Keeps what was asked."""

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        self.pages = dict(pages)
        self.asked: list[tuple[str, Any]] = []
        """Path and JSON body, in the order of arrival."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def bodies(self, path: str) -> list[Any]:
        """The JSON bodies that came to ``path``."""
        return [body for where, body in self.asked if where == path]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = b""
            while b"connection: close" not in answer.partition(b"\r\n\r\n")[0].lower():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next((int(v) for n, _, v in _headers(head) if n == "content-length"), 0)
                body = await reader.readexactly(length)
                path = head.split()[1]
                self.asked.append((path, json.loads(body) if body else None))
                answer = self.pages.get(path) or self.pages.get(path.partition("?")[0]) or MISSING
                writer.write(answer)
                await writer.drain()
        writer.close()
        self._tasks.discard(task)


def _headers(head: str) -> list[tuple[str, str, str]]:
    parts = (line.partition(":") for line in head.split("\r\n")[1:] if line)
    return [(name.lower(), colon, value.strip()) for name, colon, value in parts]


@contextlib.asynccontextmanager
async def opened(
    kind: type[E], pages: Mapping[str, bytes], model: str | None = None, **options: Any
) -> AsyncIterator[tuple[E, Pages]]:
    """An engine on a server of ``pages``, and that server."""
    async with Pages(pages) as server:
        engine = kind(Client(Target(url=server.url)), model, None, **options)
        try:
            yield engine, server
        finally:
            await engine.close()
