"""The same words under two conditions: each answer against the one to the same question of the same person.

What differs between questions then drops out, so that a difference shows in far fewer answers. Requests in, ratios out.
Knows nothing of files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from headcount.analysis.compare import COMPARED, Comparison, Ratio, pool, ratio_at
from headcount.analysis.conclusions import LevelSummary
from headcount.metrics import e2e_s, tpot_s, ttft_s
from headcount.records import Level, Request

__all__ = ["Question", "Said", "answers_by_words", "with_pairs"]

Question = tuple[str, str, int, int, int]
"""Words of the level, persona, which of its people, conversation, turn."""
LEAST_PAIRS = 20
"""Fewer answers to the same questions say less than all answers do."""
PAIRED = {"e2e_p50_s": 0, "ttft_p50_s": 1, "tpot_p50_s": 2}
"""Measures of the typical answer, and where they stand in ``Said``; a tail is no matter of pairs."""


class Said(msgspec.Struct, frozen=True):
    """One answer within its level's steady window."""

    level: int
    values_s: tuple[float | None, float | None, float | None]
    """E2E, TTFT and TPOT."""


def answers_by_words(
    requests: Iterable[Request], levels: Sequence[Level], summaries: Sequence[LevelSummary]
) -> dict[str, dict[Question, Said]]:
    """Good answers of each condition by the question they answer."""
    about = {level.index: level for level in levels}
    steady_at_s = {one.index: one.steady_at_s for one in summaries if one.decision != "void"}
    people: dict[tuple[int, str], set[int]] = defaultdict(set)
    good: list[Request] = []
    for request in requests:
        people[request.level, request.persona].add(request.person)
        begun_s = steady_at_s.get(request.level)
        if request.error is None and begun_s is not None and request.ended_at_s > begun_s:
            good.append(request)
    # Of a mix the k-th person of a persona says the same, whichever number it has among all people.
    places = {key: {person: place for place, person in enumerate(sorted(who))} for key, who in people.items()}
    found: dict[str, dict[Question, Said]] = defaultdict(dict)
    for one in good:
        level = about[one.level]
        place = places[one.level, one.persona][one.person]
        question = (level.words.partition("|")[0], one.persona, place, one.conversation, one.turn)
        found[level.condition][question] = Said(one.level, (e2e_s(one), ttft_s(one), tpot_s(one)))
    return found


def with_pairs(
    comparison: Comparison,
    first: Mapping[Question, Said],
    second: Mapping[Question, Said],
    summaries: Mapping[int, LevelSummary],
) -> Comparison:
    """The comparison with the ratios of typical answers taken from pairs, wherever there are enough of them. Answers of
    levels that are not among ``summaries`` were left out on purpose, and make no pair."""
    pairs: dict[int, list[tuple[Said, Said]]] = defaultdict(list)
    for question in first.keys() & second.keys():
        before, after = first[question], second[question]
        if before.level not in summaries or after.level not in summaries:
            continue
        pairs[summaries[before.level].users].append((before, after))
    levels, overall = list(comparison.levels), list(comparison.overall)
    for measure in COMPARED:
        if measure.name not in PAIRED or all(one.measure != measure.name for one in overall):
            continue
        known: list[tuple[Ratio, float | None]] = []
        for place, ratio in enumerate(levels):
            if ratio.measure != measure.name:
                continue
            logs = _logs(pairs.get(ratio.users, ()), PAIRED[measure.name])
            if sum(map(len, logs.values())) < LEAST_PAIRS:
                break
            mean, error = _mean(logs, summaries)
            levels[place] = ratio_at(measure, ratio, mean, error)
            known.append((levels[place], error))
        else:
            overall = [pool(measure, known) if one.measure == measure.name else one for one in overall]
    return Comparison(tuple(levels), tuple(overall), comparison.statement)


_Logs = dict[tuple[int, int], list[float]]
"""By the two levels of a visit: logarithms of the second answer over the first."""


def _logs(pairs: Sequence[tuple[Said, Said]], place: int) -> _Logs:
    found: _Logs = defaultdict(list)
    for before, after in pairs:
        first, second = before.values_s[place], after.values_s[place]
        if first and second:
            found[before.level, after.level].append(math.log(second / first))
    return found


def _mean(logs: _Logs, summaries: Mapping[int, LevelSummary]) -> tuple[float, float]:
    """Mean logarithm and its standard error: answers at one time share the server's state, as much as the levels'
    clauses show, and whole visits differ by what they differ by."""
    every = np.concatenate([np.array(one) for one in logs.values()])
    clustering = max((_clustering(summaries[index]) for visit in logs for index in visit), default=1.0)
    within = float(np.var(every, ddof=1)) / len(every) * clustering
    means = [float(np.mean(one)) for one in logs.values()]
    between = float(np.var(means, ddof=1)) / len(means) if len(means) > 1 else 0.0
    return float(np.mean(every)), math.sqrt(max(within, between, 1e-8))


def _clustering(level: LevelSummary) -> float:
    """How many of the level's requests are worth one independent one."""
    return max((one.n / one.n_effective for one in level.clauses if one.n_effective and one.n), default=1.0)
