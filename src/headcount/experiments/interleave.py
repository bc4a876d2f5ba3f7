"""Several sessions of one run, each under its own condition, level by level in the order A B B A.

What drifts or heats up meanwhile then meets all conditions alike. Knows nothing of what the conditions mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Callable, Sequence

import msgspec

from headcount.engine import Engine
from headcount.errors import ServerError
from headcount.preflight import probe
from headcount.records import EngineFacts, Reply, Sample
from headcount.scenario import Condition
from headcount.session import Session
from headcount.virtual import VirtualLoop, clock

__all__ = ["Arm", "Interleaved", "next_in_turn"]

ANSWERS_WITHIN_S = 900.0
"""How long a server that was brought into its condition by a command may take until it answers again."""
ASK_AGAIN_S = 1.0
LAST_WORDS = 300


class Arm(msgspec.Struct, frozen=True):
    """One condition and the session that holds its levels."""

    condition: Condition
    session: Session
    engine: Engine
    facts: EngineFacts


class Interleaved:
    """All arms of one run. Make it, then ``await measure()`` once."""

    def __init__(
        self,
        arms: Sequence[Arm],
        next_index: int,
        tell: Callable[[str], None] | None = None,
        limit_power: Callable[[float], None] | None = None,
    ) -> None:
        self._limit_power = limit_power
        """Sets the GPUs' power limit in watts; None: conditions have none."""
        self._arms = arms
        self._next_index = next_index
        self._tell = tell
        self._current: Arm | None = None
        self._stop = asyncio.Event()

    async def measure(self) -> None:
        """Hold the next level of the condition that has come least far, until none has any left."""
        try:
            while not self.interrupted and (arm := self._next()) is not None:
                switched = arm is not self._current
                if switched:
                    await self._close()
                await self._bring_about(arm, switched=switched)
                if self.interrupted:
                    return
                if switched:
                    self._current = arm
                    await arm.session.open()
                await arm.session.step(self._next_index)
                self._next_index += 1
        finally:
            await self._close()

    async def _close(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current.session.close()

    def take_samples(self, samples: list[Sample]) -> None:
        """Samples of the machine belong to the condition whose turn it is."""
        if self._current is not None:
            self._current.session.take_samples(samples)

    def interrupt(self) -> None:
        """End the current level now and begin no other."""
        self._stop.set()
        for arm in self._arms:
            arm.session.interrupt()

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop, or facts can no longer be written."""
        return self._stop.is_set() or any(arm.session.interrupted for arm in self._arms)

    def _next(self) -> Arm | None:
        held = [None if arm.session.done else arm.session.held for arm in self._arms]
        place = next_in_turn(held)
        return None if place is None else self._arms[place]

    async def _bring_about(self, arm: Arm, *, switched: bool) -> None:
        """Whatever makes the condition, before one of its levels; a server that was switched to warms up."""
        condition = arm.condition
        if switched and condition.power_limit_w is not None and self._limit_power is not None:
            await asyncio.to_thread(self._limit_power, condition.power_limit_w)
        if condition.before:
            await self._command(condition)
            await self._answering(arm)
        if condition.idle_s:
            if self._tell is not None:
                self._tell(f"{condition.name}: leaving the server alone for {condition.idle_s:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), condition.idle_s)
        if switched and not condition.before and not condition.idle_s:
            await arm.engine.send(probe(arm.facts), Reply())

    async def _command(self, condition: Condition) -> None:
        """Run the condition's command. Raises ``ServerError`` when it fails."""
        status, said = await _run_shell(condition.before)
        if status:
            words = said.decode(errors="replace").strip()[-LAST_WORDS:]
            raise ServerError(
                f"condition {condition.name!r}: the command before its levels ended with status {status}"
                + (f": {words}" if words else ""),
                f"run it by hand: {condition.before}",
            )

    async def _answering(self, arm: Arm) -> None:
        """Wait until the server tells of itself again, without having it write anything."""
        until_s = clock()() + ANSWERS_WITHIN_S
        while not self.interrupted:
            try:
                await arm.engine.facts()
            except ServerError:
                if clock()() > until_s:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                return


async def _run_shell(command: str) -> tuple[int, bytes]:
    """Its exit status, and what it said on stderr."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):  # which waits for no other process
        ran = subprocess.run(  # noqa: ASYNC221 nothing else goes on meanwhile
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return ran.returncode, ran.stderr
    process = await asyncio.create_subprocess_shell(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, said = await process.communicate()
    return process.returncode or 0, said


def next_in_turn(held: Sequence[int | None]) -> int | None:
    """Whose turn it is, by how many levels each has held (None: it is done): whoever held the fewest, of several the
    first in even rounds and the last in odd ones, which is A B B A. None when all are done.

    >>> next_in_turn([0, 0]), next_in_turn([1, 0]), next_in_turn([1, 1]), next_in_turn([1, 2]), next_in_turn([2, 2])
    (0, 1, 1, 0, 0)
    """
    left = [place for place, n in enumerate(held) if n is not None]
    if not left:
        return None
    fewest = min(held[place] or 0 for place in left)
    behind = [place for place in left if held[place] == fewest]
    return behind[0] if fewest % 2 == 0 else behind[-1]
