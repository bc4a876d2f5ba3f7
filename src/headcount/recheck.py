"""``headcount recheck``: a stored run held against the server as it is now, on the few levels that tell.

Knows nothing of arguments and of how anything is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import Verdict
from headcount.analysis.fingerprint import changes
from headcount.analysis.recheck import FailOn, Recheck, judge_recheck, recheck_levels, recheck_time_s
from headcount.errors import ScenarioError
from headcount.measure import Intent, Outcome, measure
from headcount.records import RunFacts
from headcount.review import review, scenario_of
from headcount.scenario import Scenario
from headcount.session import Watcher
from headcount.store import Run, open_run

__all__ = ["Rechecked", "changes_of", "recheck", "rechecking_scenario"]


class Rechecked(msgspec.Struct, frozen=True):
    """What was found, and the run it was found by."""

    result: Recheck
    baseline: RunFacts
    outcome: Outcome


def recheck(
    run: Run,
    *,
    url: str | None,
    model: str | None = None,
    out: Path,
    api_key: str | None,
    watcher: Watcher,
    agree: Callable[[Intent], bool],
    fail_on: Sequence[FailOn] = (),
    tell: Callable[[str], None] | None = None,
) -> Rechecked | None:
    """Measure again what ``run`` found; None when ``agree`` said no. ``url`` and ``model`` stand in place of the
    baseline's.

    Raises ``ScenarioError`` for a run without a limit, and whatever measuring raises.
    """
    baseline = review(run)
    scenario = rechecking_scenario(run, baseline, url, fail_on)
    scenario = msgspec.structs.replace(
        scenario, engine=msgspec.structs.replace(scenario.engine, model=model or scenario.engine.model)
    )
    outcome = measure(scenario, verb="recheck", out=out, api_key=api_key, watcher=watcher, agree=agree, tell=tell)
    if outcome is None:
        return None
    now = review(open_run(outcome.path))
    result = judge_recheck(baseline, now, changes(run.facts, outcome.facts), fail_on)
    return Rechecked(result, run.facts, outcome)


def rechecking_scenario(run: Run, baseline: Verdict, url: str | None, fail_on: Sequence[FailOn]) -> Scenario:
    """The baseline's own scenario with the few levels: the same people say the same, since the seed is the same."""
    if run.facts.verb == "import":
        raise ScenarioError("an imported run cannot be measured again", "take a run that headcount measured")
    scenario = scenario_of(run)
    levels = recheck_levels(baseline, fail_on)
    level_time_s = recheck_time_s(baseline)
    search = msgspec.structs.replace(
        scenario.search, levels=levels, level_time_s=level_time_s, max_time_s=level_time_s * (len(levels) + 1)
    )
    engine = scenario.engine
    if engine.kind != "simulated":
        engine = msgspec.structs.replace(engine, url=url or engine.url or run.facts.engine.address)
    return msgspec.structs.replace(scenario, name="recheck", slo=run.facts.slo, search=search, engine=engine)


def changes_of(baseline: RunFacts, intent: Intent) -> list[str]:
    """What is different before anything is measured, as far as the server tells."""
    return changes(baseline, msgspec.structs.replace(baseline, engine=intent.facts))
