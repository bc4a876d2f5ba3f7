"""The one place where the parts meet: level by level, until the search knows enough.

Holds a level, writes its facts, asks the judging half what they mean and which level comes next. The same code
runs on a real server and, under the virtual clock, on the simulated one.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from headcount.agenda import Agenda
from headcount.analysis.conclusions import LevelSummary, Limits, Plan, Verdict
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.codec import decode_level, decode_request, decode_sample, encode_level, encode_sample
from headcount.engine import Engine
from headcount.errors import RunError
from headcount.load.fleet import Fleet
from headcount.records import Level, RunFacts, Sample
from headcount.slo import Clause, Comfort
from headcount.store import RunWriter
from headcount.virtual import clock
from headcount.workload import Expected
from headcount.workload.arrivals import ArrivalPlan, Closed

__all__ = ["Session", "Watcher"]

CLOSED = Closed()
COMFORT = Comfort()
FLUSH_INTERVAL_S = 0.5
"""Facts lie on disk at most this, and a load process's own quarter second, after they happened."""
HEAD_START_S = 0.3
"""A level begins so much after its order, so that every load process is ready for the first instant."""
CLIENT_LATE = frozenset({"client-lag", "send-delay", "client-cpu"})
"""Cautions of a level that one more load process may spare the next one."""
BUSY_FRACTION = 0.5
"""Of a core: a load process below was late because of others on this machine."""
LOOKS_APART = 20.0
"""Looks at a running level are so many times their own length apart: one at 200,000 requests takes a while."""
DRAIN_TIMEOUT_S = 60.0
DRAIN_POLL_S = 0.2


class Watcher(Protocol):
    """Who is told how the work goes on: the progress display, or a test."""

    def level_began(self, level: Level, plan: Plan) -> None:
        """A level begins."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """About once a second."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """A level has ended and was judged."""


class Session:
    """Measures one engine with one workload. Make it, then ``await measure()`` once."""

    def __init__(
        self,
        *,
        engine: Engine,
        fleet_of: Callable[[Session], Fleet],
        writer: RunWriter,
        about: RunFacts,
        slo: tuple[Clause, ...],
        limits: Limits,
        expected: Expected,
        watcher: Watcher,
        origin_s: float,
        headroom: float = 0.25,
        comfort: Comfort = COMFORT,
        sample_interval_s: float = 1.0,
        arrivals: ArrivalPlan = CLOSED,
        earlier: Sequence[LevelSummary] = (),
        next_index: int = 0,
        condition: str = "",
        shares_server: bool = False,
        active_share: float | None = None,
    ) -> None:
        """``condition`` names the levels of one of several sessions that share a run folder, whose people say the same
        words; ``shares_server``: but for their first sentences, which another of them would find in its cache."""
        self._engine = engine
        self._fleet_of = fleet_of
        self._fleet = fleet_of(self)
        self._writer = writer
        self._about = about
        self._slo = slo
        self._limits = limits
        self._watcher = watcher
        self._origin_s = origin_s
        self._headroom = headroom
        self._comfort = comfort
        self._sample_interval_s = sample_interval_s
        self._active_share = active_share
        self._agenda = Agenda(arrivals, limits, expected, lambda summaries: self._judged(summaries).recommended_users)
        self._summaries = list(earlier)
        self._next_index = next_index
        self._condition = condition
        self._shares_server = shares_server
        self._upkeep: list[asyncio.Future[None]] = []
        self._was_closed = False
        self._now = clock()
        self._table = RequestTable(slo)
        self._samples: list[Sample] = []
        self._current_index: int | None = None
        self._interrupted = asyncio.Event()
        self._unwritten: RunError | None = None
        """Why facts can no longer be written; ends the run."""

    # --- what others tell the session ---------------------------------------------------------

    def take_lines(self, process: int, lines: bytes) -> None:
        """Requests of a load process: to the run folder as they are, and into the current level's table."""
        self._writer.requests(lines, process)
        for line in lines.splitlines():
            request = decode_request(line)
            if request.level == self._current_index:
                self._table.add(request)

    def take_samples(self, samples: list[Sample]) -> None:
        """Samples of any source; judged as they will be read back."""
        self._writer.samples(samples)
        if self._current_index is not None:
            self._samples.extend(decode_sample(line) for line in map(encode_sample, samples) if line)

    def interrupt(self) -> None:
        """End the current level now and begin no other."""
        self._interrupted.set()

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop."""
        return self._interrupted.is_set()

    # --- the work -----------------------------------------------------------------------------

    async def measure(self) -> Verdict:
        """Hold level after level until the search is done, the time is up, or somebody interrupts."""
        try:
            await self.open()
            while not self.interrupted and await self.step() is not None:
                pass
        finally:
            await self.close()
        return self.verdict()

    async def open(self) -> None:
        """Get everything ready to hold levels; after ``close`` once more, with as many load processes as before."""
        processes = self._fleet.processes
        if self._was_closed:
            self._fleet = self._fleet_of(self)
        self._upkeep = [asyncio.ensure_future(self._flush()), asyncio.ensure_future(self._watch_server())]
        await self._fleet.open()
        while self._fleet.processes < processes and await self._fleet.grow():
            pass

    async def step(self, index: int | None = None) -> LevelSummary | None:
        """Hold the next level; None when there is none to hold. One of several sessions that share a run folder is told
        the level's ``index``."""
        plan = None if self._fleet.lost else self._next_plan()
        if plan is None:
            return None
        self._next_index = self._next_index if index is None else index
        summary = await self._hold(plan)
        self._summaries.append(summary)
        if CLIENT_LATE & {caution.code for caution in summary.cautions} and self._client_was_busy():
            await self._fleet.grow()
        return summary

    async def close(self) -> None:
        """End the load processes; every fact is on disk then. Raises ``RunError`` when facts could not be written."""
        for task in self._upkeep:
            task.cancel()
        self._upkeep, self._was_closed = [], True
        await self._fleet.close()
        if self._unwritten is not None:
            raise self._unwritten
        self._writer.flush()

    @property
    def done(self) -> bool:
        """Whether there is no level left to hold."""
        return bool(self._fleet.lost) or self._next_plan() is None

    @property
    def held(self) -> int:
        """How many levels there were so far."""
        return len(self._summaries)

    def verdict(self) -> Verdict:
        """What is known so far."""
        return self._judged(self._summaries)

    def _judged(self, summaries: Sequence[LevelSummary]) -> Verdict:
        return judge(
            summaries,
            self._limits,
            self._slo,
            headroom=self._headroom,
            comfort=self._comfort,
            engine=self._about.engine,
            active_share=self._active_share,
        )

    def _client_was_busy(self) -> bool:
        """Whether the load processes themselves were what kept them; else one more of them would not help."""
        shares = [sample.value for sample in self._samples if sample.name == "client_cpu_fraction"]
        return bool(shares) and statistics.median(shares) > BUSY_FRACTION

    def _next_plan(self) -> Plan | None:
        return self._agenda.next_plan(self._summaries)

    def _level(self, plan: Plan) -> Level:
        """The level of a plan, as if it began now."""
        level = self._agenda.level(plan, self._summaries, self._next_index, self._at_s())
        words = self._words(plan.users, plan.rate_per_s)
        return msgspec.structs.replace(level, condition=self._condition, words=words, processes=self._fleet.processes)

    def _words(self, users: int, rate_per_s: float | None) -> str:
        """What the level's words are called: those of the same visit to as many people, or to the level in the same
        place, under other conditions."""
        if not self._condition:
            return ""
        visits = sum(summary.users == users for summary in self._summaries)
        fixed = sorted(set(self._limits.levels))
        load = f"{users} people" if users not in fixed else f"level {fixed.index(users) + 1}"
        load = load if rate_per_s is None else f"{rate_per_s:g} a second"
        return f"{load}, visit {visits + 1}" + (f"|{self._condition}" if self._shares_server else "")

    async def _hold(self, plan: Plan) -> LevelSummary:
        """One level: prepare, begin, watch until it is decided or its time is up, cut, drain, judge."""
        level = self._level(plan)
        await self._fleet.prepare(level)
        level = msgspec.structs.replace(level, began_at_s=self._at_s() + HEAD_START_S)
        self._next_index += 1
        self._table = RequestTable(self._slo)
        self._samples = []
        self._current_index = level.index
        filled_at_s = level.began_at_s + self._agenda.filled_after_s(level, self._summaries)
        level = self._stored(msgspec.structs.replace(level, started_at_s=filled_at_s))
        self._watcher.level_began(level, plan)
        await self._fleet.begin(level.began_at_s)
        ended = await self._until_enough(level, plan)
        stopped_at_s = max(self._at_s(), level.began_at_s)  # it may be interrupted before it began
        await self._fleet.stop()
        drained = await self._drain()
        drained_at_s = max(self._at_s(), stopped_at_s) if drained else None
        level = self._stored(
            msgspec.structs.replace(level, stopped_at_s=stopped_at_s, drained_at_s=drained_at_s, ended=ended)
        )
        summary = summarize(
            level, self._table, self._samples, self._slo, ended_at_s=level.stopped_at_s, about=self._about
        )
        self._current_index, self._table = None, RequestTable(self._slo)
        self._watcher.level_ended(level, summary)
        return summary

    async def _until_enough(self, level: Level, plan: Plan) -> str:
        """Watch a level until something ends it; says what."""
        finished = asyncio.ensure_future(self._fleet.finished())
        stop = asyncio.ensure_future(self._interrupted.wait())
        wait_s = look_s = max(0.05, min(max(1.0, level.spread_s / 4), plan.time_s))
        try:
            while True:
                await asyncio.wait((finished, stop), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                at_s = self._at_s()
                summary = summarize(level, self._table, self._samples, self._slo, ended_at_s=at_s, about=self._about)
                left_s, took_s = plan.time_s - (at_s - level.began_at_s), self._at_s() - at_s
                wait_s = max(look_s, min(LOOKS_APART * took_s, left_s))
                self._watcher.level_goes_on(level, summary, self._in_flight())
                if self._fleet.lost:
                    return "error"
                if stop.done():
                    return "interrupted"
                if finished.done():
                    return "finished"
                if self._agenda.enough(plan, summary, self._in_flight()):
                    return "decided"
                if at_s - level.began_at_s >= plan.time_s:
                    return "time"
        finally:
            finished.cancel()
            stop.cancel()

    async def _drain(self) -> bool:
        """Wait until the server has nothing left of ours, as far as it tells; False when it never got there."""
        until_s = self._now() + DRAIN_TIMEOUT_S
        while self._now() < until_s:
            gauges = await self._engine.gauges()
            busy = gauges.get("server_running_requests", 0.0) + gauges.get("server_waiting_requests", 0.0)
            if busy == 0:
                return True
            await asyncio.sleep(DRAIN_POLL_S)
        return False

    def _stored(self, level: Level) -> Level:
        """Write a level down, and go on with what will be read back, so that a report agrees to the last digit."""
        self._writer.level(level)
        return decode_level(encode_level(level))

    def _at_s(self) -> float:
        """Seconds since the run began."""
        return self._now() - self._origin_s

    def _in_flight(self) -> int:
        """Requests in flight over all load processes, by their newest samples."""
        newest: dict[str, float] = {}
        for sample in self._samples:
            if sample.name == "client_in_flight_requests":
                newest[sample.of] = sample.value
        return int(sum(newest.values()))

    # --- upkeep -------------------------------------------------------------------------------

    async def _flush(self) -> None:
        """Facts reach the disk at least once a second."""
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            try:
                self._writer.flush()
            except RunError as error:  # a full disk, for instance: what is not kept need not be measured
                self._unwritten = error
                self.interrupt()
                return

    async def _watch_server(self) -> None:
        """The server's own gauges, once an interval."""
        while True:
            await asyncio.sleep(self._sample_interval_s)
            gauges = await self._engine.gauges()
            at_s = self._at_s()
            self.take_samples([Sample(at_s, name, value) for name, value in gauges.items()])
