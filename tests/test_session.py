"""How a session holds levels: what arrivals make of them, and what follows when its own load processes were late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headcount.analysis.conclusions import Limits, Plan
from headcount.engine.simulated import Simulated
from headcount.load.fleet import LocalFleet
from headcount.load.orders import Setup
from headcount.measure import Intent, Outcome, measure
from headcount.records import FORMAT_VERSION, EngineFacts, Level, Request, RunFacts, Sample
from headcount.scenario import make_scenario
from headcount.session import Session
from headcount.slo import parse_slo
from headcount.store import Run, RunWriter, open_run
from headcount.virtual import run
from headcount.workload import Expected
from tests.test_whole_runs import Quiet

SMALL: dict[str, Any] = {
    "slo": ["ttft_p95 <= 2 s"],
    "workload": {"kind": "short", "turns": 2},
    "engine": {"kind": "simulated", "options": {"server": "laptop"}},
}


def held(out: Path, **tables: Any) -> tuple[Outcome, Run]:
    """A whole simulated run."""
    scenario = make_scenario(SMALL | tables)
    outcome = measure(scenario, verb="run", out=out, api_key=None, watcher=Quiet(), agree=_agreed)
    assert outcome is not None
    return outcome, open_run(outcome.path)


def _agreed(intent: Intent) -> bool:
    return True


def levels_of(stored: Run) -> list[Level]:
    """As they ended."""
    return list(stored.levels())


def test_fixed_levels_are_held_for_their_time(tmp_path: Path) -> None:
    """Who asks for levels wants their figures, not the earliest decision."""
    _, stored = held(tmp_path, search={"levels": [1, 2], "level_time_s": 40})

    assert [(level.users, level.ended) for level in levels_of(stored)] == [(1, "time"), (2, "time")]
    for level in levels_of(stored):
        assert 40 <= (level.stopped_at_s or 0) - level.began_at_s < 42


def test_a_rate_is_a_level_of_the_open_loop(tmp_path: Path) -> None:
    """Conversations arrive at each rate in turn for the level's time; the people told are those expected inside."""
    arrivals = {"kind": "open", "rates_per_s": [0.5, 2.0]}
    _, stored = held(tmp_path, arrivals=arrivals, search={"level_time_s": 80})

    slow, fast = levels_of(stored)
    assert (slow.rate_per_s, fast.rate_per_s) == (0.5, 2.0)
    assert slow.users < fast.users
    assert {level.ended for level in (slow, fast)} == {"time"}
    for level, rate_per_s in ((slow, 0.5), (fast, 2.0)):
        begun = [r for r in stored.requests() if r.level == level.index and r.turn == 1]
        assert 0.6 < len(begun) / 80 / rate_per_s < 1.4
        assert min(r.scheduled_at_s for r in begun) >= level.began_at_s


def test_a_finite_test_ends_when_all_have_left(tmp_path: Path) -> None:
    """Everybody starts at once, holds so many conversations at each level, and leaves."""
    arrivals = {"kind": "finite", "conversations_each": [3, 1]}
    _, stored = held(tmp_path, arrivals=arrivals, search={"levels": [2, 4], "level_time_s": 900})

    assert [(level.users, level.ended, level.spread_s) for level in levels_of(stored)] == [
        (2, "finished", 0.0),
        (4, "finished", 0.0),
    ]
    said = [(r.level, r.person, r.conversation) for r in stored.requests() if r.turn == 1]
    assert sorted(said) == [(0, p, c) for p in range(2) for c in range(3)] + [(1, p, 0) for p in range(4)]


def test_a_trace_is_one_level(tmp_path: Path) -> None:
    """It is over when the last of its people has left."""
    file = tmp_path / "trace.jsonl"
    row = '{{"timestamp": {}, "input_length": 12, "output_length": 4}}'
    file.write_text("\n".join(row.format(at_ms) for at_ms in range(0, 60_000, 2000)))
    _, stored = held(
        tmp_path,
        workload={"kind": "trace", "file": str(file)},
        arrivals={"kind": "trace"},
        search={"level_time_s": 300},
    )

    (level,) = levels_of(stored)
    requests: list[Request] = list(stored.requests())
    assert level.ended == "finished"
    assert [round(r.scheduled_at_s - level.began_at_s) for r in requests] == list(range(0, 60, 2))


class _Late(LocalFleet):
    """Its loop is late until there are two processes, or so it says."""

    def __init__(self, session: Session, engine: Simulated, busy_fraction: float) -> None:
        setup = Setup(origin_s=0.0, seed=1, workload={"kind": "short"}, engine="simulated", audit=False)
        super().__init__(setup, session.take_lines, session.take_samples, engine)
        self._session = session
        self._busy_fraction = busy_fraction
        self.grown: list[int] = []

    async def prepare(self, level: Level) -> None:
        await super().prepare(level)
        self._index = level.index

    async def begin(self, at_s: float) -> None:
        await super().begin(at_s)
        loop = asyncio.get_running_loop()
        lag_s = 0.001 if self.grown else 0.5
        for tick in range(58):
            seen = {"client_loop_lag_s": lag_s, "client_cpu_fraction": self._busy_fraction}
            samples = [Sample(at_s + tick, name, value, "process-0") for name, value in seen.items()]
            loop.call_later(tick, self._session.take_samples, samples)

    async def grow(self) -> bool:
        self.grown.append(self._index)
        return True


@pytest.mark.parametrize(("busy_fraction", "grown"), [(0.95, [0]), (0.2, [])], ids=["busy", "disturbed"])
def test_a_late_client_gets_one_more_load_process(tmp_path: Path, busy_fraction: float, grown: list[int]) -> None:
    """After a level whose load process was late because it was full; where others kept it, it would not help."""
    fleets: list[_Late] = []

    async def main() -> None:
        engine = Simulated(server="laptop")

        def fleet_of(session: Session) -> _Late:
            fleets.append(_Late(session, engine, busy_fraction))
            return fleets[0]

        facts = RunFacts(FORMAT_VERSION, "0", "run", "2026-01-01T00:00:00+00:00", 1, EngineFacts("simulated"), ())
        writer = RunWriter.create(tmp_path, "late", facts, "")
        session = Session(
            engine=engine,
            fleet_of=fleet_of,
            writer=writer,
            about=facts,
            slo=parse_slo(["ttft_p95 <= 2 s"]),
            limits=Limits(levels=(1, 2), level_time_s=60),
            expected=Expected(turns=3.0, think_s=1.0, prompt_tokens=30.0, output_tokens=20.0),
            watcher=Quiet(),
            origin_s=0.0,
        )
        await session.measure()
        writer.close()

    run(main())

    assert fleets[0].grown[:1] == grown


def test_a_level_that_is_interrupted_before_it_began_is_no_damage(tmp_path: Path) -> None:
    """Somebody stops while everybody gets ready: the level ends at its beginning, and the run can be read."""
    sessions: list[Session] = []

    class Stopping(Quiet):
        def level_began(self, level: Level, plan: Plan) -> None:
            sessions[0].interrupt()

    async def main() -> None:
        engine = Simulated(server="laptop")
        setup = Setup(origin_s=0.0, seed=1, workload={"kind": "short"}, engine="simulated", audit=False)
        facts = RunFacts(FORMAT_VERSION, "0", "run", "2026-01-01T00:00:00+00:00", 1, EngineFacts("simulated"), ())
        writer = RunWriter.create(tmp_path, "stopped", facts, "")
        session = Session(
            engine=engine,
            fleet_of=lambda made: LocalFleet(setup, made.take_lines, made.take_samples, engine),
            writer=writer,
            about=facts,
            slo=parse_slo(["ttft_p95 <= 2 s"]),
            limits=Limits(levels=(1, 2), level_time_s=60),
            expected=Expected(turns=3.0, think_s=1.0, prompt_tokens=30.0, output_tokens=20.0),
            watcher=Stopping(),
            origin_s=0.0,
        )
        sessions.append(session)
        await session.measure()
        writer.close()

    run(main())

    (folder,) = tmp_path.iterdir()
    stored = open_run(folder)
    (level,) = stored.levels()
    assert level.ended == "interrupted"
    assert level.stopped_at_s == level.began_at_s
    assert not stored.damage_sentence()
