"""Two runs side by side: ratios with intervals, and whether the second is better, worse, or no different.

Works on summaries alone, so that a stored run, an imported result and a published table compare alike. Intervals take
latencies for log-normal with the spread that p50 and p95 show, on as many requests as the level's clauses say they
are worth; levels are then pooled with what they disagree (DerSimonian & Laird 1986). Knows nothing of how it is told.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles

__all__ = [
    "COMPARED",
    "LONGEST_PAUSE",
    "Comparison",
    "Measure",
    "Ratio",
    "compare",
    "compare_conditions",
    "pool",
    "ratio_at",
    "unlike",
]

CONFIDENT, DECIDING = 1.96, 2.498
"""Standard errors: of an interval shown (95 %), and of each of the four deciding ones (95 % together)."""
SAME_WITHIN = 0.05
"""Ratios that surely differ by less are called no difference."""
TELLING_WITHIN = 0.25
"""An interval wider than this around 1 cannot tell."""
UNKNOWN_DISPERSION = 2.0
"""What clustering is taken to be where a level does not say it."""
STEADY_CYCLES, MOST_UNEVEN = 1.5, 2.0
"""A window shorter than so many turns is held against none that is so many times as long."""
LEAST_REQUESTS = 10
"""Fewer do not show their own spread."""
RUN_TO_RUN = 0.005
"""Standard error that two runs of one server keep however long they are: other texts, another order. Without it the
95 % intervals of a median answer held the truth in 90 % of 276 pairs of simulated runs; with it those of every measure
did in 96 % or more."""

Place = tuple[int, str]
"""People and condition: what is compared with what."""


class Measure(msgspec.Struct, frozen=True):
    """One figure of a level that can be compared."""

    name: str
    value: Callable[[LevelSummary], float | None]
    spread: Callable[[LevelSummary], float | None]
    """Standard error of the value's logarithm, for one independent request; None when it cannot be known."""
    less_is_better: bool


class Ratio(msgspec.Struct, frozen=True):
    """The second run's value over the first's."""

    measure: str
    users: int
    """0 for all levels together."""
    condition: str
    first: float | None
    second: float | None
    """None for all levels together."""
    ratio: float
    low_ratio: float | None
    high_ratio: float | None
    """95 % interval; None when nothing is known of the spread."""
    statement: str
    """Of the second run: ``better``, ``worse``, ``no-difference`` or ``cannot-tell``."""


class Comparison(msgspec.Struct, frozen=True):
    """What two runs have in common, and how they differ there."""

    levels: tuple[Ratio, ...]
    overall: tuple[Ratio, ...]
    """Each measure over all common levels."""
    statement: str
    """Of the second run: ``better``, ``worse``, ``mixed`` when measures disagree, ``no-difference``, ``cannot-tell``;
    ``nothing-common`` when no level was held in both."""


def _value(part: str, quantile: str) -> Callable[[LevelSummary], float | None]:
    def value(level: LevelSummary) -> float | None:
        found: float | None = getattr(getattr(level, part), quantile)
        return found

    return value


def _sigma(quantiles: Quantiles) -> float | None:
    """Standard deviation of the logarithm, from p50 and p95."""
    if not quantiles.p50 or not quantiles.p95 or quantiles.n < 2:
        return None
    # A sample without any spread is still no certainty: one per cent is the least that is believed.
    return max(0.01, math.log(quantiles.p95 / quantiles.p50) / 1.645)


def _spread(part: str, factor: float) -> Callable[[LevelSummary], float | None]:
    def spread(level: LevelSummary) -> float | None:
        sigma = _sigma(getattr(level, part))
        return None if sigma is None else factor * sigma

    return spread


_MEDIAN, _P95 = math.sqrt(math.pi / 2), math.sqrt(0.95 * 0.05) / 0.10314
"""Standard error of a normal sample's median and p95, in standard deviations of one value."""

COMPARED: tuple[Measure, ...] = (
    Measure("ttft_p50_s", _value("ttft_s", "p50"), _spread("ttft_s", _MEDIAN), True),
    Measure("ttft_p95_s", _value("ttft_s", "p95"), _spread("ttft_s", _P95), True),
    Measure("e2e_p50_s", _value("e2e_s", "p50"), _spread("e2e_s", _MEDIAN), True),
    Measure("e2e_p95_s", _value("e2e_s", "p95"), _spread("e2e_s", _P95), True),
    Measure("tpot_p50_s", _value("tpot_s", "p50"), _spread("tpot_s", _MEDIAN), True),
    Measure("output_tokens_per_s", lambda level: level.output_tokens_per_s, _spread("e2e_s", 1.0), False),
)
"""In the order in which they are shown."""

LONGEST_PAUSE = Measure("max_gap_p95_s", _value("max_gap_s", "p95"), _spread("max_gap_s", _P95), True)
"""The longest pause within an answer, of 95 % of the answers at most so long."""

_DECIDING = ("ttft_p95_s", "e2e_p50_s", "tpot_p50_s", "output_tokens_per_s")
"""Four that say what people feel and what the server gives; whole answers have no first token."""


def compare(
    first: Sequence[LevelSummary],
    second: Sequence[LevelSummary],
    also_first: Mapping[int, Mapping[str, float]] | None = None,
    also_second: Mapping[int, Mapping[str, float]] | None = None,
    measures: Sequence[Measure] = (),
) -> Comparison:
    """Compare runs level by level where both held the same people under the same condition; by ``COMPARED`` unless by
    other ``measures``.

    ``also_…`` gives further figures by level index (temperature, power, memory): their ratios have no intervals and
    decide nothing. Voided levels are left out; repeats of a level are taken together.
    """
    places, places_second = _by_place(first), _by_place(second)
    common = sorted(places.keys() & places_second.keys())
    levels: list[Ratio] = []
    overall: list[Ratio] = []
    for measure in measures or COMPARED:
        ratios = [_at(measure, place, places[place], places_second[place]) for place in common]
        known = [(ratio, error) for ratio, error in filter(None, ratios)]
        levels += [ratio for ratio, _ in known]
        if known:
            overall.append(_pooled(measure, known))
    for place in common:
        levels += _further(place, places[place], places_second[place], also_first or {}, also_second or {})
    return Comparison(tuple(levels), tuple(overall), _statement(overall) if common else "nothing-common")


def compare_conditions(levels: Sequence[LevelSummary], first: str, second: str) -> Comparison:
    """Compare two conditions that one run held against each other."""

    def under(condition: str) -> list[LevelSummary]:
        return [msgspec.structs.replace(level, condition="") for level in levels if level.condition == condition]

    return compare(under(first), under(second))


def unlike(first: Sequence[LevelSummary], second: Sequence[LevelSummary]) -> list[tuple[str, float, float]]:
    """Lengths that differ by more than a tenth: (what, first, second). Then the runs asked different things."""
    found = []
    for name in ("prompt_tokens_mean", "output_tokens_mean"):
        means = []
        for levels in (first, second):
            values = [value for level in levels if (value := getattr(level, name)) is not None]
            means.append(sum(values) / len(values) if values else None)
        before, after = means
        if before and after and abs(math.log(after / before)) > math.log(1.1):
            found.append((name, before, after))
    return found


def _by_place(levels: Sequence[LevelSummary]) -> dict[Place, list[LevelSummary]]:
    places: dict[Place, list[LevelSummary]] = defaultdict(list)
    for level in levels:
        if level.decision != "void":
            places[level.users, level.condition].append(level)
    return places


def _uneven(first: list[LevelSummary], second: list[LevelSummary]) -> bool:
    """Whether one run was gone before a load was steady, and the other was not. A search leaves an easy level after a
    moment, where only those who were quick have ended, and what they had begun before is counted: held against another
    search that errs as much it tells, held against fixed levels it does not."""
    windows_s = [max(level.window_s for level in levels) for levels in (first, second)]
    even = max(windows_s) <= MOST_UNEVEN * min(windows_s)
    return not even and (_cut_short(first) or _cut_short(second))


def _cut_short(levels: list[LevelSummary]) -> bool:
    """Whether no window was long against a turn. Unknown is long: other tools do not cut short."""
    return all(
        level.turn_cycle_s is not None and level.window_s < STEADY_CYCLES * level.turn_cycle_s for level in levels
    )


def _mean_log(measure: Measure, levels: list[LevelSummary]) -> tuple[float, float | None] | None:
    """Mean logarithm over the visits to a level, each by its requests, and its standard error; None when no visit has
    the measure. A search goes on where it is in doubt: without weights the short visits that went well would count as
    much as a long one that did not."""
    visits = [(math.log(value), level) for level in levels if (value := measure.value(level)) and value > 0]
    if not visits:
        return None
    n, weights = len(visits), [max(level.n_requests, 1) for _, level in visits]
    total = sum(weights)
    mean = sum(weight * log for weight, (log, _) in zip(weights, visits, strict=True)) / total
    if total < LEAST_REQUESTS:
        return mean, None
    within = between = 0.0
    for weight, (log, level) in zip(weights, visits, strict=True):
        spread, worth = measure.spread(level), _worth(level)
        if spread is None or worth <= 0:
            return mean, None
        within += (weight / total) ** 2 * spread**2 / worth
        between += (weight / total) ** 2 * (log - mean) ** 2 * n / max(n - 1, 1)
    return mean, math.sqrt(max(within, between))


def _worth(level: LevelSummary) -> float:
    """How many independent requests the level's are worth: by the clause that says the least."""
    seen = [clause.n / clause.n_effective for clause in level.clauses if clause.n_effective and clause.n]
    return level.n_requests / max(seen, default=UNKNOWN_DISPERSION)


def _at(
    measure: Measure, place: Place, first: list[LevelSummary], second: list[LevelSummary]
) -> tuple[Ratio, float | None] | None:
    before, after = _mean_log(measure, first), _mean_log(measure, second)
    if before is None or after is None:
        return None
    error = math.hypot(before[1], after[1]) if before[1] is not None and after[1] is not None else None
    error = None if _uneven(first, second) else error
    ratio = _ratio(measure, place, after[0] - before[0], error, math.exp(before[0]), math.exp(after[0]))
    return ratio, error


def _ratio(
    measure: Measure, place: Place, log: float, error: float | None, first: float | None, second: float | None
) -> Ratio:
    low = math.exp(log - CONFIDENT * error) if error is not None else None
    high = math.exp(log + CONFIDENT * error) if error is not None else None
    statement = _said(log, error, CONFIDENT, measure.less_is_better)
    return Ratio(measure.name, place[0], place[1], first, second, math.exp(log), low, high, statement)


def _said(log: float, error: float | None, width: float, less_is_better: bool) -> str:
    if error is None:
        return "cannot-tell"
    low, high = log - width * error, log + width * error
    same, telling = math.log1p(SAME_WITHIN), math.log1p(TELLING_WITHIN)
    if -same < low and high < same:
        return "no-difference"
    if low > 0 or high < 0:
        return "worse" if (log > 0) == less_is_better else "better"
    return "no-difference" if high - low < 2 * telling else "cannot-tell"


def _pooled(measure: Measure, known: list[tuple[Ratio, float | None]]) -> Ratio:
    """Over all levels; where levels disagree by more than their errors, that disagreement widens the interval."""
    everywhere = (0, "")
    told = [(math.log(ratio.ratio), error) for ratio, error in known if error is not None]
    if not told:
        log = sum(math.log(ratio.ratio) for ratio, _ in known) / len(known)
        return _ratio(measure, everywhere, log, None, None, None)
    # A level of one answer says nothing of its own spread: the others decide without it.
    logs, errors = [log for log, _ in told], [error for _, error in told]
    log, error = _random_effects(logs, errors)
    error = math.hypot(error, RUN_TO_RUN)
    pooled = _ratio(measure, everywhere, log, error, None, None)
    if measure.name not in _DECIDING:
        return pooled
    return msgspec.structs.replace(pooled, statement=_said(log, error, DECIDING, measure.less_is_better))


def ratio_at(measure: Measure, ratio: Ratio, log: float, error: float) -> Ratio:
    """A level's ratio with another estimate of its logarithm, and that one's standard error."""
    return _ratio(measure, (ratio.users, ratio.condition), log, error, ratio.first, ratio.second)


def pool(measure: Measure, known: list[tuple[Ratio, float | None]]) -> Ratio:
    """One measure's ratios and their standard errors, all levels together."""
    return _pooled(measure, known)


def _random_effects(values: list[float], errors: list[float]) -> tuple[float, float]:
    """Weighted mean and its standard error, with the variance between the values estimated by moments."""
    weights = [1.0 / error**2 for error in errors]
    total = sum(weights)
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total
    excess = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) - (len(values) - 1)
    scale = total - sum(w**2 for w in weights) / total
    between = max(0.0, excess / scale) if scale > 0 else 0.0
    weights = [1.0 / (error**2 + between) for error in errors]
    total = sum(weights)
    return sum(w * v for w, v in zip(weights, values, strict=True)) / total, math.sqrt(1.0 / total)


def _further(
    place: Place,
    first: list[LevelSummary],
    second: list[LevelSummary],
    also_first: Mapping[int, Mapping[str, float]],
    also_second: Mapping[int, Mapping[str, float]],
) -> list[Ratio]:
    def means(levels: list[LevelSummary], also: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
        found: dict[str, list[float]] = defaultdict(list)
        for level in levels:
            for name, value in also.get(level.index, {}).items():
                found[name].append(value)
        return {name: sum(values) / len(values) for name, values in found.items()}

    before, after = means(first, also_first), means(second, also_second)
    return [
        Ratio(name, *place, before[name], after[name], after[name] / before[name], None, None, "cannot-tell")
        for name in sorted(before.keys() & after.keys())
        if before[name] > 0
    ]


def _statement(overall: list[Ratio]) -> str:
    said = {ratio.statement for ratio in overall if ratio.measure in _DECIDING}
    if {"better", "worse"} <= said:
        return "mixed"
    return next((one for one in ("worse", "better", "no-difference", "cannot-tell") if one in said), "cannot-tell")
