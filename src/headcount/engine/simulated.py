"""The simulated model server as an engine: the pure core on the event loop's clock, virtual or real.

One instance is one server: whoever wants its gauges asks the instance that was sent to. Faults a real server or
the way to it may have are options, so that what must notice them can be tested. Knows nothing of people and levels.
"""

from __future__ import annotations

import asyncio
import difflib
import random
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any

import msgspec

from headcount.errors import ScenarioError
from headcount.records import EngineFacts, Prompt, Reply
from headcount.simulator.cost import Cost
from headcount.simulator.job import Job, Refusal
from headcount.simulator.pace import Pace
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.profiles import PROFILES, Profile
from headcount.simulator.server import Server
from headcount.simulator.words import MESSAGE_TOKENS, PROMPT_TOKENS, text_of, text_tokens
from headcount.virtual import clock

__all__ = ["ClockedServer", "Options", "Simulated"]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[engine.options]`` of the simulated engine. None: as the named server has it."""

    server: str = "home"
    """A key of ``PROFILES``: what everything below starts from."""
    policy: str | None = None
    """A key of ``POLICIES``: schedule like that engine, with its defaults and the sizes below."""
    slots: int | None = None
    kv_pool_tokens: int | None = None
    max_batched_tokens: int | None = None
    context_tokens: int | None = None
    block_tokens: int | None = None
    queue_limit: int | None = None
    prefix_cache: bool | None = None
    overhead_s: float | None = None
    weights_s: float | None = None
    token_s: float | None = None
    sequence_s: float | None = None
    context_token_s: float | None = None
    pair_s: float | None = None
    adapter_fraction: float | None = None
    adapter_load_s: float | None = None
    adapters: tuple[str, ...] = ()
    seed: int = 1
    speed: float = 1.0
    """Of the whole server; 0.9 is 10 % slower."""
    jitter: float = 0.02
    """Standard deviation of the logarithm of step times; one draw a change of the batch."""
    round_trip_s: float = 0.001
    output_share: float = 1.0
    """Mean of the written share of the tokens that were allowed."""
    output_spread: float = 0.0
    """The written share is uniform within this relative distance of its mean, at most 1."""
    tokens_per_chunk: int = 1
    usage: bool = True
    """False: the server tells no token counts."""
    # --- sick servers ---
    drift_per_hour: float = 0.0
    """Relative growth of all step times an hour."""
    leak_per_request: float = 0.0
    """Relative growth of all step times a finished request."""
    throttle_after_s: float | None = None
    throttle_factor: float = 1.5
    """Step times once throttled."""
    buffered: bool = False
    """A proxy holds every stream back until it is complete."""
    proxy_limit: int | None = None
    """A proxy lets so many requests through at once; the others wait unseen by the server's gauges."""
    stall_share: float = 0.0
    """Share of answers that pause once, in their middle, for ``stall_s``."""
    stall_s: float = 3.0
    error_share: float = 0.0
    error_kind: str = "http_500"
    """``http_<status>``: refused at once; else an error kind an answer ends with after a third of its tokens."""
    error_every_s: float | None = None
    """With it, errors come only in the first ``error_for_s`` of each such period."""
    error_for_s: float = 5.0


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
        self.options = _options(options)
        profile = PROFILES[self.options.server]
        self.model = model or profile.model
        self._profile = profile
        self._policy = _policy(profile, self.options)
        self._cost = _cost(profile.cost, self.options)
        self._rng = random.Random(f"answers {self.options.seed}")
        self._began_at_s: float | None = None
        self._clocked = ClockedServer(
            Server(self._cost, self._policy, _pace(self.options)), round_trip_s=self.options.round_trip_s
        )
        limit = self.options.proxy_limit
        self._proxy: AbstractAsyncContextManager[Any] = nullcontext() if limit is None else asyncio.Semaphore(limit)

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
            details={**msgspec.to_builtins(self.options), **asdict(self._cost), "policy": policy.name},
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
            if refused := self._unknown(prompt) or (kind if kind and kind.startswith("http_") else None):
                await asyncio.sleep(self.options.round_trip_s)
                _refuse(reply, refused, now(), "this simulated server refused the request")
                return
            async with self._proxy:
                await self._answer(
                    prompt, reply, share, kind, self.options.stall_s * (stall < self.options.stall_share)
                )
        finally:
            reply.ended_at_s = now()

    async def gauges(self) -> dict[str, float]:
        """Its counters now."""
        server, now_s = self._clocked.server, clock()()
        return {
            "server_running_requests": float(len(server.running)),
            "server_waiting_requests": float(len(server.waiting)),
            "server_kv_used_fraction": server.kv_used_fraction,
            "server_preemptions_total": float(server.preemptions_total),
            "server_prompt_tokens_total": float(server.prompt_tokens_total),
            "server_output_tokens_total": float(server.output_tokens_total(now_s)),
            "server_cache_hit_tokens_total": float(server.cached_tokens_total),
            "server_cache_query_tokens_total": float(server.prompt_tokens_total),
        }

    async def close(self) -> None:
        """There is no connection."""

    # --- one answer ------------------------------------------------------------------------

    async def _answer(self, prompt: Prompt, reply: Reply, spread: float, kind: str | None, stall_s: float) -> None:
        options, now, server = self.options, clock(), self._clocked.server
        share = min(1.0, options.output_share * (1.0 + options.output_spread * spread))
        written = max(1, round(prompt.max_output_tokens * share))
        job = _job(prompt, max(1, written // 3) if kind else written)
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
        self._deliver(prompt, reply, job, self._arrivals(job, server, stall_s, now()), complete=True)
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


def _job(prompt: Prompt, written: int) -> Job:
    """The request in the core's terms: its tokens, and the message boundaries histories are known by."""
    key: Hashable = prompt.adapter
    tokens = PROMPT_TOKENS
    path = []
    for message in prompt.messages:
        text = message["content"]
        key = hash((key, message["role"], text))
        tokens += MESSAGE_TOKENS + text_tokens(text)
        path.append((key, tokens))
    return Job(
        tokens,
        written,
        limit_tokens=prompt.max_output_tokens,
        adapter=prompt.adapter,
        path=tuple(path),
        answer_key=hash((key, "assistant", text_of(written))),
    )


def _refuse(reply: Reply, error: str, at_s: float, text: str) -> None:
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


def _options(given: dict[str, object]) -> Options:
    known = Options.__struct_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ScenarioError(f"engine.options.{name} is not an option of the simulated engine", hint)
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"engine.options: {error}", "see the reference of the simulated engine") from error
    for name, value, table in (("server", options.server, PROFILES), ("policy", options.policy, POLICIES)):
        if value is not None and value not in table:
            raise ScenarioError(f"engine.options.{name}: {value!r} is not known", f"known: {', '.join(table)}")
    return options


def _pace(options: Options) -> Pace:
    return Pace(
        seed=options.seed,
        jitter=options.jitter,
        drift_per_hour=options.drift_per_hour,
        leak_per_request=options.leak_per_request,
        throttle_after_s=options.throttle_after_s,
        throttle_factor=options.throttle_factor,
    )


def _policy(profile: Profile, options: Options) -> Policy:
    """The profile's policy, or that of another engine with the profile's sizes, with what the options say."""
    asked = {
        "slots": options.slots,
        "pool_tokens": options.kv_pool_tokens,
        "max_batched_tokens": options.max_batched_tokens,
        "context_tokens": options.context_tokens,
        "block_tokens": options.block_tokens,
        "queue_limit": options.queue_limit,
        "prefix_cache": options.prefix_cache,
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    try:
        if options.policy is None:
            return replace(profile.policy, **given)
        sizes = {name: getattr(profile.policy, name) for name in ("slots", "pool_tokens", "context_tokens")}
        return replace(POLICIES[options.policy](), **{**sizes, **given})
    except ValueError as error:
        raise ScenarioError(f"engine.options: {error}") from error


def _cost(cost: Cost, options: Options) -> Cost:
    names = Cost.__dataclass_fields__
    given = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}
    cost = replace(cost, **given)
    if options.speed <= 0:
        raise ScenarioError(f"engine.options.speed must be above 0, not {options.speed}")
    scaled = {name: getattr(cost, name) / options.speed for name in names if name.endswith("_s")}
    return replace(cost, **scaled)
