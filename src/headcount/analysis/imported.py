"""Levels of which only figures are known, from other tools or published tables: decided by them, without an interval.

Where single requests are known nothing of this is needed. Knows nothing of files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from headcount.analysis.comfort import felt, streaming_advice
from headcount.analysis.conclusions import Caution, ClauseResult, LevelSummary, Quantiles, Verdict
from headcount.slo import Clause, Comfort

__all__ = ["decided", "figures_of", "imported_caution", "judge_figures"]

NOTHING = Quantiles(0, None, None, None)
_UNKNOWN = (
    *("output_tokens_per_s", "requests_per_s", "user_tokens_per_s", "in_flight_mean", "prompt_tokens_mean"),
    *("output_tokens_mean", "goodput_per_s", "littles_users", "send_delay_p99_s", "loop_lag_p99_s", "first_error"),
)
"""Fields without a default of which figures may say nothing."""


def figures_of(
    index: int, users: int, n_requests: int, began_at_s: float, ended_at_s: float, **known: Any
) -> LevelSummary:
    """A level of which only ``known`` fields are known; everything else is unknown, nothing is decided."""
    fields: dict[str, Any] = dict.fromkeys(_UNKNOWN)
    fields |= dict.fromkeys(("ttft_s", "tpot_s", "e2e_s", "max_gap_s"), NOTHING)
    fields |= {"purpose": "fixed", "condition": "", "decision": "undecided", "clauses": (), "cautions": ()}
    fields |= {"n_errors": 0, "error_kinds": {}, "tokens_estimated": False}
    fields |= {"steady_at_s": began_at_s, "window_s": ended_at_s - began_at_s, **known}
    fields |= {"index": index, "users": users, "n_requests": n_requests}
    return LevelSummary(**fields, began_at_s=began_at_s, ended_at_s=ended_at_s)


def decided(level: LevelSummary, slo: Sequence[Clause]) -> LevelSummary:
    """The level judged by its figures: a clause holds when the figure at its percentile, or at a higher one, keeps its
    bound, and fails when one at its percentile or a lower one does not. Clauses of which nothing is known are left
    out."""
    results = [result for clause in slo if (result := _result(level, clause)) is not None]
    felt_clauses = [result for result in results if not result.clause.startswith("errors")]
    decision = "undecided"
    if any(result.decision == "fails" for result in results):
        decision = "fails"
    elif felt_clauses and all(result.decision == "holds" for result in results):
        decision = "holds"
    return msgspec.structs.replace(level, clauses=tuple(results), decision=decision)


def _result(level: LevelSummary, clause: Clause) -> ClauseResult | None:
    n, allowed = level.n_requests, clause.allowed_fraction
    if clause.percentile is None:
        if not n:
            return None
        share = level.n_errors / n
        decision = "holds" if share <= clause.bound else "fails"
        return ClauseResult(
            clause.text, n, level.n_errors, allowed, share, 0.0, 1.0, decision, value=share, bound=clause.bound
        )
    quantiles = getattr(level, f"{clause.metric}_s", None)
    if not isinstance(quantiles, Quantiles) or quantiles.n == 0:
        return None
    points = [(50.0, quantiles.p50), (95.0, quantiles.p95), (100.0, quantiles.max)]
    known = [(percentile, value) for percentile, value in points if value is not None]
    holds = any(percentile >= clause.percentile and value <= clause.bound for percentile, value in known)
    fails = any(percentile <= clause.percentile and value > clause.bound for percentile, value in known)
    decision = "fails" if fails else "holds" if holds else "undecided"
    misses = math.ceil(allowed * n) if fails else 0
    value = next((value for percentile, value in known if percentile == clause.percentile), None)
    return ClauseResult(clause.text, n, misses, allowed, None, 0.0, 1.0, decision, value=value, bound=clause.bound)


def judge_figures(levels: Sequence[LevelSummary], slo: Sequence[Clause], comfort: Comfort) -> Verdict:
    """The largest level that holds with none below it that fails. There is no interval and no recommendation: nothing
    is known of chance, and headroom was not tested."""
    known = felt([decided(level, slo) for level in levels], comfort)
    failing = sorted(level.users for level in known if level.decision == "fails")
    lowest = failing[0] if failing else math.inf
    holding = [level.users for level in known if level.decision == "holds" and level.users < lowest]
    limit = max(holding, default=0 if failing and failing[0] == 1 else None)
    return Verdict(
        limit_users=limit,
        at_least=limit is not None and not failing,
        limit_interval_users=None,
        recommended_users=None,
        fails_at_users=failing[0] if failing else None,
        confirmations=1 if limit else 0,
        cause="not-seen",
        cause_sentence="",
        advice=streaming_advice(known, comfort),
        cautions=(
            Caution(
                "figures-only",
                "single requests are not known: levels are decided by their figures, without an interval",
                "let the other tool save every request, or measure with headcount find",
            ),
        ),
        trusted=limit is not None,
        complete=True,
        sentence=_sentence(limit, bool(failing)),
        levels=known,
    )


def imported_caution(tool: str) -> Caution:
    """What an import means for the word people."""
    return Caution(
        "imported",
        f"imported from {tool}: its people do not pause, they are requests in flight",
        "compare with other imports, or measure people with headcount find",
    )


def _sentence(limit: int | None, failing: bool) -> str:
    if limit is None:
        return "The figures do not say how many people this server carries."
    people = "1 person" if limit == 1 else f"{limit} people"
    return (
        f"By its figures the server carries {people}."
        if failing
        else f"By its figures the server carries at least {people}."
    )
