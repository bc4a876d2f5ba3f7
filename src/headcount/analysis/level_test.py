"""Whether one level holds its service level: the steady window, its blocks, and the decision after each look.

Pure: the same function decides while a level runs and when its facts are read years later. Knows nothing of
cautions and of other levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from headcount.analysis.conclusions import ClauseResult
from headcount.analysis.table import Flags, Floats, Integers, Rows
from headcount.records import Level
from headcount.slo import Clause
from headcount.stats.proportion import anytime_interval, overdispersion, smallest_telling_n
from headcount.stats.quantile import quantile
from headcount.stats.steady import steady_from

__all__ = ["Rule", "Window", "decide", "judge_clause", "steady_window", "turn_cycle_s"]

ERROR = 0.05
"""Of each wrong decision: that a level which fails holds, and that one which holds fails."""
FAIL_ERROR = 0.01
"""Of failing at the limit itself: one visit of several that fails takes a level away, and excursions of a queue outlast
a visit."""
CONFIRM_ERROR = 0.35
"""Of ending a visit that confirms early, as held: it is not the only one."""
SEARCHING = ("refine", "confirm")
"""Visits near the limit, one of several: such a one holds at its end when no more missed than may. It is all of them
together that say where the limit lies, and how sure that is."""
MAX_BLOCKS = 16
"""More blocks than this are merged: longer ones see more of the dependence."""
PRIOR_CORRELATION, PRIOR_BLOCKS = 0.06, 4.0
"""What is believed of the likeness of requests in one block before it is seen, as if so many blocks had shown it; see
docs/explanation/statistics.md."""
WARMUP_CYCLES, BRACKET_WARMUP_CYCLES, SETTLING_GAIN = 1.0, 0.5, 0.3
"""The least warm-up after everybody has started, shorter where only the side of the limit is asked for; it is prolonged
when that makes the waits far less scattered."""
TAIL_SHARE = 0.2
"""Where fewer miss than this, dependence is measured on this upper share of the values: there is more to see."""


class Window(msgspec.Struct, frozen=True):
    """The part of a level that counts."""

    began_at_s: float
    ended_at_s: float
    cycle_s: float
    """Mean turn cycle, the least length of a block."""

    @property
    def length_s(self) -> float:
        """Seconds from its beginning to its end."""
        return max(0.0, self.ended_at_s - self.began_at_s)

    @property
    def blocks(self) -> int:
        """How many blocks it is cut into: each at least one turn cycle, at most ``MAX_BLOCKS``."""
        return min(MAX_BLOCKS, math.floor(self.length_s / self.cycle_s + 1e-9)) if self.cycle_s > 0 else 0

    def block_of(self, at_s: Floats) -> Integers:
        """Which block each instant falls into; instants outside count to the nearest."""
        if self.blocks < 1:
            return np.zeros(len(at_s), np.intp)
        place = np.floor((at_s - self.began_at_s) / self.length_s * self.blocks).astype(np.intp)
        return np.asarray(np.clip(place, 0, self.blocks - 1))


def turn_cycle_s(rows: Rows) -> float | None:
    """Mean time from one scheduled turn to the next, answer and pause, over what has ended; None when nothing has."""
    ended = ~rows.cut
    if not ended.any():
        return None
    return float(np.mean(rows.age_s[ended] + np.nan_to_num(rows.think_s[ended])))


def steady_window(level: Level, rows: Rows, ended_at_s: float) -> Window | None:
    """From one turn cycle after everybody has started; None while that has not come.

    When nothing has ended at all, everything since the start is the window: what was cut then says enough.
    """
    if level.started_at_s is None or ended_at_s <= level.started_at_s:
        return None
    since_start = rows.where(rows.ended_at_s >= level.started_at_s)
    cycle_s = turn_cycle_s(since_start) or turn_cycle_s(rows)
    if cycle_s is None or cycle_s <= 0.0:
        nothing_ended = len(rows) > 0 and bool(rows.cut.all())
        return Window(level.started_at_s, ended_at_s, ended_at_s - level.started_at_s) if nothing_ended else None
    warmup_cycles = BRACKET_WARMUP_CYCLES if level.purpose == "bracket" else WARMUP_CYCLES
    began_at_s = level.started_at_s + warmup_cycles * cycle_s
    if began_at_s >= ended_at_s:
        return None
    settled_at_s = _settled_at_s(since_start.where(since_start.ended_at_s >= began_at_s), began_at_s, cycle_s)
    return Window(settled_at_s, ended_at_s, cycle_s)


def _settled_at_s(rows: Rows, began_at_s: float, cycle_s: float) -> float:
    """When the waits have settled, by the marginal standard error rule on means over half a turn cycle."""
    waits_s = rows.ttft_s if rows.streamed.any() else rows.age_s
    known = ~rows.cut & ~np.isnan(waits_s)
    bin_s = 0.5 * cycle_s
    place = ((rows.ended_at_s[known] - began_at_s) / bin_s).astype(np.intp)
    if len(place) == 0:
        return began_at_s
    n = np.bincount(place)
    sums = np.bincount(place, weights=np.log(np.maximum(waits_s[known], 1e-4)))
    filled = np.flatnonzero(n)
    return began_at_s + float(filled[steady_from((sums / np.maximum(n, 1))[filled], SETTLING_GAIN)]) * bin_s


def decide(
    level: Level, inside: Rows, cut: Rows, window: Window, slo: Sequence[Clause]
) -> tuple[str, tuple[ClauseResult, ...]]:
    """``holds``, ``fails`` or ``undecided`` for the requests that ended ``inside`` the steady window, and each clause's
    part in it. ``cut`` are those that were cut at its end.

    Any clause that fails fails the level; all must hold. Nothing is decided before the people of the level have been
    heard: each has finished a turn, all but a twentieth of them where there are twenty or more.
    """
    rule = _rule(level)
    results = tuple(_with_cut(inside, cut, window, clause, place, rule) for place, clause in enumerate(slo))
    needed = level.users - level.users // 20
    decisions = {result.decision for result in results}
    if "fails" in decisions and window.blocks >= 1 and _people(inside, cut) >= needed:
        return "fails", results
    holds = decisions == {"holds"} and window.blocks >= 2 and _people(inside) >= needed
    return ("holds" if holds else "undecided"), results


class Rule(NamedTuple):
    """What it takes to decide a clause."""

    holds_error: float
    """Of taking a failing level for a good one."""
    fails_error: float
    """Of taking a good level for a failing one."""
    over: bool = False
    """Whether this was one visit of several and is over, so that it counts by what was measured."""


def _rule(level: Level) -> Rule:
    if level.purpose not in SEARCHING:
        return Rule(ERROR, ERROR)
    holds_error = CONFIRM_ERROR if level.purpose == "confirm" else ERROR
    return Rule(holds_error, FAIL_ERROR, over=level.stopped_at_s is not None)


def _people(*parts: Rows) -> int:
    return len(np.unique(np.concatenate([part.person for part in parts])))


def _with_cut(inside: Rows, cut: Rows, window: Window, clause: Clause, place: int, rule: Rule) -> ClauseResult:
    """Cut requests count against a clause, never for it: they may take a hold away or make a level fail.

    A hold stands as long as the share of misses stays within what is allowed with them: near the limit a few people
    always wait beyond their bound, and as many as are cut at the end were in flight at the beginning.
    """
    ended = judge_clause(inside, window, clause, place, rule)
    late = cut.where(cut.missed(place))
    if len(late) == 0:
        return ended
    together = judge_clause(inside.joined(late), window, clause, place, rule)
    if ended.decision == "holds" and together.misses <= together.allowed_fraction * together.n:
        return ended
    return msgspec.structs.replace(together, decision="undecided") if together.decision == "holds" else together


def judge_clause(inside: Rows, window: Window, clause: Clause, place: int, rule: Rule) -> ClauseResult:
    """One clause over the steady window: its share of misses, how sure that is, what follows.

    ``place`` is the clause's in the table's service level.
    """
    judged = inside.judged(place)
    missed = inside.missed(place) & judged
    n, misses, allowed = int(judged.sum()), int(missed.sum()), clause.allowed_fraction
    if n == 0:
        return ClauseResult(clause.text, 0, 0, allowed, None, 0.0, 1.0, "undecided", 0.0, None, clause.bound)
    dispersion = _dispersion(inside, window, clause, judged, missed)
    n_effective, misses_effective = n / dispersion, misses / dispersion
    low, _ = anytime_interval(misses_effective, n_effective, rule.fails_error)
    _, high = anytime_interval(misses_effective, n_effective, rule.holds_error)
    value = misses / n if clause.percentile is None else _value(inside, clause, judged)
    return ClauseResult(
        clause.text,
        n,
        misses,
        allowed,
        misses / n,
        low,
        high,
        _decision(clause, n, misses, low, high, rule.over),
        n_effective,
        value,
        clause.bound,
    )


def _value(inside: Rows, clause: Clause, judged: Flags) -> float | None:
    """The metric at the clause's percentile. A cut request enters with its age, a failed one as longer than any."""
    values = np.where(inside.cut & np.isnan(inside.metric(clause.metric)), inside.age_s, inside.metric(clause.metric))
    return quantile(np.where(np.isnan(values), np.inf, values)[judged], 1.0 - clause.allowed_fraction)


def _decision(clause: Clause, n: int, misses: int, low: float, high: float, over: bool) -> str:
    allowed = clause.allowed_fraction
    if low > allowed:
        return "fails"
    if clause.metric == "errors":
        # Rare errors are a guard, not a quantile: to prove them below 1 % would take 300 answers without one.
        return "holds" if n >= smallest_telling_n(0.05) and misses <= allowed * n else "undecided"
    within = high <= allowed or (over and misses <= allowed * n)
    return "holds" if n >= smallest_telling_n(allowed) and within else "undecided"


def _dispersion(
    inside: Rows,
    window: Window,
    clause: Clause,
    judged: Flags,
    missed: Flags,
) -> float:
    """How many clustered outcomes are worth one independent one, from the variance between blocks."""
    # Kish's design effect: m outcomes of one block, alike to rho, are worth m / (1 + (m - 1) rho) independent ones.
    prior = 1.0 + PRIOR_CORRELATION * max(0.0, float(judged.sum()) / max(1, window.blocks) - 1.0)
    if window.blocks < 2:
        return prior
    high, nearness = missed, 1.0
    values = inside.metric(clause.metric) if clause.metric != "errors" else np.full(len(inside), np.nan)
    known = judged & ~np.isnan(values)
    if known.any() and missed.sum() < TAIL_SHARE * judged.sum():
        high = missed | (known & (values > np.quantile(values[known], 1.0 - TAIL_SHARE)))
        nearness = 1.0 if missed.any() else max(0.0, 2.0 * float(values[known].max()) / clause.bound - 1.0)
    block = window.block_of(inside.ended_at_s)
    n = np.bincount(block[judged], minlength=window.blocks).astype(float)
    misses = np.bincount(block[judged & high], minlength=window.blocks).astype(float)
    seen = overdispersion(n, misses, prior=prior, prior_blocks=PRIOR_BLOCKS)
    # Misses come in clusters because the queue makes excursions. Where none came even half way to the bound, requests
    # are taken one by one; from there to the bound the clusters count more and more.
    return 1.0 + (seen - 1.0) * min(1.0, nearness)
