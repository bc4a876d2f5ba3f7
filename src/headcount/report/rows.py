"""The table of levels every format shows: one row for each number of people, repeats folded into it.

Knows nothing of how a row is drawn.
"""

from __future__ import annotations

import itertools

import msgspec

from headcount.analysis.conclusions import ClauseResult, LevelSummary, Quantiles, Verdict
from headcount.analysis.limit import saw_a_cycle

__all__ = ["Row", "level_rows", "near_limit", "worst_clause"]


class Row(msgspec.Struct, frozen=True):
    """One number of people under one condition."""

    users: int
    condition: str
    level: LevelSummary
    """The repeat that is shown: of those that made the decision, the one with the most misses."""
    decision: str
    """``fails`` when any repeat failed, else ``holds`` when any held, else ``undecided``; ``void`` when all are."""
    agreeing: int
    """How many repeats decided so."""
    repeats: int
    """How many there were, void ones left out unless all are."""
    latency_s: Quantiles
    """TTFT, or the whole answer's latency where nothing was streamed."""
    whole: bool
    """Whether ``latency_s`` is the whole answer's."""
    worst: ClauseResult | None
    """The clause nearest to its bound, or farthest beyond it."""

    @property
    def throughput_tokens_per_s(self) -> float | None:
        """None for a level that was left before a turn was over: its throughput is not that of the load."""
        return self.level.output_tokens_per_s if saw_a_cycle(self.level) else None


def level_rows(verdict: Verdict) -> list[Row]:
    """One row for each number of people and condition, fewest people first."""
    order = [condition.name for condition in verdict.conditions]

    def place(level: LevelSummary) -> tuple[float, int, int, str]:
        first = order.index(level.condition) if level.condition in order else 0
        return level.rate_per_s or 0.0, level.users, first, level.condition

    return [_row(list(repeats)) for _, repeats in itertools.groupby(sorted(verdict.levels, key=place), key=place)]


def near_limit(rows: list[Row], limit_users: int | None, most: int) -> list[Row]:
    """At most ``most`` rows: the first, and those around the limit."""
    if len(rows) <= most:
        return rows
    limit = limit_users if limit_users is not None else rows[-1].users
    first, rest = rows[:1], rows[1:]
    nearest = sorted(rest, key=lambda row: (abs(row.users - limit), row.users))[: most - 1]
    return first + sorted(nearest, key=lambda row: (row.users, row.condition))


def worst_clause(level: LevelSummary) -> ClauseResult | None:
    """The clause nearest to its bound; a failed one before all others. None when no clause has a value."""
    judged = [clause for clause in level.clauses if clause.miss_fraction is not None]
    return max(judged, key=lambda clause: (clause.decision == "fails", _strain(clause)), default=None)


def _strain(clause: ClauseResult) -> float:
    """Misses over allowed misses; ties (no misses at all) go to the first clause."""
    return (clause.miss_fraction or 0.0) / max(clause.allowed_fraction, 1e-9)


def _row(repeats: list[LevelSummary]) -> Row:
    valid = [level for level in repeats if level.decision != "void"] or repeats
    decisions = [level.decision for level in valid]
    decision = next(one for one in ("fails", "holds", "undecided", "void") if one in decisions)
    deciding = [level for level in valid if level.decision == decision]

    def strain(level: LevelSummary) -> float:
        worst = worst_clause(level)
        return _strain(worst) if worst else 0.0

    shown = max(deciding, key=lambda level: (strain(level), level.n_requests))
    whole = shown.ttft_s.n == 0 and shown.e2e_s.n > 0
    return Row(
        users=shown.users,
        condition=shown.condition,
        level=shown,
        decision=decision,
        agreeing=len(deciding),
        repeats=len(valid),
        latency_s=shown.e2e_s if whole else shown.ttft_s,
        whole=whole,
        worst=worst_clause(shown),
    )
