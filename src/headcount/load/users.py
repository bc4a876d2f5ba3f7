"""The people of one level: N in the closed loop, or conversations arriving in the open one.

Drives an engine with a workload and hands out one ``Request`` for every turn that was sent, whichever way it
ended. Knows nothing of files, statistics, processes or what the load is for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import numpy as np

from headcount.engine import Engine
from headcount.records import Conversation, Level, Message, Prompt, Reply, Request, Turn
from headcount.virtual import clock
from headcount.workload import Workload

__all__ = ["Crowd"]

PAUSE_AFTER_ERROR_S = 1.0
"""The least a person waits after a failed answer: a dead server must not be hammered by people without think time."""

ERROR_TEXT_CHARS = 300


class Crowd:
    """The people of one level who live on this event loop.

    With ``processes`` load processes this one takes the people whose number leaves ``process`` as remainder;
    what a person says and when does not depend on how they are shared out.
    """

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        level: Level,
        emit: Callable[[Request], None],
        *,
        origin_s: float,
        seed: int = 1,
        process: int = 0,
        processes: int = 1,
        context_tokens: int | None = None,
    ) -> None:
        self._engine = engine
        self._workload = workload
        self._level = level
        self._emit = emit
        self._origin_s = origin_s
        self._seed = seed
        self._process = process
        self._processes = processes
        self._context_tokens = context_tokens
        self._now = clock()
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their start, so that a cut is reproducible
        self.in_flight = 0
        """Requests of this crowd that are unanswered right now."""

    def start(self) -> None:
        """Start everybody at their own instant from ``level.began_at_s`` on; returns at once."""
        if self._level.rate_per_s is None:
            for person in range(self._process, self._level.users, self._processes):
                self._spawn(self._live(person))
        else:
            self._spawn(self._arrivals(self._level.rate_per_s))

    async def finished(self) -> None:
        """Wait until everybody has left, which only happens in a finite test."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def stop(self) -> None:
        """Cut whatever is in flight, send the people home, and wait until all of it has been recorded."""
        for task in self._tasks:
            task.cancel()
        await self.finished()

    def _spawn(self, coroutine: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)  # type: ignore[arg-type]
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _live(self, person: int) -> None:
        """One person of the closed loop: conversation after conversation, a pause after every answer."""
        level = self._level
        share = person / level.users
        at_s = self._origin_s + level.began_at_s + share * level.spread_s
        for number, conversation in enumerate(self._workload.conversations(person, f"level {level.index}")):
            if level.conversations_each is not None and number >= level.conversations_each:
                return
            at_s = await self._talk(person, number, conversation, at_s)

    async def _arrivals(self, rate_per_s: float) -> None:
        """The open loop: conversations arrive at random, each by a new person, whatever the server does."""
        chance = random.Random(f"{self._seed} arrivals {self._level.index}")
        at_s = self._origin_s + self._level.began_at_s
        person = 0
        while True:
            at_s += chance.expovariate(rate_per_s)
            if person % self._processes == self._process:
                await self._sleep_until(at_s)
                self._spawn(self._visit(person, at_s))
            person += 1

    async def _visit(self, person: int, at_s: float) -> None:
        """One person of the open loop: a single conversation."""
        conversations: Iterator[Conversation] = self._workload.conversations(person, f"level {self._level.index}")
        await self._talk(person, 0, next(conversations), at_s)

    async def _talk(self, person: int, number: int, conversation: Conversation, at_s: float) -> float:
        """One conversation, its history re-sent with every turn. Returns when the next one may begin.

        It ends early when the next prompt would not fit the model's context, and after a failed turn: the
        person gives up and starts afresh.
        """
        messages: list[Message] = [{"role": "system", "content": conversation.system}] if conversation.system else []
        for turn_number, turn in enumerate(conversation.turns, 1):
            await self._sleep_until(at_s)
            scheduled_at_s = min(at_s, self._now())  # timers may fire a little early
            messages.append({"role": "user", "content": turn.text})
            prompt = Prompt(
                messages=tuple(messages),
                max_output_tokens=turn.max_output_tokens,
                streamed=conversation.streamed,
                model=conversation.model,
                adapter=conversation.adapter,
            )
            place = _Place(person, number, conversation, turn_number, turn, scheduled_at_s)
            reply = await self._ask(prompt, place)
            ended_at_s = reply.ended_at_s if reply.ended_at_s is not None else self._now()
            at_s = ended_at_s + turn.think_s
            if reply.error is not None:
                return max(at_s, ended_at_s + PAUSE_AFTER_ERROR_S)
            messages.append({"role": "assistant", "content": "".join(reply.text)})
            if turn_number < len(conversation.turns) and self._overflows(reply, conversation.turns[turn_number]):
                return at_s
        return at_s

    def _overflows(self, reply: Reply, following: Turn) -> bool:
        """Whether the next turn would outgrow the model's context, as far as the server's counts tell."""
        if self._context_tokens is None or reply.prompt_tokens is None:
            return False
        history_tokens = reply.prompt_tokens + (reply.output_tokens or 0)
        return (
            history_tokens + (following.planned_prompt_tokens or 0) + following.max_output_tokens > self._context_tokens
        )

    async def _ask(self, prompt: Prompt, place: _Place) -> Reply:
        """Send one request; record it whichever way it ends, a cut one with what was seen of it."""
        reply = Reply()
        called_at_s = self._now()
        self.in_flight += 1
        try:
            await self._engine.send(prompt, reply)
        finally:
            self.in_flight -= 1
            if reply.ended_at_s is None:
                reply.ended_at_s = self._now()
                reply.error = reply.error or "cut"
            self._emit(_fact(self._level, place, reply, called_at_s, self._origin_s))
        return reply

    async def _sleep_until(self, at_s: float) -> None:
        delay_s = at_s - self._now()
        if delay_s > 0:
            await asyncio.sleep(delay_s)


class _Place:
    """Where in its level a turn stands: who says it, in which conversation, and when it was due."""

    __slots__ = ("conversation", "number", "person", "scheduled_at_s", "turn", "turn_number")

    def __init__(
        self, person: int, number: int, conversation: Conversation, turn_number: int, turn: Turn, scheduled_at_s: float
    ) -> None:
        self.person = person
        self.number = number
        self.conversation = conversation
        self.turn_number = turn_number
        self.turn = turn
        self.scheduled_at_s = scheduled_at_s


def _fact(level: Level, place: _Place, reply: Reply, called_at_s: float, origin_s: float) -> Request:
    """The record of one turn; instants become relative to the run's beginning."""

    def since(at_s: float | None) -> float | None:
        return None if at_s is None else at_s - origin_s

    chunk_at_s: list[float] = np.subtract(reply.chunk_at_s, origin_s).tolist() if reply.chunk_at_s else []
    output_tokens, token_source = _tokens(reply)
    return Request(
        level=level.index,
        person=place.person,
        conversation=place.number,
        turn=place.turn_number,
        scheduled_at_s=place.scheduled_at_s - origin_s,
        ended_at_s=(reply.ended_at_s or called_at_s) - origin_s,
        persona=place.conversation.persona,
        model=place.conversation.model,
        adapter=place.conversation.adapter,
        streamed=place.conversation.streamed,
        sent_at_s=since(reply.sent_at_s),
        connect_s=max(0.0, (reply.connected_at_s or called_at_s) - called_at_s),
        first_byte_at_s=since(reply.first_byte_at_s),
        first_event_at_s=since(reply.first_event_at_s),
        first_answer_at_s=since(reply.first_answer_at_s),
        chunk_at_s=chunk_at_s if place.conversation.streamed else [],
        prompt_tokens=reply.prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=reply.cached_tokens,
        token_source=token_source,  # type: ignore[arg-type]
        planned_prompt_tokens=place.turn.planned_prompt_tokens,
        max_output_tokens=place.turn.max_output_tokens,
        output_chars=sum(map(len, reply.text)),
        finish_reason=reply.finish_reason,
        status=reply.status,
        coalesced=reply.coalesced,
        resends=reply.resends,
        server=reply.server,
        error=reply.error,
        error_text=None if reply.error_text is None else reply.error_text[:ERROR_TEXT_CHARS],
        think_s=place.turn.think_s,
    )


def _tokens(reply: Reply) -> tuple[int | None, str]:
    """The answer's tokens and who counted them: the server's usage, else one a chunk as an estimate."""
    if reply.output_tokens is not None:
        return reply.output_tokens, "server"
    if reply.chunk_at_s:
        return len(reply.chunk_at_s), "client"
    return None, "unknown"
