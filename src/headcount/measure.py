"""A whole measurement: reach the server, show the plan, run the session, judge.

Builds the parts a scenario asks for and hands them to a ``Session``; continues a stored run the same way. Knows
nothing of arguments and of how anything is shown.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from headcount import virtual
from headcount.analysis.after_search import checks_time_s
from headcount.analysis.conclusions import LevelSummary, Limits, Verdict
from headcount.analysis.fingerprint import changes
from headcount.analysis.search import estimate_s
from headcount.demo import EmbeddedEngine
from headcount.errors import RunError, ScenarioError
from headcount.experiments.interleave import Arm, Interleaved
from headcount.load.fleet import Fleet, LocalFleet, ProcessFleet, most_connections, refuse_beyond_descriptors
from headcount.load.orders import Setup
from headcount.power.ways import hold_limits
from headcount.preflight import Ready, Settled, reach, settle_workload
from headcount.records import FORMAT_VERSION, EngineFacts, Gpu, RunFacts
from headcount.review import facts_under, limits_of, limits_under, review, scenario_of, summaries_of
from headcount.scenario import Condition, Scenario, encode_scenario, under
from headcount.session import Session, Watcher
from headcount.slo import parse_slo
from headcount.store import RunWriter, open_run
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
    if job.simulated:
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


@dataclass
class _Side:
    """One condition of a measurement, or the whole of one that has none."""

    condition: Condition | None
    scenario: Scenario
    """As it is under this condition."""
    ready: Ready
    shares_server: bool
    """Whether another condition asks the same model of the same server."""


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
        self._simulated = _all_simulated(scenario)

    @property
    def simulated(self) -> bool:
        """Whether no server is asked and no clock is waited for."""
        return self._simulated

    async def run(self) -> Outcome | None:
        if self._embedded is None:
            return await self._reach_and_measure()
        async with self._embedded as server:
            engine = msgspec.structs.replace(self._scenario.engine, url=server.url)
            self._scenario = msgspec.structs.replace(self._scenario, engine=engine)
            return await self._reach_and_measure()

    async def _reach_and_measure(self) -> Outcome | None:
        """Reach every server that is asked, each once."""
        scenario = self._scenario
        parts: list[tuple[Condition | None, Scenario]] = [(one, under(scenario, one)) for one in scenario.condition]
        parts = parts or [(None, scenario)]
        readies: dict[bytes, Ready] = {}
        keys = [msgspec.json.encode(part.engine) for _, part in parts]
        try:
            for key, (_, part) in zip(keys, parts, strict=True):
                if key not in readies:
                    readies[key] = await reach(part.engine, self._api_key, tell=self._tell)
            sides = [
                _Side(condition, part, readies[key], keys.count(key) > 1)
                for key, (condition, part) in zip(keys, parts, strict=True)
            ]
            return await self._measure(sides)
        finally:
            for ready in readies.values():
                await ready.engine.close()

    async def _measure(self, sides: list[_Side]) -> Outcome | None:
        if not self._simulated:
            self._scenario = _within_descriptors(self._scenario)
            for side in sides:
                side.scenario = _within_descriptors(side.scenario)
        ready = sides[0].ready
        time_s = sum(self._time_s(side) for side in sides)
        if not self._agree(Intent(self._scenario, ready.facts, time_s, ready.notes, self._simulated)):
            return None
        telemetry = self._scenario.telemetry
        sampler = None if self._simulated else Sampler(open_sources(telemetry.gpu_metrics, ready.facts.address))
        with ExitStack() as stack:
            limit_power = self._limited_power(sampler.gpus if sampler else (), stack)
            settled = await self._settle(sides)
            facts = self._run_facts(sides, settled, sampler.gpus if sampler else ())
            writer, facts, earlier, next_index, gone_s = self._folder(facts)
            stack.callback(writer.close)
            origin_s = clock()() - gone_s
            sessions = [self._session(side, writer, facts, earlier, next_index, origin_s) for side in sides]
            work = self._work(sides, sessions, next_index, limit_power)
            _stop_on_signals(work, writer)
            if sampler:
                stack.callback(sampler.stop)
                sampler.start(telemetry.interval_s, origin_s, work.take_samples)
            verdict = await work.measure()
        return Outcome(verdict or review(open_run(writer.path)), facts, writer.path, work.interrupted)

    def _work(
        self,
        sides: list[_Side],
        sessions: list[Session],
        next_index: int,
        limit_power: Callable[[float], None] | None,
    ) -> Session | Interleaved:
        """One session, or those of all conditions in turn."""
        if not self._scenario.condition:
            return sessions[0]
        arms = [
            Arm(condition, session, side.ready.engine, side.ready.facts)
            for condition, session, side in zip(self._scenario.condition, sessions, sides, strict=True)
        ]
        return Interleaved(arms, next_index, self._tell, limit_power)

    def _limited_power(self, gpus: tuple[Gpu, ...], stack: ExitStack) -> Callable[[float], None] | None:
        """What sets the GPUs' power limit, until ``stack`` puts it back; None where no condition has one."""
        limits_w = [one.power_limit_w for one in self._scenario.condition if one.power_limit_w is not None]
        if self._simulated or not limits_w:
            return None
        power = self._scenario.power
        return hold_limits(stack, limits_w, [gpu.uuid for gpu in gpus], power.command, by_hand=power.by_hand)

    def _limits(self, side: _Side) -> Limits:
        return limits_of(side.scenario) if side.condition is None else limits_under(self._scenario, side.condition)

    def _time_s(self, side: _Side) -> float:
        limits, expected = self._limits(side), make_workload(side.scenario.workload, side.scenario.seed).expected()
        visits = len(limits.levels) or 1
        idle_s = side.condition.idle_s * visits if side.condition is not None else 0.0
        token_s, slo = side.ready.token_s, parse_slo(side.scenario.slo)
        answer_s = None if token_s is None else expected.output_tokens * token_s + expected.stage_s
        return estimate_s(limits, expected, slo, answer_s) + checks_time_s(limits, expected) + idle_s

    async def _settle(self, sides: list[_Side]) -> Settled:
        """Every side's workload with what its server tells. People say the same words under every condition: what words
        cost the first server holds for all, where they speak the same languages to the same models."""
        first: Settled | None = None
        for side in sides:
            table, options = side.scenario.workload, side.scenario.engine
            if first is not None and _speaks_alike(table, first.table):
                table = {"tokens_per_word": first.table["tokens_per_word"], **table}
            settled = await settle_workload(side.ready, table, side.scenario.seed, options.tokenizer_file)
            side.scenario = msgspec.structs.replace(side.scenario, workload=settled.table)
            first = first or settled
        assert first is not None
        if not self._scenario.condition:
            self._scenario = sides[0].scenario
        elif "tokens_per_word" in first.table and "kind" not in self._scenario.condition[0].workload:
            costs = {"tokens_per_word": first.table["tokens_per_word"]}
            self._scenario = msgspec.structs.replace(self._scenario, workload=self._scenario.workload | costs)
        return first

    def _session(
        self,
        side: _Side,
        writer: RunWriter,
        facts: RunFacts,
        earlier: list[LevelSummary],
        next_index: int,
        origin_s: float,
    ) -> Session:
        scenario = side.scenario
        name = side.condition.name if side.condition is not None else ""
        return Session(
            engine=side.ready.engine,
            fleet_of=lambda made: self._fleet(made, side, origin_s),
            writer=writer,
            about=facts_under(facts, name),
            slo=parse_slo(scenario.slo),
            limits=self._limits(side),
            expected=make_workload(scenario.workload, scenario.seed).expected(),
            watcher=self._watcher,
            origin_s=origin_s,
            headroom=scenario.search.headroom,
            comfort=scenario.comfort,
            sample_interval_s=scenario.telemetry.interval_s,
            arrivals=scenario.arrivals,
            earlier=[level for level in earlier if level.condition == name],
            next_index=next_index,
            condition=name,
            shares_server=side.shares_server,
            active_share=scenario.search.active_share,
        )

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
        slo_under = {one.name: parse_slo(under(stored, one).slo) for one in stored.condition}
        earlier = summaries_of(run, parse_slo(run.facts.slo), finished_only=True, slo_under=slo_under)
        next_index = max((level.index for level in levels), default=-1) + 1
        return writer, run.facts, earlier, next_index, last_at_s + 1.0

    def _fleet(self, session: Session, side: _Side, origin_s: float) -> Fleet:
        scenario, ready = side.scenario, side.ready
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

    def _run_facts(self, sides: list[_Side], settled: Settled, gpus: tuple[Gpu, ...]) -> RunFacts:
        ready = sides[0].ready
        others = {one.condition.name: one.ready.facts for one in sides if one.condition and one.ready is not ready}
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
            engines=others,
        )


def _all_simulated(scenario: Scenario) -> bool:
    """Whether every condition asks the simulated engine; ``ScenarioError`` when only some do."""
    engines = [under(scenario, one).engine for one in scenario.condition] or [scenario.engine]
    simulated = [engine.kind == "simulated" and not engine.url for engine in engines]
    if any(simulated) and not all(simulated):
        raise ScenarioError(
            "some conditions are simulated and some are not", "simulated time passes in a moment: take one or the other"
        )
    return all(simulated)


def _speaks_alike(table: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether what words cost by one workload's table holds for another's."""
    if "tokens_per_word" not in other or table.get("kind") == "data":
        return False
    return all(table.get(key) == other.get(key) for key in ("languages", "models", "personas"))


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


def _stop_on_signals(session: Session | Interleaved, writer: RunWriter) -> None:
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
