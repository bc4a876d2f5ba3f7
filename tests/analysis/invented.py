"""Summaries made up for the search and the verdict: only what those look at is filled in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from headcount.analysis.conclusions import Caution, ClauseResult, LevelSummary, Limits, Plan, Quantiles
from headcount.analysis.search import next_level

__all__ = ["answering", "followed", "summary"]

NOTHING = Quantiles(0, None, None, None)


def summary(
    users: int,
    share: float,
    *,
    index: int = 0,
    purpose: str = "bracket",
    n: int = 400,
    clause: str = "ttft_p95 <= 2 s",
    allowed: float = 0.05,
    value: float | None = None,
    cautions: Sequence[Caution] = (),
    decision: str = "",
    began_at_s: float = 0.0,
    length_s: float = 30.0,
    **more: object,
) -> LevelSummary:
    """A level at which this share missed. Decided as plainly as the share says: 30 % off the allowed one either way."""
    misses = round(share * n)
    plain = "fails" if share > 1.3 * allowed else "holds" if share < 0.7 * allowed else "undecided"
    plain = "void" if any(c.fatal for c in cautions) else plain
    result = ClauseResult(
        clause, n, misses, allowed, misses / n, 0.5 * share, min(1.0, 1.5 * share), plain, n / 2, value, 2.0
    )
    values: dict[str, object] = {
        "index": index,
        "users": users,
        "purpose": purpose,
        "condition": "",
        "decision": decision or plain,
        "clauses": (result,),
        "cautions": tuple(cautions),
        "n_requests": n,
        "n_errors": 0,
        "error_kinds": {},
        "first_error": None,
        "began_at_s": began_at_s,
        "steady_at_s": began_at_s + 5.0,
        "ended_at_s": began_at_s + length_s,
        "window_s": length_s - 5.0,
        "ttft_s": Quantiles(n, 0.3, value, None, p95_reliable=True),
        "tpot_s": NOTHING,
        "e2e_s": Quantiles(n, 2.0, 3.0, 4.0, p95_reliable=True),
        "max_gap_s": NOTHING,
        "output_tokens_per_s": None,
        "requests_per_s": users / 6.0,
        "user_tokens_per_s": None,
        "in_flight_mean": users / 3.0,
        "prompt_tokens_mean": None,
        "output_tokens_mean": None,
        "tokens_estimated": False,
        "goodput_per_s": None,
        "littles_users": float(users),
        "send_delay_p99_s": None,
        "loop_lag_p99_s": None,
        "turn_cycle_s": 6.0,
    }
    return LevelSummary(**{**values, **more})  # type: ignore[arg-type]


def followed(
    answer: Callable[[Plan, int], LevelSummary], limits: Limits, most: int = 80
) -> tuple[list[LevelSummary], list[Plan]]:
    """The search, level by level, until it is done."""
    summaries: list[LevelSummary] = []
    plans: list[Plan] = []
    while (plan := next_level(summaries, limits)) is not None and len(plans) < most:
        plans.append(plan)
        at_s = summaries[-1].ended_at_s if summaries else 0.0
        made = answer(plan, len(summaries))
        summaries.append(msgspec.structs.replace(made, began_at_s=at_s, ended_at_s=at_s + 30.0))
    return summaries, plans


def answering(limit: float, slope: float = 25.0, **more: object) -> Callable[[Plan, int], LevelSummary]:
    """A server whose misses rise smoothly through 5 % at ``limit``."""

    def answer(plan: Plan, index: int) -> LevelSummary:
        logit = math.log(0.05 / 0.95) + slope * (math.log(plan.users) - math.log(limit))
        share = 1.0 / (1.0 + math.exp(-max(-500.0, min(500.0, logit))))
        wait_s = 2.0 * (plan.users / limit) ** 3
        return summary(plan.users, share, index=index, purpose=plan.purpose, value=wait_s, **more)  # type: ignore[arg-type]

    return answer
