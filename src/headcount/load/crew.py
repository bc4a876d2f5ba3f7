"""One load process's share of the work: it opens the engine, runs its people level by level, and audits itself.

The same class serves under the virtual clock inside the session's own process. Knows nothing of pipes.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from headcount.codec import encode_request
from headcount.engine import Engine, engine_class
from headcount.http import Client
from headcount.load.orders import Event, Setup
from headcount.load.users import Crowd
from headcount.records import Level, Request, Sample
from headcount.telemetry.client import LoadProcess
from headcount.virtual import clock
from headcount.workload import Workload, make_workload

__all__ = ["Crew"]


class Crew:
    """The people of one process. Requests, samples and events leave through the three callbacks."""

    def __init__(
        self,
        setup: Setup,
        *,
        on_lines: Callable[[bytes], None],
        on_samples: Callable[[list[Sample]], None],
        on_event: Callable[[Event], None],
        engine: Engine | None = None,
    ) -> None:
        self._setup = setup
        self._on_lines = on_lines
        self._on_samples = on_samples
        self._on_event = on_event
        self._client = Client(setup.target) if setup.target is not None else None
        self._engine = engine or engine_class(setup.engine)(self._client, setup.model, setup.learned, **setup.options)
        self._workload: Workload = make_workload(setup.workload, setup.seed)
        self._crowd: Crowd | None = None
        self._watch: asyncio.Task[None] | None = None
        self._audit: asyncio.Task[None] | None = None
        self._now = clock()

    @property
    def in_flight(self) -> int:
        """Requests of this process that are unanswered right now."""
        return self._crowd.in_flight if self._crowd else 0

    @property
    def people(self) -> int:
        """People of this process who are here right now, those who read and think included."""
        return self._crowd.inside if self._crowd else 0

    async def open(self) -> None:
        """Begin the self-audit and say that we are ready."""
        self._audit = asyncio.get_running_loop().create_task(self._sample())
        self._on_event(Event("ready"))

    async def prepare(self, level: Level) -> None:
        """Whatever a level needs that would cost time within it: connections, and the people's first words."""
        setup = self._setup
        if self._client is not None:
            await self._client.open(-(-level.users // level.processes))
        self._crowd = Crowd(
            self._engine,
            self._workload,
            level,
            self._emit,
            origin_s=setup.origin_s,
            seed=setup.seed,
            process=setup.process,
            context_tokens=setup.context_tokens,
            arrivals=setup.arrivals,
        )
        self._crowd.prepare()
        _quiet_garbage()
        self._on_event(Event("prepared"))

    async def begin(self, at_s: float) -> None:
        """Begin the level that was prepared: the people, each at their own instant from ``at_s`` on."""
        assert self._crowd is not None, "a level is prepared before it begins"
        self._crowd.start(at_s)
        self._watch = asyncio.get_running_loop().create_task(self._report_end(self._crowd))
        self._on_event(Event("began"))

    async def stop(self) -> None:
        """Cut what is in flight; returns when every request has been handed out."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._crowd is not None:
            await self._crowd.stop()
            self._crowd = None
        gc.enable()
        self._on_event(Event("stopped"))

    async def close(self) -> None:
        """Stop, and let go of every connection."""
        await self.stop()
        if self._audit is not None:
            self._audit.cancel()
        await self._engine.close()

    def _connections(self) -> dict[str, int]:
        """What became of them so far; nothing where there is no network."""
        if self._client is None:
            return {}
        counts = self._client.counts
        return {
            "client_open_connections": counts.open_now,
            "client_failed_connections_total": counts.failed,
            "client_resends_total": counts.resends,
        }

    def _emit(self, request: Request) -> None:
        self._on_lines(encode_request(request))

    async def _report_end(self, crowd: Crowd) -> None:
        """Tell when nobody is left, or that somebody fell over a fault of ours."""
        await crowd.finished()
        if crowd.failure is not None:
            self._on_event(Event("failed", f"a person could not go on: {crowd.failure!r}"))
        else:
            self._on_event(Event("finished"))

    async def _sample(self) -> None:
        """Once an interval: requests in flight, connections, and our own loop's lag, CPU and descriptors."""
        name = f"process-{self._setup.process}"
        audit = LoadProcess(name) if self._setup.audit else None
        if audit is not None:
            audit.open()
        try:
            while True:
                await asyncio.sleep(self._setup.sample_interval_s)
                at_s = self._now() - self._setup.origin_s
                seen = {"client_in_flight_requests": self.in_flight, "client_inside_users": self.people}
                seen |= self._connections()
                samples = [Sample(at_s, what, float(value), name) for what, value in seen.items()]
                self._on_samples(samples + (audit.read(at_s) if audit is not None else []))
        finally:
            if audit is not None:
                audit.close()


def _quiet_garbage() -> None:
    """Collect now, so that no collection falls into the measured window; what lives on is not looked at again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.disable()
