"""The servers behind a gateway while people ask through it: how many requests each has, several times a second."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary, Plan
from headcount.deployment.gateway import server_at
from headcount.deployment.places import Place
from headcount.engine import Engine
from headcount.errors import ServerError
from headcount.records import Level
from headcount.session import Watcher

__all__ = ["Inside", "ServersWatch"]

INTERVAL_S = 0.2


class Inside(msgspec.Struct):
    """What one server had of requests during a level: those that run and those that wait in it."""

    peak_requests: float = 0.0
    total_requests: float = 0.0
    looks: int = 0

    @property
    def mean(self) -> float | None:
        """Over all looks; None when there was none."""
        return self.total_requests / self.looks if self.looks else None


class ServersWatch:
    """A watcher of a session that also asks every server for its gauges, and tells another watcher everything."""

    def __init__(
        self, places: Sequence[Place], keys: Mapping[str, str], kind_of: Callable[[str], str], beside: Watcher
    ) -> None:
        self._places = places
        self._keys = keys
        self._kind_of = kind_of
        self._beside = beside
        self._task: asyncio.Task[None] | None = None
        self.inside: dict[int, dict[str, Inside]] = defaultdict(lambda: defaultdict(Inside))
        """By the level's index and the place's label."""
        self.since_s: dict[int, float] = {}

    def level_began(self, level: Level, plan: Plan) -> None:
        """Begin to look; the session's loop is running."""
        self._task = asyncio.get_running_loop().create_task(self._look(level.index))
        self._beside.level_began(level, plan)

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """Told on."""
        self._beside.level_goes_on(level, summary, in_flight)

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._beside.level_ended(level, summary)

    async def _look(self, index: int) -> None:
        servers: list[tuple[Place, Engine]] = []
        try:
            for place in self._places:
                try:
                    servers.append((place, await server_at(place, self._keys, self._kind_of(place.name))))
                except ServerError:
                    continue  # without gauges; the proof says that it was not seen
            while True:
                await asyncio.gather(*(self._note(index, place, server) for place, server in servers))
                await asyncio.sleep(INTERVAL_S)
        finally:
            for _, server in servers:
                await server.close()

    async def _note(self, index: int, place: Place, server: Engine) -> None:
        gauges = await server.gauges()
        running = gauges.get("server_running_requests")
        if running is None:
            return
        seen = self.inside[index][place.label]
        now = running + gauges.get("server_waiting_requests", 0.0)
        seen.peak_requests = max(seen.peak_requests, now)
        seen.total_requests, seen.looks = seen.total_requests + now, seen.looks + 1
