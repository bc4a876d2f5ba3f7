"""The people of one level: N in the closed loop, or conversations arriving in the open one; who comes when.

Knows nothing of what is said in a conversation, of files, statistics and processes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec

from headcount.engine import Engine
from headcount.load.talk import Press, Talker
from headcount.records import Conversation, Level, Request
from headcount.virtual import clock
from headcount.workload import Workload
from headcount.workload.arrivals import (
    ArrivalPlan,
    Closed,
    Open,
    Replayed,
    Synchronised,
    arrival_instants,
    press_instants,
    recorded_instants,
)
from headcount.workload.streams import random_stream, words_of

__all__ = ["Crowd"]

CLOSED = Closed()


class Crowd:
    """The people of one level who live on this event loop.

    Of ``level.processes`` load processes this one takes the people whose number leaves ``process`` as remainder;
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
        context_tokens: int | None = None,
        arrivals: ArrivalPlan = CLOSED,
    ) -> None:
        self._workload = workload
        self._level = level
        self._seed = seed
        self._process = process
        self._arrivals = arrivals
        self._origin_s = self._began_at_s = origin_s
        self._stream = level.words or f"level {level.index}"
        """Names the random numbers, so that a repeated level says new words, but for those that are to say the same."""
        self._conversations: dict[int, Iterator[Conversation]] = {}
        """Of everybody in the closed loop, the first one drawn."""
        self._talker = Talker(engine, level.index, emit, origin_s=origin_s, context_tokens=context_tokens)
        self._now = clock()
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Everybody who is here, in the order of their coming: they leave in that order too, run after run."""
        self._door: asyncio.Task[None] | None = None
        """Lets people in, in the open loop; nobody itself."""
        self._over = asyncio.Event()
        self.failure: BaseException | None = None
        """What ended somebody's life here, which nothing ought to: the load is no longer what was asked for."""

    @property
    def in_flight(self) -> int:
        """Requests of this crowd that are unanswered right now."""
        return self._talker.in_flight

    @property
    def inside(self) -> int:
        """People who are here, those who read and think included."""
        return sum(task is not self._door for task in self._tasks)

    def prepare(self) -> None:
        """Have everybody's first words ready, so that writing them takes no time of the level's own."""
        if self._instants() is not None:
            return
        for person in range(self._process, self._level.users, self._level.processes):
            self._conversations[person] = self._conversations_of(person)

    def start(self, at_s: float) -> None:
        """Start everybody at their own instant from ``at_s`` on, in seconds since the run began; returns at once."""
        self._began_at_s = self._origin_s + at_s
        if (instants := self._instants()) is not None:
            self._door = self._spawn(self._receive(instants))
            return
        for person in range(self._process, self._level.users, self._level.processes):
            self._spawn(self._live(person))
        if not self._tasks:
            self._over.set()

    async def finished(self) -> None:
        """Wait until nobody is left, or somebody failed; in an endless level neither comes."""
        await self._over.wait()

    async def stop(self) -> None:
        """Cut whatever is in flight, send the people home, and wait until all of it has been recorded."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(tuple(self._tasks))
        await self._talker.close()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._leave)
        return task

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and self.failure is None:
            self.failure = task.exception()
        if not self._tasks or self.failure is not None:
            self._over.set()

    # --- the closed loop ----------------------------------------------------------------------

    async def _live(self, person: int) -> None:
        """One person: conversation after conversation, a pause after every answer."""
        level = self._level
        at_s = self._began_at_s + person / level.users * level.spread_s
        press = self._press(person)
        conversations = self._conversations.pop(person, None) or self._conversations_of(person)
        for number, conversation in enumerate(itertools.islice(conversations, level.conversations_each)):
            at_s = await self._talker.hold(person, number, conversation, at_s, press)

    def _conversations_of(self, person: int) -> Iterator[Conversation]:
        """All conversations of one person, the first one drawn.

        People who do not all come at once leave their first conversation after a random turn of it: as if each had
        come in the middle of one. Else everybody's history would grow and end in step with everybody else's, and
        the load with it, for many turns. What they ask is asked in full, so that no history is made up.
        """
        conversations = self._workload.conversations(person, self._stream)
        first = next(conversations)
        if self._level.spread_s > 0.0 and self._level.conversations_each is None:
            stays = random_stream(self._seed, words_of(self._stream), person, "stays").randint(1, len(first.turns))
            first = msgspec.structs.replace(first, turns=first.turns[:stays])
        return itertools.chain([first], conversations)

    def _press(self, person: int) -> Press | None:
        """When a person presses enter who is ready at a given instant; None for one who waits for nobody."""
        if not isinstance(self._arrivals, Synchronised):
            return None
        instants = press_instants(self._arrivals, person, self._seed, words_of(self._stream))
        if instants is None:
            return None
        coming = (self._began_at_s + instant_s for instant_s in instants)
        return lambda at_s: next(instant_s for instant_s in coming if instant_s >= at_s)

    # --- the open loop ------------------------------------------------------------------------

    def _instants(self) -> Iterator[float] | None:
        """When conversations arrive, counted from the level's beginning; None in the closed loop."""
        arrivals, rate_per_s = self._arrivals, self._level.rate_per_s
        if isinstance(arrivals, Replayed):
            recorded: Iterator[float] = self._workload.instants_s()  # type: ignore[attr-defined]  # a trace has them
            return recorded_instants(recorded, arrivals.speed)
        if rate_per_s is None:
            return None
        plan = arrivals if isinstance(arrivals, Open) else Open()
        return arrival_instants(plan, rate_per_s, self._seed, words_of(self._stream))

    async def _receive(self, instants: Iterator[float]) -> None:
        """Conversations arrive, each by a new person, whatever the server does."""
        processes = self._level.processes
        for person, instant_s in enumerate(instants):
            if person % processes == self._process:
                at_s = self._began_at_s + instant_s
                delay_s = at_s - self._now()
                if delay_s > 0:
                    await asyncio.sleep(delay_s)
                self._spawn(self._visit(person, at_s))

    async def _visit(self, person: int, at_s: float) -> None:
        """One person: a single conversation."""
        await self._talker.hold(person, 0, next(self._workload.conversations(person, self._stream)), at_s)
