"""From a run folder to its verdict: facts are read level by level, summarised and judged.

The one road from stored facts to conclusions, for reports, comparisons and continued runs. Knows nothing of
servers and clocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary, Limits, Verdict
from headcount.analysis.figures import imported_caution, judge_figures
from headcount.analysis.rehearsal import next_check, without_checks
from headcount.analysis.search import next_level
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.errors import RunError, ScenarioError
from headcount.records import EngineFacts, Level, Sample
from headcount.scenario import Scenario, parse_scenario
from headcount.slo import Clause, parse_slo
from headcount.store import Run
from headcount.workload.arrivals import Open, Replayed

__all__ = ["conditions_of", "limits_of", "nothing_left", "review", "scenario_of", "summaries_of"]

_decode_figures = msgspec.json.Decoder(LevelSummary).decode


def scenario_of(run: Run) -> Scenario:
    """The scenario as it was given."""
    try:
        return parse_scenario(run.scenario_text, f"{run.path}/scenario.toml")
    except ScenarioError as error:
        raise RunError(
            error.message, "the run's scenario is damaged; its facts are not: see the other files"
        ) from error


def limits_of(scenario: Scenario) -> Limits:
    """What a search by this scenario may spend."""
    search = scenario.search
    return Limits(
        max_users=search.max_users,
        max_time_s=search.max_time_s,
        level_time_s=search.level_time_s,
        resolution=search.resolution,
        confirmations=search.confirmations,
        levels=search.levels,
        burst=search.burst,
        soak_s=search.soak_s,
    )


def summaries_of(run: Run, slo: tuple[Clause, ...], *, finished_only: bool = False) -> list[LevelSummary]:
    """Every level of a run, summarised. Of a killed run the last level ends with its last fact.

    ``finished_only`` leaves out levels that were interrupted or lost, which a continued search repeats.
    """
    levels = [level for level in run.levels() if not finished_only or level.ended not in ("", "interrupted", "error")]
    wanted = {level.index for level in levels}
    tables = {index: RequestTable(slo) for index in wanted}
    last_at_s: dict[int, float] = {}
    for request in run.requests():
        if request.level in wanted:
            tables[request.level].add(request)
            last_at_s[request.level] = max(last_at_s.get(request.level, 0.0), request.ended_at_s)
    samples = _samples_by_level(run, levels)
    return [
        summarize(
            level,
            tables[level.index],
            samples[level.index],
            slo,
            ended_at_s=level.stopped_at_s if level.stopped_at_s is not None else last_at_s.get(level.index),
            about=run.facts,
        )
        for level in levels
    ]


def nothing_left(summaries: Sequence[LevelSummary], scenario: Scenario) -> bool:
    """Whether a search with its checks, or fixed levels, by this scenario had come to their end. Arrivals at a rate and
    conditions go their own way and are asked for anew."""
    if isinstance(scenario.arrivals, Open | Replayed) or any(level.condition for level in summaries):
        return False
    limits, searched = limits_of(scenario), without_checks(summaries)
    if not searched or next_level(searched, limits) is not None:
        return False
    recommended = _judged(searched, scenario, parse_slo(scenario.slo)).recommended_users
    return next_check(summaries, recommended, limits) is None


def _samples_by_level(run: Run, levels: list[Level]) -> dict[int, list[Sample]]:
    """Samples go to the level during which they were taken."""
    found: dict[int, list[Sample]] = defaultdict(list)
    for sample in run.samples():
        for level in levels:
            until_s = level.drained_at_s or level.stopped_at_s
            if level.began_at_s <= sample.at_s and (until_s is None or sample.at_s <= until_s):
                found[level.index].append(sample)
    return found


def review(run: Run, condition: str | None = None) -> Verdict:
    """Judge a stored run by its own scenario and service level; with ``condition``, only what was held under it, as if
    it were a run of its own. Of an imported run of which only figures are known, those are judged."""
    scenario = scenario_of(run)
    slo = parse_slo(run.facts.slo)
    figures = run.figures(_decode_figures)
    levels = _under(figures or summaries_of(run, slo), condition)
    if figures:
        verdict = judge_figures(levels, slo, scenario.comfort)
    else:
        verdict = _judged(levels, scenario, slo, run.facts.engine)
    if run.facts.verb != "import":
        return verdict
    caution = imported_caution(str(run.facts.client.get("tool", "another tool")))
    return msgspec.structs.replace(verdict, cautions=(caution, *verdict.cautions))


def _judged(
    levels: Sequence[LevelSummary], scenario: Scenario, slo: tuple[Clause, ...], engine: EngineFacts | None = None
) -> Verdict:
    search = scenario.search
    return judge(
        levels,
        limits_of(scenario),
        slo,
        headroom=search.headroom,
        comfort=scenario.comfort,
        engine=engine,
        active_share=search.active_share,
    )


def _under(levels: list[LevelSummary], condition: str | None) -> list[LevelSummary]:
    if condition is None:
        return levels
    return [msgspec.structs.replace(one, condition="") for one in levels if one.condition == condition]


def conditions_of(run: Run) -> list[str]:
    """In the order in which they were first held."""
    return list(dict.fromkeys(level.condition for level in run.levels()))
