"""What findings are made of: the levels of each condition, ratios between two of them, and how those are said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import msgspec

from headcount.analysis.comfort import BANDS, band
from headcount.analysis.compare import COMPARED, Comparison, Measure, Ratio, compare
from headcount.analysis.conclusions import ConditionResult, LevelSummary
from headcount.analysis.paired import Question, Said, with_pairs
from headcount.records import EngineFacts
from headcount.slo import Comfort

__all__ = [
    "MEASURES",
    "Evidence",
    "Finding",
    "clearly_more",
    "factor",
    "feels_good_up_to",
    "little",
    "pooled",
    "range_of",
    "said",
    "times",
]

MEASURES: dict[str, Measure] = {measure.name: measure for measure in COMPARED}
MATERIAL_FACTOR = 1.1
"""A ratio nearer to 1 is not worth a sentence, however sure it is."""


NOTICED_FACTOR = 1.25
"""Waits that grow by less go unnoticed."""


class Finding(msgspec.Struct, frozen=True):
    """What an experiment shows."""

    sentence: str
    lines: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class Evidence(msgspec.Struct, frozen=True):
    """All that one run shows of its conditions."""

    results: tuple[ConditionResult, ...]
    """In the scenario's order; the others are held against the first."""
    levels: tuple[LevelSummary, ...]
    """Of all conditions, in the order in which they were held."""
    engine: EngineFacts
    """Of the first condition's server."""
    comfort: Comfort = Comfort()
    parts: Mapping[str, tuple[LevelSummary, ...]] = {}
    """The same levels with the requests of one adapter, persona … alone, by its name."""
    spoken: Mapping[str, Mapping[Question, Said]] = {}
    """The answers of each condition, by what was asked."""

    power_limits_w: Mapping[str, float] = {}
    """By condition; those without one are left out."""
    loss_allowed_fraction: float = 0.05
    """Of the tokens per second at the highest power limit."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the conditions."""
        return tuple(result.name for result in self.results)

    def under(self, condition: str, part: str | None = None) -> list[LevelSummary]:
        """The levels of one condition that can be believed, void ones left out."""
        levels = self.levels if part is None else self.parts.get(part, ())
        return [
            msgspec.structs.replace(level, condition="")
            for level in levels
            if level.condition == condition and level.decision != "void" and level.n_requests
        ]

    def compared(self, first: str, second: str, measures: Sequence[Measure] = ()) -> Comparison:
        """The second condition over the first, where both held as many people; typical answers in pairs."""
        return self.paired(compare(self.under(first), self.under(second), measures=measures), first, second)

    def paired(self, comparison: Comparison, first: str, second: str, users: int | None = None) -> Comparison:
        """A comparison of two conditions with its typical answers in pairs, where there are enough of them. ``users``:
        as which number of people its levels stand in it, where that is not their own."""
        if first not in self.spoken or second not in self.spoken:
            return comparison
        levels = {level.index: level for level in self.levels}
        if users is not None:
            levels = {index: msgspec.structs.replace(level, users=users) for index, level in levels.items()}
        return with_pairs(comparison, self.spoken[first], self.spoken[second], levels)


def pooled(comparison: Comparison, measure: str) -> Ratio | None:
    """A measure over all common levels; None where it is not known of both."""
    return next((ratio for ratio in comparison.overall if ratio.measure == measure), None)


def clearly_more(ratio: Ratio | None, among: int = 1, factor: float = MATERIAL_FACTOR) -> bool:
    """Whether a ratio is materially above 1 beyond chance, when it is one of ``among`` ratios looked at."""
    if ratio is None or ratio.low_ratio is None or ratio.high_ratio is None:
        return False
    # The interval shown is one of 95 % for itself; all of them together shall have 95 %.
    error = math.log(ratio.high_ratio / ratio.low_ratio) / (2.0 * 1.96)
    wide = NormalDist().inv_cdf(1.0 - 0.025 / among)
    return ratio.ratio > factor and math.log(ratio.ratio) - wide * error > 0.0


def little(ratio: Ratio | None) -> bool:
    """Whether a ratio is surely not much above 1: nobody would notice."""
    return ratio is not None and ratio.high_ratio is not None and ratio.high_ratio < NOTICED_FACTOR


def factor(ratio: float) -> str:
    """``3.05``, ``25.4``."""
    return f"{ratio:.2f}" if ratio < 10.0 else f"{ratio:.1f}"


def times(ratio: Ratio) -> str:
    """``3.05``, as it stands in a sentence."""
    return factor(ratio.ratio)


def range_of(ratio: Ratio) -> str:
    """``2.98–3.12``; a dash where no interval is known."""
    if ratio.low_ratio is None or ratio.high_ratio is None:
        return "–"
    return f"{factor(ratio.low_ratio)}–{factor(ratio.high_ratio)}"


_FIGURES = {
    "ttft_p50_s": "TTFT p50",
    "ttft_p95_s": "TTFT p95",
    "e2e_p50_s": "answer p50",
    "e2e_p95_s": "answer p95",
    "tpot_p50_s": "TPOT p50",
    "max_gap_p95_s": "longest pause p95",
    "output_tokens_per_s": "tokens/s",
}


def said(ratio: Ratio, first: str, second: str) -> str:
    """One ratio in a line that claims no more than its interval does."""
    line = f"{second} against {first}: {_FIGURES[ratio.measure]} ×{factor(ratio.ratio)} (95 % {range_of(ratio)})"
    low, high = ratio.low_ratio, ratio.high_ratio
    beyond = low is not None and high is not None and not low <= 1.0 <= high and ratio.statement != "no-difference"
    if ratio.statement in ("better", "worse") or beyond:
        return line
    return f"{line}, no difference seen" if ratio.statement == "no-difference" else f"{line}, cannot be told apart"


def feels_good_up_to(levels: Sequence[LevelSummary], comfort: Comfort) -> int | None:
    """The most people for whom it is comfortable or slightly slow, with nothing worse at fewer; None: for nobody."""
    most = None
    for users in sorted({level.users for level in levels}):
        bands = {band(level, comfort) for level in levels if level.users == users}
        if not bands <= {*BANDS[:2], ""}:
            break
        most = users
    return most
