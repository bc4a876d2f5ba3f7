"""An engine that answers by a script on the loop's clock, and people who say what the test gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headcount.load.users import Crowd
from headcount.records import Conversation, EngineFacts, Level, Prompt, Reply, Request, Turn
from headcount.virtual import clock, run
from headcount.workload import Expected

Answer = Callable[[Prompt, Reply], float]
"""Fills in what an answer says and gives how long it takes."""


def good(prompt: Prompt, reply: Reply) -> float:
    """Eight tokens in a second."""
    reply.output_tokens = 8
    reply.prompt_tokens = sum(len(message["content"].split()) for message in prompt.messages)
    reply.finish_reason, reply.status = "stop", 200
    return 1.0


def failing(prompt: Prompt, reply: Reply) -> float:
    """Refused at once."""
    reply.error, reply.status, reply.error_text = "http_503", 503, "x" * 1000
    return 0.0


class Scripted:
    """Keeps every prompt with its time; an answer's text comes as two chunks, at its first and last quarter."""

    name = "scripted"

    def __init__(self, answer: Answer = good) -> None:
        self.answer = answer
        self.learned: dict[str, Any] = {}
        self.asked: list[tuple[float, Prompt]] = []
        self.in_flight = 0
        self.in_flight_peak = 0

    async def send(self, prompt: Prompt, reply: Reply) -> None:
        """As the script says."""
        now = clock()
        reply.connected_at_s = reply.sent_at_s = began_s = now()
        self.asked.append((began_s, prompt))
        takes_s = self.answer(prompt, reply)
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight, self.in_flight_peak)
        try:
            if reply.error is None:
                for at_s, text in ((0.25, "It "), (0.75, "is.")):
                    await asyncio.sleep(began_s + at_s * takes_s - now())
                    reply.chunk_at_s.append(now())
                    reply.text.append(text)
            await asyncio.sleep(began_s + takes_s - now())
        finally:
            self.in_flight -= 1
            reply.ended_at_s = now()  # as the HTTP client does, also when it is cut

    async def facts(self) -> EngineFacts:
        """Nothing to tell."""
        return EngineFacts(engine=self.name)

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """Nothing to learn."""
        return ()

    async def gauges(self) -> dict[str, float]:
        """Nothing to see."""
        return {}

    async def close(self) -> None:
        """Nothing to close."""


class Said:
    """Everybody holds the same conversation again and again, but with a name of their own in every turn."""

    def __init__(self, *turns: Turn, **fields: Any) -> None:
        self._turns = turns
        self._fields = fields

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """Endless."""
        number = 0
        while True:
            turns = tuple(
                Turn(f"{person}.{number} {turn.text}", *[getattr(turn, f) for f in Turn.__struct_fields__[1:]])
                for turn in self._turns
            )
            yield Conversation("said", turns, **self._fields)
            number += 1

    def expected(self) -> Expected:
        """Not asked for."""
        raise NotImplementedError


def turn(text: str = "why", think_s: float = 0.5, **fields: Any) -> Turn:
    """One short question."""
    return Turn(text, 8, think_s, **fields)


def hold(
    engine: Scripted,
    workload: Said,
    *,
    for_s: float | None = 60.0,
    processes: Sequence[int] = (0,),
    level: dict[str, Any] | None = None,
    **fields: Any,
) -> list[Request]:
    """One level on the virtual clock, from its beginning at 1 s until ``for_s`` later, or until nobody is left."""
    requests: list[Request] = []
    facts: dict[str, Any] = {"index": 0, "users": 4, "began_at_s": 0.0, "processes": len(processes)} | (level or {})

    async def main() -> None:
        crowds = [
            Crowd(engine, workload, Level(**facts), requests.append, origin_s=0.0, process=number, **fields)
            for number in processes
        ]
        for crowd in crowds:
            crowd.prepare()
            crowd.start(1.0)
        if for_s is None:
            await asyncio.gather(*(crowd.finished() for crowd in crowds))
        else:
            await asyncio.sleep(1.0 + for_s)
        for crowd in crowds:
            await crowd.stop()
            assert crowd.in_flight == 0
            if crowd.failure is not None:
                raise crowd.failure

    run(main())
    return requests
