"""The core server behind sockets: one timer at its next step, and every stream written when its token is due.

Tokens are never waited for one by one: whatever is due by now is written, so that a late timer delays nothing after it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headcount.engine.simulation import Options, gauges_of, job_of, profile_for, server_of
from headcount.mock.dialect import DIALECTS, Dialect, Events
from headcount.mock.wire import Connection
from headcount.records import Message
from headcount.simulator.job import Job
from headcount.simulator.words import text_of
from headcount.virtual import clock

__all__ = ["MockServer"]

_UNASKED_TOKENS = 256
"""The longest answer to a request that does not say how long it may be."""


class _Ask(msgspec.Struct):
    """The fields of a request that matter here; others are ignored."""

    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class _Stream:
    """One answer under way."""

    connection: Connection
    job: Job
    events: Events
    streamed: bool
    usage: bool
    fault: str | None
    stall_s: float
    sent_tokens: int = 0
    held_until_s: float = 0.0
    """Stalled: nothing is written before."""
    waiting: bool = field(default=False)
    """In front of the server, held back by the proxy."""


class MockServer:
    """An OpenAI-compatible server on loopback; ``async with`` starts and stops it."""

    def __init__(
        self,
        options: Options | None = None,
        dialect: str = "vllm",
        model: str | None = None,
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.options = options or Options()
        self.dialect: Dialect = DIALECTS[dialect]
        profile = profile_for(self.options, model)
        self.core = server_of(self.options, profile, single_steps=True)
        self.model = model or profile.model
        self.url = ""
        self._api_key = api_key
        self._where = (host, port)
        self._rng = random.Random(f"answers {self.options.seed}")
        self._events: dict[tuple[str, bool], Events] = {}
        self._streams: dict[Job, _Stream] = {}
        self._writing: dict[Job, _Stream] = {}
        """Those whose tokens are written as they come."""
        self._in_front: deque[_Stream] = deque()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._began_at_s = 0.0

    async def __aenter__(self) -> MockServer:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, *self._where, backlog=1024)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        self._began_at_s = clock()()
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Stop listening and hang up on everybody."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.hang_up(reset=True)
        if self._server is not None:
            await self._server.wait_closed()

    # --- requests --------------------------------------------------------------------------

    def _connect(self) -> Connection:
        connection = Connection(self._handle, self._gone, self.dialect.server)
        self._connections.add(connection)
        return connection

    def _handle(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        path, policy = path.partition("?")[0], self.core.policy
        if self._api_key and path.startswith("/v1/") and connection.authorization != f"Bearer {self._api_key}":
            connection.respond(401, b'{"error":"Unauthorized"}')
        elif method == "POST" and path in ("/v1/chat/completions", "/v1/completions"):
            self._answer(connection, body, chat=path == "/v1/chat/completions")
        elif path == "/v1/models":
            self._say(connection, 200, self.dialect.models(self.model, self.options.adapters, policy))
        elif path == "/metrics":
            page = self.dialect.metrics_page(self.model, gauges_of(self.core, clock()()), policy)
            connection.respond(200, page.encode(), "text/plain; version=0.0.4; charset=utf-8")
        elif (said := self.dialect.pages(self.model, policy).get(path)) is not None:
            self._say(connection, 200, said)
        else:
            self._say(connection, 404, {"detail": "Not Found"})

    def _answer(self, connection: Connection, body: bytes, chat: bool) -> None:
        try:
            ask = msgspec.json.decode(body, type=_Ask)
            messages = _messages(ask, chat)
        except (msgspec.DecodeError, KeyError) as error:
            self._say(connection, 400, self.dialect.error(400, f"the request cannot be read: {error}"))
            return
        named = ask.model.removeprefix(f"{self.model}:") if ask.model else self.model
        adapter = named if named in self.options.adapters else None
        if not self.dialect.any_model and adapter is None and named != self.model:
            self._say(connection, 404, self.dialect.error(404, f"The model `{ask.model}` does not exist."))
            return
        options, limit = self.options, ask.max_completion_tokens or ask.max_tokens
        if limit is not None and limit < 1:
            self._say(connection, 400, self.dialect.error(400, f"max_tokens must be at least 1, not {limit}"))
            return
        fault = self._fault(clock()())
        share = min(1.0, options.output_share * (1.0 + options.output_spread * self._rng.uniform(-1.0, 1.0)))
        stalls = self._rng.random() < options.stall_share
        job = job_of(messages, limit or _UNASKED_TOKENS, max(1, round((limit or _UNASKED_TOKENS) * share)), adapter)
        if fault and not fault.startswith("http_"):
            job.output_tokens = max(1, job.output_tokens // 3)
        usage = options.usage and (not ask.stream or bool((ask.stream_options or {}).get("include_usage")))
        events = self._events_of(adapter or self.model, chat)
        stream = _Stream(connection, job, events, ask.stream, usage, fault, options.stall_s if stalls else 0.0)
        if fault == "disconnect":
            connection.hang_up(reset=True)
        elif fault and fault.startswith("http_"):
            status = int(fault.removeprefix("http_"))
            self._say(connection, status, self.dialect.error(status, "this mock server refused the request"))
        elif options.proxy_limit is not None and len(self._streams) - len(self._in_front) >= options.proxy_limit:
            stream.waiting = True
            self._streams[job] = stream
            self._in_front.append(stream)
        else:
            self._submit(stream)

    def _submit(self, stream: _Stream) -> None:
        job, now_s = stream.job, clock()()
        refused = self.core.submit(now_s, job)
        if refused == "context_overflow":
            room = self.core.policy.context_tokens
            asked = f"{job.prompt_tokens} + {job.limit_tokens} tokens were asked"
            body = self.dialect.error(400, f"This model's maximum context length is {room} tokens; {asked}.")
            if self.dialect.name == "llamacpp":
                body["error"].update(type="exceed_context_size_error", n_prompt_tokens=job.prompt_tokens, n_ctx=room)
            self._say(stream.connection, 400, body)
        elif refused:
            self._say(stream.connection, 503, self.dialect.error(503, "The queue is full. Please try again later."))
        else:
            self._streams[job] = stream
            if stream.streamed and not self.dialect.closes_streams:
                stream.connection.begin_stream()
            self._arm(now_s)
            return
        self._streams.pop(job, None)

    def _gone(self, connection: Connection) -> None:
        """A client has hung up: its answer is no longer computed."""
        self._connections.discard(connection)
        for stream in [stream for stream in self._streams.values() if stream.connection is connection]:
            self._forget(stream)
            if not stream.waiting:
                now_s = clock()()
                self.core.cancel(now_s, stream.job)
                self._arm(now_s)

    # --- time ------------------------------------------------------------------------------

    def _arm(self, now_s: float) -> None:
        due_s = self.core.next_event_at()
        if self._timer is not None:
            if due_s == self._due_s:
                return
            self._timer.cancel()
            self._timer = None
        if due_s is not None:
            self._due_s = due_s
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due_s - now_s), self._fire)

    def _fire(self) -> None:
        """A step has ended: write every token that is due."""
        self._timer = None
        now_s = clock()()
        if now_s < self._due_s - 1e-6:
            self._timer = asyncio.get_running_loop().call_later(0.001, self._fire)
            return
        ended = []
        for _, kind, job in self.core.advance(now_s):
            stream = self._streams.get(job)
            if stream is None:
                continue
            if kind == "finished":
                ended.append(stream)
            elif stream.streamed and not self.options.buffered:
                self._writing[job] = stream
                if self.dialect.closes_streams:
                    stream.connection.begin_stream()
                stream.connection.write(stream.events.role)
        step, merged = self.core.batch.step, self.options.tokens_per_chunk
        for job, stream in self._writing.items():
            if stream.stall_s:
                self._write_haltingly(stream, now_s)
            elif merged > 1:
                if not stream.sent_tokens or job.tokens_by(step) - stream.sent_tokens >= merged:
                    self._write(stream, job.tokens_by(step))
            else:
                self._write(stream, job.tokens_by(step))
        for stream in ended:
            self._finish(stream, now_s)
        self._arm(clock()())

    def _write(self, stream: _Stream, count: int) -> None:
        """The tokens up to ``count`` that have not been written yet."""
        first = stream.sent_tokens
        if count <= first:
            return
        stream.sent_tokens = count
        events, words = stream.events, stream.events.words
        if count > first + 1 and self.options.tokens_per_chunk > 1:
            stream.connection.write(events.several(first, count))
        elif count == first + 1 and first:
            stream.connection.write(words[first % len(words)])
        else:
            due = b"".join(words[n % len(words)] for n in range(max(1, first), count))
            stream.connection.write(due if first else events.first + due)

    def _write_haltingly(self, stream: _Stream, now_s: float) -> None:
        """As ``_write``, with one pause in the middle of the answer."""
        if now_s < stream.held_until_s:
            return
        count = stream.job.tokens_by(self.core.batch.step)
        if not stream.held_until_s and count > stream.job.output_tokens // 2:
            stream.held_until_s = now_s + stream.stall_s
            count = stream.job.output_tokens // 2
        self._write(stream, count)

    def _finish(self, stream: _Stream, now_s: float) -> None:
        """The last token is written: what closes the answer, and the next one from in front of the proxy."""
        if now_s < stream.held_until_s:
            again_s = stream.held_until_s
            asyncio.get_running_loop().call_later(again_s - now_s, self._finish, stream, again_s)
            return
        if stream.job not in self._streams:
            return
        self._forget(stream)
        job, connection, events, fault = stream.job, stream.connection, stream.events, stream.fault
        reason = "length" if job.output_tokens >= job.limit_tokens else "stop"
        usage = self._usage(job) if stream.usage else None
        keep = not self.dialect.closes_streams
        if fault == "truncated" or (fault and not stream.streamed):
            connection.hang_up()
        elif not stream.streamed:
            connection.respond(200, events.whole(text_of(job.output_tokens), reason, usage))
        else:
            if self.options.buffered:
                if self.dialect.closes_streams:
                    connection.begin_stream()
                connection.write(events.role)
            self._write(stream, job.output_tokens)
            if fault:
                broken = events.other({"error": {"message": "the mock answer broke off", "type": fault, "code": 500}})
                connection.end_stream(broken + events.done, keep)
            else:
                last = events.finish(reason) + (events.usage(usage) if usage else b"") + events.done
                connection.end_stream(last, keep)

    def _forget(self, stream: _Stream) -> None:
        self._streams.pop(stream.job, None)
        self._writing.pop(stream.job, None)
        if stream.waiting:
            self._in_front.remove(stream)
        elif self._in_front:
            held = self._in_front.popleft()
            held.waiting = False
            self._submit(held)

    # --- small things ----------------------------------------------------------------------

    def _fault(self, now_s: float) -> str | None:
        options, chance = self.options, self._rng.random()
        every_s = options.error_every_s
        if every_s is not None and (now_s - self._began_at_s) % every_s >= options.error_for_s:
            return None
        return options.error_kind if chance < options.error_share else None

    def _events_of(self, model: str, chat: bool) -> Events:
        found = self._events.get((model, chat))
        if found is None:
            found = self._events[model, chat] = Events(model, chat)
        return found

    def _usage(self, job: Job) -> dict[str, Any]:
        return {
            "prompt_tokens": job.prompt_tokens,
            "completion_tokens": job.output_tokens,
            "total_tokens": job.prompt_tokens + job.output_tokens,
            "prompt_tokens_details": {"cached_tokens": job.cached_tokens},
        }

    def _say(self, connection: Connection, status: int, body: object) -> None:
        connection.respond(status, msgspec.json.encode(body))


def _messages(ask: _Ask, chat: bool) -> list[Message]:
    """The conversation asked; a plain prompt is one message. ``KeyError`` for none."""
    if not chat:
        return [{"role": "user", "content": ask.prompt or ""}]
    if not ask.messages:
        raise KeyError("messages")
    return [{"role": str(message["role"]), "content": _text(message["content"])} for message in ask.messages]


def _text(content: object) -> str:
    """Message content: a string, or a list of parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
