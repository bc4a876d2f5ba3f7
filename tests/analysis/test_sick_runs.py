"""Whole virtual runs: a healthy server draws no fatal caution, each kind of sick one draws its own, whatever the seed.

``benchmarks/sick_runs.py`` does the same with real servers, proxies and busy cores on loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headcount.analysis.conclusions import LevelSummary, Limits, Plan, Verdict
from headcount.engine.simulated import Simulated
from headcount.load.fleet import LocalFleet
from headcount.load.orders import Setup
from headcount.measure import Intent, Outcome, measure
from headcount.records import FORMAT_VERSION, Gpu, Level, RunFacts, Sample
from headcount.scenario import make_scenario
from headcount.session import Session
from headcount.slo import parse_slo
from headcount.store import RunWriter
from headcount.virtual import clock
from headcount.virtual import run as on_virtual_clock
from headcount.workload import make_workload

SEEDS = (1, 2, 3)
HOT_AFTER_S = 120.0


class Silent:
    """Watches and says nothing."""

    def level_began(self, level: Level, plan: Plan) -> None:
        """A level begins."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """About once a second."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """A level has ended."""


def agreed(intent: Intent) -> bool:
    """Go ahead."""
    return intent.simulated


SHORT: dict[str, object] = {"kind": "short"}


def run(
    out: Path,
    seed: int = 1,
    levels: tuple[int, ...] = (),
    level_time_s: float = 120.0,
    workload: dict[str, object] = SHORT,
    **options: object,
) -> Outcome:
    """Short answers on a simulated machine with four slots."""
    scenario = make_scenario(
        {
            "name": "sick",
            "seed": seed,
            "slo": ["ttft_p95 <= 2 s", "tpot_p95 <= 0.2 s"],
            "workload": workload,
            "engine": {"kind": "simulated", "options": {"server": "laptop", **options}},
            "search": {"max_users": 64, "max_time_s": 1200, "level_time_s": level_time_s, "levels": list(levels)},
        }
    )
    outcome = measure(scenario, verb="find", out=out, api_key=None, watcher=Silent(), agree=agreed)
    assert outcome is not None
    return outcome


def codes(outcome: Outcome) -> set[str]:
    """The cautions of all levels."""
    return {caution.code for level in outcome.verdict.levels for caution in level.cautions}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_healthy_search_is_trusted(tmp_path: Path, seed: int) -> None:
    """A limit with its interval, confirmed, and nothing fatal."""
    outcome = run(tmp_path, seed)
    verdict = outcome.verdict

    assert verdict.trusted
    assert not [caution for level in verdict.levels for caution in level.cautions if caution.fatal]
    assert verdict.limit_users
    assert verdict.limit_interval_users is not None
    assert verdict.confirmations >= 3
    assert verdict.cause == "slots"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_buffering_proxy_voids_its_levels(tmp_path: Path, seed: int) -> None:
    """The time to the first token is not the server's: no answer."""
    outcome = run(tmp_path, seed, levels=(2,), level_time_s=40.0, buffered=True)

    assert "buffered-stream" in codes(outcome)
    assert not outcome.verdict.trusted


def test_long_prompts_with_short_answers_are_no_buffering_proxy(tmp_path: Path) -> None:
    """Nearly all of the wait is for the first token, and yet the others come at their pace."""
    workload = {"kind": "chat", "turns": 1, "prompt_tokens": 2000, "output_tokens": 4}
    outcome = run(tmp_path, levels=(1,), workload=workload)
    (level,) = outcome.verdict.levels

    assert level.ttft_s.p50 is not None
    assert level.e2e_s.p50 is not None
    assert level.ttft_s.p50 > 0.95 * level.e2e_s.p50
    assert "buffered-stream" not in codes(outcome)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_capped_proxy_is_seen(tmp_path: Path, seed: int) -> None:
    """Two at once where four would fit; the server's own queue stays empty."""
    outcome = run(tmp_path, seed, levels=(12,), level_time_s=40.0, proxy_limit=2)

    assert "capped-before-gpu" in codes(outcome)
    assert outcome.verdict.cause == "proxy"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drifting_server_is_seen(tmp_path: Path, seed: int) -> None:
    """Half as slow again every minute, under one load."""
    outcome = run(tmp_path, seed, levels=(6,), level_time_s=240.0, drift_per_hour=30.0)

    assert "drift" in codes(outcome)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leaking_server_is_seen(tmp_path: Path, seed: int) -> None:
    """Each answer makes all further ones a little slower."""
    outcome = run(tmp_path, seed, levels=(6,), level_time_s=240.0, leak_per_request=0.004)

    assert "drift" in codes(outcome)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_inside_streams_are_counted_and_quoted(tmp_path: Path, seed: int) -> None:
    """A tenth of the answers ends with an error object: the level fails, however fast they were."""
    outcome = run(tmp_path, seed, levels=(2,), error_share=0.1, error_kind="server_error")
    level = outcome.verdict.levels[0]

    assert "errors" in codes(outcome)
    assert level.decision == "fails"
    assert level.error_kinds.keys() == {"server_error"}


@pytest.mark.parametrize("seed", SEEDS)
def test_bursts_of_errors_are_found(tmp_path: Path, seed: int) -> None:
    """For five seconds of every thirty everything is refused."""
    outcome = run(tmp_path, seed, levels=(2,), error_share=1.0, error_every_s=30.0, error_for_s=5.0)

    assert "errors" in codes(outcome)
    assert outcome.verdict.levels[0].decision == "fails"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_busy_client_voids_its_levels(tmp_path: Path, seed: int) -> None:
    """Now and then its loop is late by more than the service level can bear: no answer."""

    def late(at_s: float, chance: Random) -> list[Sample]:
        lag_s = 0.4 + 0.2 * chance.random() if chance.random() < 0.05 else 0.002
        return [Sample(at_s, "client_loop_lag_s", lag_s, "process-0")]

    verdict = watched(tmp_path, seed, late, Limits(levels=(4,), level_time_s=60.0))

    assert "client-lag" in {caution.code for caution in verdict.cautions}
    assert not verdict.trusted


@pytest.mark.parametrize("seed", SEEDS)
def test_a_throttled_gpu_is_named_and_lowers_the_answer(tmp_path: Path, seed: int) -> None:
    """From some minute on heat holds its clock down: what the soak leaves is recommended, and heat is the cause."""

    def warming(at_s: float, chance: Random) -> list[Sample]:
        hot = at_s >= HOT_AFTER_S
        figures = {
            "gpu_temperature_c": min(84.0, 40.0 + at_s / 4.0) + chance.random(),
            "gpu_sm_clock_hz": (6e8 if hot else 1.5e9) * (1.0 + 0.005 * chance.random()),
            "gpu_utilization_fraction": 0.95,
        }
        samples = [Sample(at_s, name, value, "GPU-1") for name, value in figures.items()]
        of = "GPU-1:sw_thermal_slowdown" if hot else "GPU-1"
        return [*samples, Sample(at_s, "gpu_throttled", float(hot), of)]

    limits = Limits(levels=(6,), level_time_s=40.0, soak_s=240.0)
    verdict = watched(tmp_path, seed, warming, limits, throttle_after_s=HOT_AFTER_S, throttle_factor=2.5)

    assert not verdict.soak[0].kept
    assert verdict.recommended_users is not None
    assert verdict.recommended_users < 4
    assert verdict.cause == "heat-or-power"
    assert "throttled by heat" in verdict.soak_sentence
    assert any(change.startswith("clock 150") for change in verdict.soak_changes)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_server_passes_its_soak(tmp_path: Path, seed: int) -> None:
    """Nothing changes, nothing is lowered."""
    verdict = watched(tmp_path, seed, lambda _at_s, _chance: [], Limits(levels=(6,), level_time_s=40.0, soak_s=180.0))

    assert [step.kept for step in verdict.soak] == [True]
    assert verdict.recommended_users == 4
    assert verdict.soak_sentence == "4 people stayed within the service level for 3 min."


def watched(
    out: Path, seed: int, told: Callable[[float, Random], list[Sample]], limits: Limits, **options: Any
) -> Verdict:
    """The same machine, with samples that are made up once a second: of a client, or of a GPU."""

    async def main() -> Verdict:
        engine = Simulated(server="laptop", seed=seed, **options)
        gpus = (Gpu("GPU-1", "Invented", temperature_slowdown_c=85.0),)
        facts = RunFacts(
            FORMAT_VERSION, "0", "run", "2026-01-01T00:00:00+00:00", seed, await engine.facts(), (), gpus=gpus
        )
        writer = RunWriter.create(out, "watched", facts, "")
        setup = Setup(origin_s=0.0, seed=seed, workload=dict(SHORT), engine="simulated", audit=False)
        session = Session(
            engine=engine,
            fleet_of=lambda made: LocalFleet(setup, made.take_lines, made.take_samples, engine),
            writer=writer,
            about=facts,
            slo=parse_slo(["ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s"]),
            limits=limits,
            expected=make_workload(SHORT, seed).expected(),
            watcher=Silent(),
            origin_s=0.0,
        )
        chance = Random(seed)

        async def tell() -> None:
            while True:
                await asyncio.sleep(1.0)
                session.take_samples(told(clock()(), chance))

        telling = asyncio.ensure_future(tell())
        try:
            return await session.measure()
        finally:
            telling.cancel()
            writer.close()

    return on_virtual_clock(main())
