"""A whole measurement: reach the server, show the plan, run the session, judge.

Builds the parts a scenario asks for and hands them to a ``Session``; continues a stored run the same way. Knows
nothing of arguments and of how anything is shown.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from headcount import virtual
from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.analysis.fingerprint import changes
from headcount.analysis.rehearsal import checks_time_s
from headcount.analysis.search import estimate_s
from headcount.demo import EmbeddedEngine
from headcount.errors import RunError
from headcount.load.fleet import Fleet, LocalFleet, ProcessFleet, most_connections, refuse_beyond_descriptors
from headcount.load.orders import Setup
from headcount.preflight import Ready, Settled, reach, settle_workload
from headcount.records import FORMAT_VERSION, EngineFacts, Gpu, RunFacts
from headcount.review import limits_of, scenario_of, summaries_of
from headcount.scenario import Scenario, encode_scenario
from headcount.session import Session, Watcher
from headcount.slo import parse_slo
from headcount.store import RunWriter
from headcount.telemetry.sampler import Sampler, open_sources
from headcount.virtual import clock
from headcount.workload import make_workload

__all__ = ["Intent", "Outcome", "measure"]


class Intent(msgspec.Struct, frozen=True):
    """What is about to be done, for a person to agree to."""

    scenario: Scenario
    facts: EngineFacts
    estimate_s: float
    notes: tuple[str, ...]
    simulated: bool


class Outcome(msgspec.Struct, frozen=True):
    """What came of it."""

    verdict: Verdict
    facts: RunFacts
    path: Path
    interrupted: bool


def measure(
    scenario: Scenario,
    *,
    verb: str,
    out: Path,
    api_key: str | None,
    watcher: Watcher,
    agree: Callable[[Intent], bool],
    resume: Path | None = None,
    embedded: EmbeddedEngine | None = None,
    tell: Callable[[str], None] | None = None,
) -> Outcome | None:
    """Measure by a scenario, or go on with the stored run ``resume``; None when ``agree`` said no.

    ``embedded`` is a server of our own that is started first and ended last; its address becomes the scenario's.
    ``tell`` hears what is waited for.
    Raises ``ServerError``, ``RunError`` or ``ScenarioError``. Whatever was measured before an error lies in the run
    folder. The simulated engine runs under the virtual clock.
    """
    job = _Measurement(scenario, verb, out, api_key, watcher, agree, resume, embedded, tell)
    if scenario.engine.kind == "simulated" and not scenario.engine.url:
        return virtual.run(job.run())
    return _run_on_the_fast_loop(job)


def _run_on_the_fast_loop(job: _Measurement) -> Outcome | None:
    new_loop: Callable[[], asyncio.AbstractEventLoop]
    try:
        from uvloop import new_event_loop as new_loop
    except ImportError:  # no uvloop on Windows
        new_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(job.run())


class _Measurement:
    """The parts of one measurement while they are put together."""

    def __init__(
        self,
        scenario: Scenario,
        verb: str,
        out: Path,
        api_key: str | None,
        watcher: Watcher,
        agree: Callable[[Intent], bool],
        resume: Path | None,
        embedded: EmbeddedEngine | None,
        tell: Callable[[str], None] | None,
    ) -> None:
        self._scenario = scenario
        self._verb = verb
        self._out = out
        self._api_key = api_key
        self._watcher = watcher
        self._agree = agree
        self._resume = resume
        self._embedded = embedded
        self._tell = tell
        self._simulated = scenario.engine.kind == "simulated"

    async def run(self) -> Outcome | None:
        if self._embedded is None:
            return await self._reach_and_measure()
        async with self._embedded as server:
            engine = msgspec.structs.replace(self._scenario.engine, url=server.url)
            self._scenario = msgspec.structs.replace(self._scenario, engine=engine)
            return await self._reach_and_measure()

    async def _reach_and_measure(self) -> Outcome | None:
        ready = await reach(self._scenario.engine, self._api_key, tell=self._tell)
        try:
            return await self._measure(ready)
        finally:
            await ready.engine.close()

    async def _measure(self, ready: Ready) -> Outcome | None:
        scenario = self._scenario
        if not self._simulated:
            scenario = self._scenario = _within_descriptors(scenario)
        limits = limits_of(scenario)
        expected = make_workload(scenario.workload, scenario.seed).expected()
        time_s = estimate_s(limits, expected) + checks_time_s(limits, expected)
        intent = Intent(scenario, ready.facts, time_s, ready.notes, self._simulated)
        if not self._agree(intent):
            return None
        settled = await settle_workload(ready, scenario.workload, scenario.seed, scenario.engine.tokenizer_file)
        scenario = self._scenario = msgspec.structs.replace(scenario, workload=settled.table)
        sampler = (
            None if self._simulated else Sampler(open_sources(scenario.telemetry.gpu_metrics, ready.facts.address))
        )
        facts = self._run_facts(ready, settled, sampler.gpus if sampler else ())
        writer, facts, earlier, next_index, gone_s = self._folder(facts)
        origin_s = clock()() - gone_s
        session = Session(
            engine=ready.engine,
            fleet_of=lambda made: self._fleet(made, ready, origin_s),
            writer=writer,
            about=facts,
            slo=parse_slo(scenario.slo),
            limits=limits,
            expected=expected,
            watcher=self._watcher,
            origin_s=origin_s,
            headroom=scenario.search.headroom,
            comfort=scenario.comfort,
            sample_interval_s=scenario.telemetry.interval_s,
            arrivals=scenario.arrivals,
            earlier=earlier,
            next_index=next_index,
            active_share=scenario.search.active_share,
        )
        _stop_on_signals(session, writer)
        try:
            if sampler:
                sampler.start(scenario.telemetry.interval_s, origin_s, session.take_samples)
            verdict = await session.measure()
        finally:
            if sampler:
                sampler.stop()
            writer.close()
        return Outcome(verdict, facts, writer.path, session.interrupted)

    def _folder(self, facts: RunFacts) -> tuple[RunWriter, RunFacts, list[LevelSummary], int, float]:
        """A new run folder, or the stored one with what it knows: its own facts, levels, next index, seconds gone."""
        if self._resume is None:
            writer = RunWriter.create(self._out, self._scenario.name, facts, encode_scenario(self._scenario))
            return writer, facts, [], 0, 0.0
        writer, run = RunWriter.resume(self._resume)
        differing = changes(run.facts, facts)
        if differing:
            writer.close()
            raise RunError(
                f"{self._resume} cannot be continued: {'; '.join(differing)}",
                "start a new search, or bring the server back to what it was",
            )
        stored = scenario_of(run)
        if stored.search.max_time_s != self._scenario.search.max_time_s:
            # More time was given: whoever reads the run judges by it.
            writer.scenario(encode_scenario(msgspec.structs.replace(stored, search=self._scenario.search)))
        levels = run.levels()
        ends = [level.drained_at_s or level.stopped_at_s or level.began_at_s for level in levels]
        last_at_s = max([*ends, *(request.ended_at_s for request in run.requests())], default=0.0)
        earlier = summaries_of(run, parse_slo(run.facts.slo), finished_only=True)
        next_index = max((level.index for level in levels), default=-1) + 1
        return writer, run.facts, earlier, next_index, last_at_s + 1.0

    def _fleet(self, session: Session, ready: Ready, origin_s: float) -> Fleet:
        scenario = self._scenario
        setup = Setup(
            origin_s=origin_s,
            seed=scenario.seed,
            workload=scenario.workload,
            engine=ready.engine.name,
            target=ready.target,
            model=ready.facts.model,
            learned=ready.engine.learned,
            options=scenario.engine.options,
            context_tokens=ready.facts.context_tokens,
            arrivals=scenario.arrivals,
            sample_interval_s=scenario.telemetry.interval_s,
            audit=not self._simulated,
        )
        if self._simulated:
            return LocalFleet(setup, session.take_lines, session.take_samples, ready.engine)
        return ProcessFleet(setup, scenario.processes, session.take_lines, session.take_samples)

    def _run_facts(self, ready: Ready, settled: Settled, gpus: tuple[Gpu, ...]) -> RunFacts:
        return RunFacts(
            format_version=FORMAT_VERSION,
            headcount_version=version("headcount"),
            verb=self._verb,
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            seed=self._scenario.seed,
            engine=ready.facts,
            slo=tuple(clause.text for clause in parse_slo(self._scenario.slo)),
            simulated=self._simulated,
            gpus=gpus,
            client=_client_facts(self._scenario.processes),
            notes=(*ready.notes, *settled.notes),
            template_tokens=settled.template_tokens,
        )


def _within_descriptors(scenario: Scenario) -> Scenario:
    """No search goes beyond what the limit of open files allows; raises ``ScenarioError`` for fixed levels that do."""
    search, processes = scenario.search, scenario.processes
    refuse_beyond_descriptors(max(search.levels, default=1), processes)
    most = min(search.max_users, most_connections(processes))
    return msgspec.structs.replace(scenario, search=msgspec.structs.replace(search, max_users=most))


def _client_facts(processes: int) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.system(),
        "cores": os.cpu_count(),
        "processes": processes,
    }


def _stop_on_signals(session: Session, writer: RunWriter) -> None:
    """The first Ctrl-C ends the session in order; the second one ends the program, facts saved."""

    def on_signal() -> None:
        if session.interrupted:
            writer.close()
            os._exit(130)
        session.interrupt()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, on_signal)
        except NotImplementedError:  # loops on Windows take none
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal))
