"""Whole virtual runs: a healthy server draws no fatal caution, each kind of sick one draws its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.analysis.conclusions import LevelSummary, Plan
from headcount.measure import Intent, Outcome, measure
from headcount.records import Level
from headcount.scenario import make_scenario


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


def test_a_buffering_proxy_voids_its_levels(tmp_path: Path) -> None:
    """The time to the first token is not the server's: no answer."""
    outcome = run(tmp_path, levels=(2,), buffered=True)

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


def test_a_capped_proxy_is_seen(tmp_path: Path) -> None:
    """Two at once where four would fit; the server's own queue stays empty."""
    outcome = run(tmp_path, levels=(12,), proxy_limit=2)

    assert "capped-before-gpu" in codes(outcome)
    assert outcome.verdict.cause == "proxy"


def test_a_drifting_server_is_seen(tmp_path: Path) -> None:
    """Half as slow again every minute, under one load."""
    outcome = run(tmp_path, levels=(6,), level_time_s=400.0, drift_per_hour=30.0)

    assert "drift" in codes(outcome)


def test_errors_inside_streams_are_counted_and_quoted(tmp_path: Path) -> None:
    """A tenth of the answers ends with an error object: the level fails, however fast they were."""
    outcome = run(tmp_path, levels=(2,), error_share=0.1, error_kind="server_error")
    level = outcome.verdict.levels[0]

    assert "errors" in codes(outcome)
    assert level.decision == "fails"
    assert level.error_kinds.keys() == {"server_error"}


def test_bursts_of_errors_are_found(tmp_path: Path) -> None:
    """For five seconds of every thirty everything is refused."""
    outcome = run(tmp_path, levels=(2,), error_share=1.0, error_every_s=30.0, error_for_s=5.0)

    assert "errors" in codes(outcome)
    assert outcome.verdict.levels[0].decision == "fails"
