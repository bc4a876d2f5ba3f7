"""From a run folder to its verdict: facts are read level by level, summarised and judged.

The one road from stored facts to conclusions, for reports, comparisons and continued runs. Knows nothing of
servers and clocks.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from headcount.analysis.after_search import next_check, without_checks
from headcount.analysis.conclusions import Caution, ConditionResult, LevelSummary, Limits, Verdict
from headcount.analysis.damage import damage_caution
from headcount.analysis.findings import PARTS, find
from headcount.analysis.findings.evidence import Evidence
from headcount.analysis.imported import imported_caution, judge_figures
from headcount.analysis.paired import answers_by_words
from headcount.analysis.search import next_level
from headcount.analysis.summary import summarize
from headcount.analysis.table import RequestTable
from headcount.analysis.verdict import judge
from headcount.errors import RunError, ScenarioError
from headcount.records import EngineFacts, Level, Request, RunFacts, Sample
from headcount.scenario import Condition, Scenario, parse_scenario, under
from headcount.slo import Clause, parse_slo
from headcount.store import Run
from headcount.workload.arrivals import Open, Replayed

__all__ = [
    "asked_of",
    "conditions_of",
    "facts_under",
    "limits_of",
    "limits_under",
    "nothing_left",
    "review",
    "scenario_of",
    "summaries_of",
]

_Slo = tuple[Clause, ...]

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


def limits_under(scenario: Scenario, condition: Condition) -> Limits:
    """What one condition may spend of it: its share of the time, each level several times, and no checks after."""
    limits = limits_of(under(scenario, condition))
    levels = tuple(users for users in limits.levels for _ in range(scenario.search.visits))
    time_s = limits.max_time_s / len(scenario.condition)
    return msgspec.structs.replace(limits, levels=levels, max_time_s=time_s, burst=False, soak_s=0.0)


def facts_under(facts: RunFacts, condition: str) -> RunFacts:
    """What was measured under a condition: its own server or model in place of the first one's."""
    engine = facts.engines.get(condition)
    return facts if engine is None else msgspec.structs.replace(facts, engine=engine, template_tokens=None)


def summaries_of(
    run: Run,
    slo: _Slo,
    *,
    finished_only: bool = False,
    slo_under: Mapping[str, _Slo] | None = None,
    of: Callable[[Request], bool] | None = None,
) -> list[LevelSummary]:
    """Every level of a run, summarised. Of a killed run the last level ends with its last fact.

    ``finished_only`` leaves out levels that were interrupted or lost, which a continued search repeats; ``slo_under``
    gives service levels of conditions of their own; ``of`` chooses among the requests.
    """
    levels = [level for level in run.levels() if not finished_only or level.ended not in ("", "interrupted", "error")]
    samples = _samples_by_level(run, levels)
    wanted = {level.index: level for level in levels}
    found: dict[int, LevelSummary] = {}
    scattered: set[int] = set()

    def take(index: int, requests: Iterable[Request]) -> None:
        level = wanted[index]
        judged_by = (slo_under or {}).get(level.condition, slo)
        about = facts_under(run.facts, level.condition)
        found[index] = _summary(level, filter(of, requests) if of else requests, samples[index], judged_by, about)

    # One level after another, as they lie in the files: no more than one is in memory.
    for index, requests in itertools.groupby(run.requests(), operator.attrgetter("level")):
        if index in found:
            scattered.add(index)
        elif index in wanted:
            take(index, requests)
    for index in scattered:
        take(index, run.requests(index))
    for index in wanted.keys() - found.keys():
        take(index, ())
    return [found[level.index] for level in levels]


def _summary(
    level: Level, requests: Iterable[Request], samples: list[Sample], slo: _Slo, about: RunFacts
) -> LevelSummary:
    """One level, of a killed run until its last fact."""
    table = RequestTable(slo)
    last_at_s: float | None = None
    for request in requests:
        table.add(request)
        last_at_s = request.ended_at_s if last_at_s is None else max(last_at_s, request.ended_at_s)
    until_s = last_at_s if level.stopped_at_s is None else level.stopped_at_s
    return summarize(level, table, samples, slo, ended_at_s=until_s, about=about)


def asked_of(scenario: Scenario) -> str:
    """What people do by a scenario, on one line that is alike for runs which asked the same; what only the server told
    of it (its tokens) is left out."""
    workload = _as_written(scenario.workload)
    said = str(workload.pop("kind", "chat"))
    arrivals = msgspec.to_builtins(scenario.arrivals)
    options = workload | ({"arrivals": arrivals} if arrivals["kind"] != "closed" else {})
    return f"{said} {msgspec.json.encode(options, order='sorted').decode()}" if options else said


def _as_written(table: Mapping[str, object]) -> dict[str, object]:
    return {
        key: _as_written(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if key != "tokens_per_word"
    }


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
    it were a run of its own. Of an imported run of which only figures are known, those are judged. Facts that could not
    be read are a caution."""
    verdict = _reviewed(run, condition)
    if not run.damaged_places:
        return verdict
    return msgspec.structs.replace(verdict, cautions=(damage_caution(run.damaged_places), *verdict.cautions))


def _reviewed(run: Run, condition: str | None) -> Verdict:
    scenario = scenario_of(run)
    if scenario.condition:
        return _review_conditions(run, scenario, condition)
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


def _review_conditions(run: Run, scenario: Scenario, condition: str | None) -> Verdict:
    """The verdict of one condition, or what all of them show side by side."""
    slo_under = {one.name: parse_slo(under(scenario, one).slo) for one in scenario.condition}
    levels = summaries_of(run, parse_slo(run.facts.slo), slo_under=slo_under)
    verdicts = {
        one.name: judge(
            _under(levels, one.name),
            limits_under(scenario, one),
            slo_under[one.name],
            headroom=scenario.search.headroom,
            comfort=scenario.comfort,
            engine=facts_under(run.facts, one.name).engine,
        )
        for one in scenario.condition
    }
    if condition is not None:
        if condition not in verdicts:
            raise RunError(f"{run.path} has no condition {condition!r}", f"it has: {', '.join(verdicts)}")
        return verdicts[condition]
    evidence = Evidence(
        results=tuple(_result(run.facts, name, verdict, scenario) for name, verdict in verdicts.items()),
        levels=tuple(_felt(levels, verdicts)),
        engine=run.facts.engine,
        comfort=scenario.comfort,
        parts=_parts(run, scenario, levels, slo_under),
        spoken=answers_by_words(run.requests(), run.levels(), levels),
        power_limits_w={one.name: one.power_limit_w for one in scenario.condition if one.power_limit_w is not None},
        loss_allowed_fraction=scenario.power.loss_allowed_fraction,
    )
    return _side_by_side(scenario, evidence, verdicts)


def _side_by_side(scenario: Scenario, evidence: Evidence, verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict over all conditions, which has no limit of its own."""
    found = find(scenario.experiment, evidence)
    everywhere = {
        caution: None for verdict in verdicts.values() for caution in verdict.cautions if _is_general(caution)
    }
    trusted = all(any(level.decision != "void" for level in verdict.levels) for verdict in verdicts.values())
    return Verdict(
        limit_users=None,
        at_least=False,
        limit_interval_users=None,
        recommended_users=None,
        fails_at_users=None,
        confirmations=0,
        cause="not-seen",
        cause_sentence="",
        advice=found.advice,
        cautions=(*(caution for level in evidence.levels for caution in level.cautions), *everywhere),
        trusted=trusted and bool(evidence.levels),
        complete=all(verdict.complete for verdict in verdicts.values()),
        sentence=found.sentence,
        conditions=evidence.results,
        findings=found.lines,
        levels=evidence.levels,
    )


def _is_general(caution: Caution) -> bool:
    """Whether it concerns the run, not the limit of one condition."""
    return caution.level is None and caution.code in ("not-finished", "metrics-not-visible")


def _felt(levels: Sequence[LevelSummary], verdicts: Mapping[str, Verdict]) -> list[LevelSummary]:
    """All levels in the order in which they were held, with how they feel."""
    comfort = {level.index: level.comfort for verdict in verdicts.values() for level in verdict.levels}
    return [msgspec.structs.replace(level, comfort=comfort.get(level.index, "")) for level in levels]


def _result(facts: RunFacts, name: str, verdict: Verdict, scenario: Scenario) -> ConditionResult:
    condition = next(one for one in scenario.condition if one.name == name)
    same = ("limit_users", "at_least", "limit_interval_users", "recommended_users", "confirmations", "cause")
    return ConditionResult(
        name=name,
        model=facts_under(facts, name).engine.model,
        cause_sentence=verdict.cause_sentence,
        searched=not limits_under(scenario, condition).levels,
        **{field: getattr(verdict, field) for field in same},
    )


def _parts(
    run: Run, scenario: Scenario, levels: Sequence[LevelSummary], slo_under: Mapping[str, _Slo]
) -> dict[str, tuple[LevelSummary, ...]]:
    """The levels with the requests of each adapter, or of each persona, alone, where an experiment asks for that. What
    voids a level, the whole level shows."""
    field = PARTS.get(scenario.experiment)
    if field is None:
        return {}
    names = sorted({getattr(request, field) or "" for request in run.requests()})
    decisions = {level.index: level.decision for level in levels}
    return {
        name: tuple(
            msgspec.structs.replace(level, decision=decisions[level.index], cautions=())
            for level in summaries_of(
                run,
                parse_slo(run.facts.slo),
                slo_under=slo_under,
                of=lambda request, name=name: (getattr(request, field) or "") == name,  # type: ignore[misc]
            )
        )
        for name in names
    }


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
