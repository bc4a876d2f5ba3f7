"""What one person does in one conversation: ask, wait for the answer, read and think, ask again.

Hands out one ``Request`` for every question that was sent, whichever way it ended. Knows nothing of other people,
files and processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import numpy as np

from headcount.engine import Engine
from headcount.errors import ServerError
from headcount.http import Client, Target
from headcount.records import Conversation, Message, Prompt, Reply, Request, Stage, Turn
from headcount.virtual import clock
from headcount.workload.history import fits, text_tokens

__all__ = ["Press", "Talker"]

PAUSE_AFTER_ERROR_S = 1.0
"""The least a person waits after a failed answer: a dead server must not be hammered by people without think time."""
STAGE_TIMEOUT_S = 60.0
"""The longest wait for a stage that is a real HTTP call."""
ERROR_TEXT_CHARS = 300

Press = Callable[[float], float]
"""From when a person could press enter to when the person does."""


class Talker:
    """Holds conversations with one engine for everybody of a level on this event loop."""

    def __init__(
        self,
        engine: Engine,
        level: int,
        emit: Callable[[Request], None],
        *,
        origin_s: float,
        context_tokens: int | None,
    ) -> None:
        self._engine = engine
        self._level = level
        self._emit = emit
        self._origin_s = origin_s
        self._context_tokens = context_tokens
        self._now = clock()
        self._services: dict[str, Client] = {}
        """What answers stages that are real HTTP calls, by address."""
        self.in_flight = 0
        """Questions that are unanswered right now."""

    async def hold(
        self, person: int, number: int, conversation: Conversation, at_s: float, press: Press | None = None
    ) -> float:
        """One conversation from ``at_s`` on, its history re-sent with every turn. Returns when the next may begin.

        It ends early when the next prompt would not fit the model's context, and after a failed turn: the
        person gives up and starts afresh. An answer that the person has given up on is no failed turn.
        """
        messages: list[Message] = [{"role": "system", "content": conversation.system}] if conversation.system else []
        last: Reply | None = None
        for turn_number, turn in enumerate(conversation.turns, 1):
            if last is not None and not fits(last.prompt_tokens, last.output_tokens, turn, self._context_tokens):
                return at_s
            question = _Question(person, number, conversation, turn_number, turn)
            messages.append({"role": "user", "content": turn.text})
            await self._get_ready(question, at_s if press is None else press(at_s))
            reply, at_s = await self._ask(question, messages)
            if question.failed:
                if reply.error == "context_overflow":
                    self._learn_context(last, turn)
                return at_s
            messages.append({"role": "assistant", "content": "".join(reply.text)})
            last = reply
        return at_s

    async def close(self) -> None:
        """Close the connections of stages."""
        for client in self._services.values():
            await client.close()

    async def _get_ready(self, question: _Question, at_s: float) -> None:
        """Wait for the person's time and for the stages before the question, and note when it is due."""
        for stage in question.turn.stages:
            if not stage.after:
                at_s = await self._pass(stage, question, at_s)
        await self._sleep_until(at_s)
        question.scheduled_at_s = min(at_s, self._now())  # timers may fire a little early

    async def _ask(self, question: _Question, messages: Sequence[Message]) -> tuple[Reply, float]:
        """Send one question and go through what follows the answer; gives it and when the pause after it ends.

        Recorded whichever way it ends, a cut one with what was seen of it.
        """
        conversation, turn, reply = question.conversation, question.turn, question.reply
        prompt = Prompt(
            messages=tuple(messages),
            max_output_tokens=turn.max_output_tokens,
            streamed=conversation.streamed,
            model=conversation.model,
            adapter=conversation.adapter,
        )
        try:
            await self._wait_for(prompt, question)
            at_s = reply.ended_at_s or self._now()
            for stage in turn.stages:
                if stage.after:
                    at_s = await self._pass(stage, question, at_s)
        finally:
            self._emit(question.record(self._level, self._origin_s))
        return reply, at_s + question.think_s

    async def _wait_for(self, prompt: Prompt, question: _Question) -> None:
        """The answer in full, or what there is of it when the level ends or the person gives up on it."""
        reply, patience_s = question.reply, question.turn.cancel_after_s
        question.called_at_s = self._now()
        self.in_flight += 1
        try:
            if patience_s is None:
                await self._engine.send(prompt, reply)
            else:
                async with asyncio.timeout(max(0.0, question.scheduled_at_s + patience_s - self._now())):
                    await self._engine.send(prompt, reply)
        except TimeoutError:
            question.given_up = True
            reply.error, reply.ended_at_s = "cut", self._now()
        except asyncio.CancelledError:
            reply.error, reply.ended_at_s = "cut", self._now()
            raise
        except Exception as fault:
            reply.error, reply.error_text, reply.ended_at_s = "client", repr(fault), self._now()
            raise
        finally:
            self.in_flight -= 1

    async def _pass(self, stage: Stage, question: _Question, at_s: float) -> float:
        """One stage outside the model, begun at ``at_s``; gives when it is over."""
        ends_at_s = at_s + stage.delay_s
        if stage.url:
            await self._sleep_until(at_s)
            await self._call(stage.url)
            ends_at_s = self._now()
        elif stage.after:
            await self._sleep_until(ends_at_s)
        question.stage_s[stage.name] = question.stage_s.get(stage.name, 0.0) + ends_at_s - at_s
        return ends_at_s

    async def _call(self, url: str) -> None:
        """A real HTTP GET; one that fails has taken its time all the same."""
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}"
        client = self._services.get(address)
        if client is None:
            client = self._services[address] = Client(Target(url=address))
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            await client.get(path, STAGE_TIMEOUT_S)
        except ServerError:
            return

    def _learn_context(self, last: Reply | None, turn: Turn) -> None:
        """The server refused a prompt as too long, and nobody had told us its limit: the next one stays below."""
        if self._context_tokens is None and last is not None and last.prompt_tokens is not None:
            history_tokens = last.prompt_tokens + (last.output_tokens or 0)
            self._context_tokens = history_tokens + text_tokens(turn) + turn.max_output_tokens - 1

    async def _sleep_until(self, at_s: float) -> None:
        delay_s = at_s - self._now()
        if delay_s > 0:
            await asyncio.sleep(delay_s)


class _Question:
    """One turn on its way: where in its level it stands, when it was due, and what comes of it."""

    __slots__ = (
        "called_at_s",
        "conversation",
        "given_up",
        "number",
        "person",
        "reply",
        "scheduled_at_s",
        "stage_s",
        "turn",
        "turn_number",
    )

    def __init__(self, person: int, number: int, conversation: Conversation, turn_number: int, turn: Turn) -> None:
        self.person = person
        self.number = number
        self.conversation = conversation
        self.turn = turn
        self.turn_number = turn_number
        self.scheduled_at_s = 0.0
        self.called_at_s = 0.0
        self.given_up = False
        """The person did not wait for the end of the answer."""
        self.stage_s: dict[str, float] = {}
        self.reply = Reply()

    @property
    def failed(self) -> bool:
        """Whether the answer failed: neither the person's patience nor the level ended it."""
        return self.reply.error not in (None, "cut") and not self.given_up

    @property
    def think_s(self) -> float:
        """The pause after the answer: reading takes as long as the answer is, and nobody asks again at once after a
        failure."""
        think_s = self.turn.think_s
        if self.turn.reading_s_per_token:
            think_s += self.turn.reading_s_per_token * (_tokens(self.reply)[0] or 0)
        return max(think_s, PAUSE_AFTER_ERROR_S) if self.failed else think_s

    @property
    def planned_tokens(self) -> int | None:
        """What this turn should add to the prompt: its text, and before the first turn the system prompt."""
        planned, conversation = self.turn.planned_prompt_tokens, self.conversation
        if planned is None or self.turn_number > 1 or not conversation.system:
            return planned
        system_tokens = conversation.planned_system_tokens
        return None if system_tokens is None else planned + system_tokens

    def record(self, level: int, origin_s: float) -> Request:
        """The facts; instants become relative to the run's beginning."""

        def since(at_s: float | None) -> float | None:
            return None if at_s is None else at_s - origin_s

        reply, conversation = self.reply, self.conversation
        chunk_at_s: list[float] = []
        if reply.chunk_at_s and conversation.streamed:
            chunk_at_s = np.subtract(reply.chunk_at_s, origin_s).tolist()
        output_tokens, token_source = _tokens(reply)
        return Request(
            level=level,
            person=self.person,
            conversation=self.number,
            turn=self.turn_number,
            scheduled_at_s=self.scheduled_at_s - origin_s,
            ended_at_s=(reply.ended_at_s or self.called_at_s) - origin_s,
            persona=conversation.persona,
            model=conversation.model,
            adapter=conversation.adapter,
            streamed=conversation.streamed,
            sent_at_s=since(reply.sent_at_s),
            connect_s=_connect_s(reply),
            first_byte_at_s=since(reply.first_byte_at_s),
            first_event_at_s=since(reply.first_event_at_s),
            first_answer_at_s=since(reply.first_answer_at_s),
            chunk_at_s=chunk_at_s,
            prompt_tokens=reply.prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=reply.cached_tokens,
            token_source=token_source,  # type: ignore[arg-type]
            planned_prompt_tokens=self.planned_tokens,
            max_output_tokens=self.turn.max_output_tokens,
            output_chars=sum(map(len, reply.text)),
            finish_reason=reply.finish_reason,
            status=reply.status,
            coalesced=reply.coalesced,
            resends=reply.resends,
            server=reply.server,
            error=reply.error,
            error_text=None if reply.error_text is None else reply.error_text[:ERROR_TEXT_CHARS],
            think_s=self.think_s,
            stage_s=self.stage_s or None,
        )


def _connect_s(reply: Reply) -> float:
    """0 for a pooled connection, and where there is none."""
    if reply.began_at_s is None or reply.connected_at_s is None:
        return 0.0
    return reply.connected_at_s - reply.began_at_s


def _tokens(reply: Reply) -> tuple[int | None, str]:
    """The answer's tokens and who counted them: the server's usage, else one a chunk as an estimate."""
    if reply.output_tokens is not None:
        return reply.output_tokens, "server"
    if reply.chunk_at_s:
        return len(reply.chunk_at_s), "client"
    return None, "unknown"
