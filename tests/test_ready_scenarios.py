"""Every ready scenario, measured from end to end on a simulated server under the virtual clock."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headcount.measure import Intent, Outcome, measure
from headcount.records import Request
from headcount.report import Report
from headcount.report.html import write
from headcount.review import review
from headcount.scenario import EngineOptions, Scenario, SearchOptions, load_scenario
from headcount.store import open_run
from tests.test_whole_runs import Quiet

FILES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "scenarios").glob("*.toml"))}
SERVER = {"server": "workstation", "adapters": ["sql", "law", "poems"], "context_tokens": 32_768}


def shortened(name: str) -> Scenario:
    """A ready scenario on a simulated server; searches become two small levels, levels a minute and a half."""
    scenario = load_scenario(FILES[name])
    levels = scenario.search.levels[:3] or (4, 12)
    return msgspec.structs.replace(
        scenario,
        engine=EngineOptions(kind="simulated", options=SERVER),
        search=SearchOptions(levels=levels, level_time_s=90.0),
    )


@pytest.fixture(scope="module", params=FILES)
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, Outcome]:
    """Each of them, measured."""
    scenario = shortened(request.param)
    outcome = measure(
        scenario, verb="run", out=tmp_path_factory.mktemp("runs"), api_key=None, watcher=Quiet(), agree=agreed
    )
    assert outcome is not None
    return scenario, outcome


def agreed(intent: Intent) -> bool:
    """Yes to everything."""
    return intent.simulated


def requests_of(outcome: Outcome) -> list[Request]:
    """All facts of a run."""
    return list(open_run(outcome.path).requests())


def test_people_are_served_and_judged(measured: tuple[Scenario, Outcome]) -> None:
    """Requests were answered at every level, the report opens, and stored facts give the same verdict."""
    scenario, outcome = measured
    requests = requests_of(outcome)

    assert {request.level for request in requests} == set(range(len(outcome.verdict.levels)))
    assert sum(request.error is None for request in requests) > 5
    assert {request.error for request in requests} <= {None, "cut"}
    run = open_run(outcome.path)
    assert review(run) == outcome.verdict
    assert scenario.name in write(Report(verdict=outcome.verdict, facts=run.facts, run=run))


def test_prompts_cost_what_was_planned(measured: tuple[Scenario, Outcome]) -> None:
    """First turns of all personas and languages: within 5 % of the plan, by the server's own counts."""
    _, outcome = measured
    first = [r for r in requests_of(outcome) if r.turn == 1 and r.error is None]
    planned = sum(r.planned_prompt_tokens or 0 for r in first)
    counted = sum((r.prompt_tokens or 0) - (outcome.facts.template_tokens or 0) for r in first)

    assert all(r.planned_prompt_tokens for r in first)
    assert counted / planned == pytest.approx(1.0, abs=0.05)
    assert not [caution for caution in outcome.verdict.cautions if caution.code == "prompts-not-as-planned"]


def test_people_stay_who_they_are(measured: tuple[Scenario, Outcome]) -> None:
    """Of one person all requests of a level have one persona, one model, one adapter and one style."""
    _, outcome = measured
    seen: dict[tuple[int, int], set[tuple[object, ...]]] = {}
    for request in requests_of(outcome):
        who = (request.persona, request.model, request.adapter, request.streamed)
        seen.setdefault((request.level, request.person), set()).add(who)

    assert all(len(who) == 1 for who in seen.values())
