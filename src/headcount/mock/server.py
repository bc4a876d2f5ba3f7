"""The core server behind sockets: one timer at its next step, and every stream written when its token is due.

Tokens are never waited for one by one: whatever is due by now is written, so that a late timer delays nothing after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headcount.engine.simulation import Loading, Options, gauges_of, job_of, profile_for, server_of
from headcount.errors import ScenarioError
from headcount.mock.dialect import DIALECTS, Dialect, Events
from headcount.mock.request import Ask, read_ask
from headcount.mock.wire import Connection
from headcount.simulator.job import Job
from headcount.simulator.words import text_of
from headcount.virtual import clock

__all__ = ["MockServer"]

_SPOKEN = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "ollama": "llamacpp"}
"""Whose words a server uses when nobody says otherwise, by its policy; Ollama's own are not played."""
_TICK_S = 0.001
"""How far a timer may go off too early."""
_MOST_LEAD_S = 0.005


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
    """In front of the server: for the model to be loaded, or held back by the proxy."""


class MockServer:
    """An OpenAI-compatible server; ``async with`` starts and stops it.

    ``dialect`` is a key of ``DIALECTS``; None: that of the policy. It listens on ``host`` and ``port`` (0: any that is
    free), or on the Unix socket ``socket_path``.
    """

    def __init__(
        self,
        options: Options | None = None,
        dialect: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: str | None = None,
    ) -> None:
        self.options = options or Options()
        profile = profile_for(self.options, model)
        self.core = server_of(self.options, profile, single_steps=True)
        self.dialect: Dialect = DIALECTS[dialect or _SPOKEN[self.core.policy.name]]
        self.model = model or profile.model
        self.url = ""
        self._api_key = api_key
        self._where = (host, port)
        self._socket_path = str(Path(socket_path).absolute()) if socket_path else None
        self._rng = random.Random(f"answers {self.options.seed}")
        self._events: dict[tuple[str, bool], Events] = {}
        self._streams: dict[Job, _Stream] = {}
        self._stream_of: dict[Connection, _Stream] = {}
        self._writing: dict[Job, _Stream] = {}
        """Those whose tokens are written as they come."""
        self._loading = Loading(self.options)
        self._in_front: deque[_Stream] = deque()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._lead_s = 0.0
        """How long before its time the writing of a step begins: half of what it takes, so that its tokens are written
        on time on average and none of a thousand streams much too late."""
        self._began_at_s = 0.0

    async def __aenter__(self) -> MockServer:
        """Listen. ``ScenarioError`` where that is not possible."""
        loop = asyncio.get_running_loop()
        host, port = self._where
        try:
            if self._socket_path:
                self._server = await loop.create_unix_server(self._connect, self._socket_path, backlog=1024)
                self.url = f"unix:{self._socket_path}"
            else:
                self._server = await loop.create_server(self._connect, host, port, backlog=1024)
                host, port = self._server.sockets[0].getsockname()[:2]
                self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        except OSError as error:
            place = self._socket_path or f"{host}, port {port}"
            if error.errno == errno.EADDRINUSE:
                hint = "another server has it; take another one, for instance --port 0 for any that is free"
                raise ScenarioError(f"{place} is in use already", hint) from error
            raise ScenarioError(
                f"cannot listen on {place}: {error.strerror or error}", "take another address or port"
            ) from error
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
        if self._socket_path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._socket_path)  # noqa: PTH108 in a coroutine

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
        elif (said := self.dialect.pages(self.model, self.options.adapters, policy).get(path)) is not None:
            self._say(connection, 200, said)
        else:
            self._say(connection, 404, {"detail": "Not Found"})

    def _answer(self, connection: Connection, body: bytes, chat: bool) -> None:
        try:
            ask = read_ask(body, chat)
        except ValueError as error:
            self._say(connection, 400, self.dialect.error(400, str(error)))
            return
        adapter = self._adapter(ask)
        if not (self.dialect.numbered_adapters or adapter is not None or ask.model in (None, self.model)):
            self._say(connection, 404, self.dialect.error(404, f"The model `{ask.model}` does not exist."))
            return
        stream = self._stream(connection, ask, adapter, chat)
        fault = stream.fault
        if fault == "disconnect":
            connection.hang_up(reset=True)
        elif fault and fault.startswith("http_"):
            status = int(fault.removeprefix("http_"))
            self._say(connection, status, self.dialect.error(status, "this mock server refused the request"))
        elif wait_s := self._loading.wait_s(clock()()):
            stream.waiting = True
            self._keep(stream)
            asyncio.get_running_loop().call_later(wait_s, self._let_through, stream)
        else:
            self._let_through(stream)

    def _let_through(self, stream: _Stream) -> None:
        """Past the proxy, where there is one with room for it."""
        if stream.waiting and stream.job not in self._streams:
            return  # the client has gone while the model was loaded
        limit = self.options.proxy_limit
        if limit is not None and sum(not other.waiting for other in self._streams.values()) >= limit:
            stream.waiting = True
            self._keep(stream)
            self._in_front.append(stream)
        else:
            stream.waiting = False
            self._submit(stream)

    def _stream(self, connection: Connection, ask: Ask, adapter: str | None, chat: bool) -> _Stream:
        """What is to become of the request, as far as chance decides."""
        options, limit = self.options, ask.limit_tokens
        fault = self._fault(clock()())
        share = min(1.0, options.output_share * (1.0 + options.output_spread * self._rng.uniform(-1.0, 1.0)))
        stalls = self._rng.random() < options.stall_share
        longest = min(limit, self.core.policy.context_tokens)
        job = job_of(ask.conversation(chat), limit, max(1, round(longest * share)), adapter)
        if not ask.cache_prompt:
            job.path, job.answer_key = (), None
        if fault and not fault.startswith("http_"):
            job.output_tokens = max(1, job.output_tokens // 3)
        named = self.model if self.dialect.numbered_adapters or adapter is None else adapter
        usage = options.usage and ask.wants_usage
        events = self._events_of(named, chat)
        return _Stream(connection, job, events, bool(ask.stream), usage, fault, options.stall_s if stalls else 0.0)

    def _adapter(self, ask: Ask) -> str | None:
        """The adapter asked for; None for none, or one that is not known."""
        adapters = self.options.adapters
        if not self.dialect.numbered_adapters:
            named = (ask.model or "").removeprefix(f"{self.model}:")
            return named if named in adapters else None
        scaled = [(lora.share, lora.id) for lora in ask.lora or () if lora.share > 0 and 0 <= lora.id < len(adapters)]
        return adapters[max(scaled)[1]] if scaled else None

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
            self._keep(stream)
            if stream.streamed and not self.dialect.closes_streams:
                stream.connection.begin_stream()
            self._arm(now_s)
            return
        self._streams.pop(job, None)
        self._stream_of.pop(stream.connection, None)

    def _gone(self, connection: Connection) -> None:
        """A client has hung up: its answer is no longer computed."""
        self._connections.discard(connection)
        stream = self._stream_of.get(connection)
        if stream is not None:
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
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due_s - self._lead_s - now_s), self._fire)

    def _fire(self) -> None:
        """A step ends: write every token that is due."""
        self._timer = None
        began_s = clock()()
        if began_s < self._due_s - self._lead_s - _TICK_S:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._fire)
            return
        now_s = max(began_s, self._due_s)
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
        self._write_all(now_s)
        for stream in ended:
            self._finish(stream, now_s)
        ended_s = clock()()
        self._lead_s += 0.2 * (min(0.5 * (ended_s - began_s), _MOST_LEAD_S) - self._lead_s)
        self._arm(ended_s)

    def _write_all(self, now_s: float) -> None:
        """The tokens of this step, in every stream."""
        step, merged = self.core.batch.step, self.options.tokens_per_chunk
        for job, stream in self._writing.items():
            count = job.tokens_by(step)
            if stream.stall_s:
                self._write_haltingly(stream, now_s)
            elif merged == 1 or not stream.sent_tokens or count - stream.sent_tokens >= merged:
                self._write(stream, count)

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

    def _keep(self, stream: _Stream) -> None:
        self._streams[stream.job] = stream
        self._stream_of[stream.connection] = stream

    def _forget(self, stream: _Stream) -> None:
        self._streams.pop(stream.job, None)
        self._stream_of.pop(stream.connection, None)
        self._writing.pop(stream.job, None)
        self._loading.used_at_s = clock()()
        if stream.waiting:
            with contextlib.suppress(ValueError):  # it waits for the model and not for the proxy
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
