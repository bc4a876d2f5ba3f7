"""Ready experiments held on simulated servers, shorter than for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headcount.analysis.conclusions import Verdict
from headcount.experiments import ready_table
from headcount.measure import Intent, measure
from headcount.scenario import make_scenario
from headcount.store import Run, open_run
from tests.test_whole_runs import Quiet


def held(out: Path, table: dict[str, Any], *, seed: int = 1, **options: object) -> tuple[Verdict, Run]:
    """A scenario's table on the simulated engine with these options; what it shows, and the stored run."""
    engine = {"kind": "simulated", "options": {"seed": seed, **options}}
    scenario = make_scenario({**table, "seed": seed, "engine": engine | table.get("engine", {})})
    outcome = measure(scenario, verb="experiment", out=out, api_key=None, watcher=Quiet(), agree=agreed)
    assert outcome is not None
    return outcome.verdict, open_run(outcome.path)


def shorter(name: str, *levels: int, **search: Any) -> dict[str, Any]:
    """A ready experiment with other numbers of people and less time."""
    table = ready_table(name)
    table["search"] = {**table["search"], **({"levels": list(levels)} if levels else {}), **search}
    return table


def agreed(intent: Intent) -> bool:
    """Yes, as long as nothing real is measured."""
    return intent.simulated
