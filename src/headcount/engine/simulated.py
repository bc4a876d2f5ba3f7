"""The simulated model server as an engine: the pure core on the event loop's clock, virtual or real.

One instance is one server: whoever wants its gauges asks the instance that was sent to. Faults a real server or
the way to it may have are options, so that what must notice them can be tested. Knows nothing of people and levels.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from math import inf
from typing import Any

import msgspec

from headcount.engine.simulation import Loading, gauges_of, job_of, profile_for, read_options, server_of
from headcount.records import EngineFacts, Prompt, Reply
from headcount.simulator.job import Job, Refusal
from headcount.simulator.server import Server
from headcount.simulator.words import text_of
from headcount.virtual import clock

__all__ = ["ClockedServer", "Simulated"]


class ClockedServer:
    """A core server on the running event loop's clock: one timer, at its next event."""

    def __init__(self, server: Server, round_trip_s: float = 0.0) -> None:
        self.server = server
        self.round_trip_s = round_trip_s
        self._ends: dict[Job, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    async def run(self, job: Job) -> Refusal | None:
        """Submit ``job`` and wait for its end, or say why it was refused. Cancelled: it leaves the server."""
        now = clock()
        refused = self.server.submit(now(), job)
        if refused:
            await asyncio.sleep(self.round_trip_s)
            return refused
        ended = self._ends[job] = asyncio.get_running_loop().create_future()
        self._arm(now())
        try:
            await ended
        except asyncio.CancelledError:
            self.server.cancel(now(), job)
            self._arm(now())
            raise
        finally:
            del self._ends[job]
        return None

    def _arm(self, now_s: float) -> None:
        """Set the timer to the next event, if it is not set so already."""
        due_s = self.server.next_event_at()
        if self._timer is not None:
            if due_s == self._due_s:
                return
            self._timer.cancel()
            self._timer = None
        if due_s is not None:
            self._due_s = due_s
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due_s - now_s), self._fire)

    def _fire(self) -> None:
        """Let the core catch up. Timers may come a little early (rounding; a millisecond under uvloop)."""
        self._timer = None
        loop, now_s = asyncio.get_running_loop(), clock()()
        if now_s < self._due_s - 1e-6:
            self._timer = loop.call_later(0.001, self._fire)
            return
        for at_s, kind, job in self.server.advance(max(now_s, self._due_s)):
            if kind == "finished" and job in self._ends:
                loop.call_later(max(0.0, at_s + self.round_trip_s - now_s), _resolve, self._ends[job])
        self._arm(now_s)


def _resolve(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class Simulated:
    """An engine with no machine behind it. ``client`` and ``learned`` are not used."""

    name = "simulated"

    def __init__(
        self, client: object = None, model: str | None = None, learned: dict[str, Any] | None = None, **options: object
    ) -> None:
        self.learned: dict[str, Any] = learned or {}
        self.options = read_options(options)
        self._profile = profile_for(self.options, model)
        self.model = model or self._profile.model
        server = server_of(self.options, self._profile)
        self._policy = server.policy
        self._clocked = ClockedServer(server, self.options.round_trip_s)
        self._rng = random.Random(f"answers {self.options.seed}")
        self._began_at_s: float | None = None
        self._loading = Loading(self.options)
        limit = self.options.proxy_limit
        self._proxy: AbstractAsyncContextManager[Any] = nullcontext() if limit is None else asyncio.Semaphore(limit)

    @property
    def token_s(self) -> float:
        """How long a token takes, of an answer to one person alone."""
        return self._clocked.server.cost.step_s(1, 1, adapted=False)

    async def facts(self) -> EngineFacts:
        """What it was made as."""
        policy = self._policy
        return EngineFacts(
            engine=self.name,
            model=self.model,
            models=(self.model, *self.options.adapters),
            adapters=self.options.adapters,
            adapter_bases=dict.fromkeys(self.options.adapters, self.model),
            context_tokens=policy.context_tokens,
            quantization=self._profile.quantization,
            slots=policy.slots,
            kv_pool_tokens=policy.pool_tokens,
            metrics="json",
            details={**msgspec.to_builtins(self.options), **asdict(self._clocked.server.cost), "policy": policy.name},
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """Nothing is to be learned."""
        return ()

    async def send(self, prompt: Prompt, reply: Reply) -> None:
        """Answer ``prompt``; see ``Engine.send``."""
        now = clock()
        reply.connected_at_s = reply.sent_at_s = now()
        if self._began_at_s is None:
            self._began_at_s = reply.sent_at_s
        chance, share, stall = self._rng.random(), self._rng.uniform(-1.0, 1.0), self._rng.random()
        kind = self._fault(chance, reply.sent_at_s - self._began_at_s)
        try:
            at_once = kind if kind is not None and (kind == "disconnect" or kind.startswith("http_")) else None
            if refused := self._unknown(prompt) or at_once:
                await asyncio.sleep(self.options.round_trip_s)
                _refuse(reply, refused, now(), "this simulated server refused the request")
                return
            if wait_s := self._loading.wait_s(now()):
                await asyncio.sleep(wait_s)
            async with self._proxy:
                await self._answer(
                    prompt, reply, share, kind, self.options.stall_s * (stall < self.options.stall_share)
                )
        finally:
            reply.ended_at_s = self._loading.used_at_s = max([now(), *reply.chunk_at_s[-1:]])

    async def gauges(self) -> dict[str, float]:
        """Its counters now."""
        return gauges_of(self._clocked.server, clock()())

    async def close(self) -> None:
        """There is no connection."""

    # --- one answer ------------------------------------------------------------------------

    async def _answer(self, prompt: Prompt, reply: Reply, spread: float, kind: str | None, stall_s: float) -> None:
        options, now, server = self.options, clock(), self._clocked.server
        share = min(1.0, options.output_share * (1.0 + options.output_spread * spread))
        written = max(1, round(prompt.max_output_tokens * share))
        written = max(1, written // 3) if kind else written
        job = job_of(prompt.messages, prompt.max_output_tokens, written, prompt.adapter)
        try:
            refused = await self._clocked.run(job)
            if refused == "context_overflow":
                room = f"{job.prompt_tokens} + {job.limit_tokens} tokens do not fit into {self._policy.context_tokens}"
                _refuse(reply, "http_400", now(), room)
                reply.error = "context_overflow"
                return
            if refused:
                _refuse(reply, "http_503", now(), "the queue is full")
                return
            if stall_s:
                await asyncio.sleep(stall_s)
        except asyncio.CancelledError:
            self._deliver(prompt, reply, job, self._arrivals(job, server, stall_s, now()), complete=False)
            raise
        self._deliver(prompt, reply, job, self._arrivals(job, server, stall_s, inf), complete=True)
        if kind:
            reply.error, reply.error_text, reply.finish_reason = kind, "the simulated answer broke off", None

    def _arrivals(self, job: Job, server: Server, stall_s: float, until_s: float) -> list[float]:
        """When each token has reached the client."""
        round_trip_s = self.options.round_trip_s
        times = [at_s + round_trip_s for at_s in server.token_times(job, until_s)]
        if stall_s:
            middle = job.output_tokens // 2
            times[middle:] = [at_s + stall_s for at_s in times[middle:]]
        while times and times[-1] > until_s + 1e-6:
            times.pop()
        return times

    def _deliver(self, prompt: Prompt, reply: Reply, job: Job, times: list[float], complete: bool) -> None:
        """Put what has arrived into ``reply``."""
        options = self.options
        if not complete and (options.buffered or not prompt.streamed or not times):
            return
        reply.status = 200
        reply.text.append(text_of(len(times)))
        if complete:
            reply.finish_reason = "length" if job.output_tokens >= job.limit_tokens else "stop"
            if options.usage:
                reply.prompt_tokens, reply.output_tokens = job.prompt_tokens, job.output_tokens
                reply.cached_tokens = job.cached_tokens if self._policy.prefix_cache else None
            reply.server = _server_times(job)
        if options.buffered or not prompt.streamed:
            times = [times[-1]] * len(times)
            reply.coalesced = prompt.streamed and len(times) > 1
        reply.first_byte_at_s = times[0]
        if prompt.streamed:
            reply.first_event_at_s = reply.first_answer_at_s = times[0]
            step = options.tokens_per_chunk
            reply.chunk_at_s = times if step == 1 else [*times[:1], *times[step:-1:step], *times[1:][-1:]]

    def _fault(self, chance: float, elapsed_s: float) -> str | None:
        """The error this request meets."""
        options = self.options
        if options.error_every_s is not None and elapsed_s % options.error_every_s >= options.error_for_s:
            return None
        return options.error_kind if chance < options.error_share else None

    def _unknown(self, prompt: Prompt) -> str | None:
        named = {None, self.model, *self.options.adapters}
        return None if prompt.model in named and prompt.adapter in named else "http_404"


def _refuse(reply: Reply, error: str, at_s: float, text: str) -> None:
    if error.startswith("http_"):
        reply.status = int(error.removeprefix("http_"))
        reply.first_byte_at_s = at_s
    reply.error, reply.error_text = error, text


def _server_times(job: Job) -> dict[str, float]:
    """What some servers tell of a finished request."""
    submitted_at_s, started_at_s = job.submitted_at_s, job.started_at_s or job.submitted_at_s
    first_at_s, ended_at_s = job.first_token_at_s or started_at_s, job.ended_at_s or started_at_s
    return {
        "ttft_s": first_at_s - submitted_at_s,
        "queue_s": started_at_s - submitted_at_s,
        "prefill_s": first_at_s - started_at_s,
        "decode_s": ended_at_s - first_at_s,
    }
