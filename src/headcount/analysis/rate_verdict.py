"""How many new conversations a second, with how many people inside: summaries of an open loop's search in, one
``Verdict`` out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from headcount.analysis.cause import find_cause
from headcount.analysis.conclusions import Caution, LevelSummary, Limits, RateLimit, Verdict
from headcount.analysis.rates import RateStanding, next_rate, rate_standings
from headcount.records import EngineFacts

__all__ = ["judge_rates"]


def judge_rates(
    levels: Sequence[LevelSummary], limits: Limits, *, headroom: float, engine: EngineFacts | None
) -> Verdict:
    """Judge a search for a rate, finished or not. Its limit in people is how many were inside at that rate."""
    known = rate_standings(levels)
    high = min((s.rate_per_s for s in known.values() if s.grows), default=None)
    stable = [s for s in known.values() if s.stable and (high is None or s.rate_per_s < high)]
    low = stable[-1] if stable else None
    rate = _rate(known, low, high, headroom)
    cause = find_cause(levels, _most_users(low), engine)
    inside = rate.inside_users
    share = rate.recommended_per_s / rate.rate_per_s if rate.rate_per_s and rate.recommended_per_s else 0.0
    return Verdict(
        limit_users=None if inside is None else max(1, round(inside)),
        at_least=rate.at_least,
        limit_interval_users=None,
        recommended_users=None if inside is None else max(1, math.floor(share * inside)),
        fails_at_users=None,
        confirmations=rate.confirmations,
        cause=cause.name,
        cause_sentence=cause.sentence,
        advice=cause.advice,
        cautions=_cautions(levels, rate),
        trusted=low is not None,
        complete=next_rate(levels, limits, 1.0) is None,
        sentence=_sentence(rate),
        levels=tuple(levels),
        rate=rate,
    )


def _rate(
    known: dict[float, RateStanding], low: RateStanding | None, high_per_s: float | None, headroom: float
) -> RateLimit:
    promised = [s.rate_per_s for s in known.values() if low and s.rate_per_s <= low.rate_per_s and _promised(s)]
    promised_per_s = max(promised, default=None)
    if low is None:
        return RateLimit(None, False, high_per_s, None, None, None, None, 0)
    inside = [s.inside_users_mean for s in low.visits if s.inside_users_mean is not None]
    return RateLimit(
        rate_per_s=low.rate_per_s,
        at_least=high_per_s is None,
        grows_at_per_s=high_per_s,
        interval_per_s=None if high_per_s is None else (low.rate_per_s, high_per_s),
        recommended_per_s=None if promised_per_s is None else min((1.0 - headroom) * low.rate_per_s, promised_per_s),
        inside_users=statistics.fmean(inside) if inside else None,
        promised_rate_per_s=promised_per_s,
        confirmations=low.stable,
    )


def _promised(standing: RateStanding) -> bool:
    """Whether no visit to this rate had more misses than may be."""
    results = [c for visit in standing.visits for c in visit.clauses if c.n > 0]
    return bool(results) and all(c.misses <= c.allowed_fraction * c.n for c in results)


def _most_users(low: RateStanding | None) -> int | None:
    return max((visit.users for visit in low.visits), default=None) if low is not None else None


def _cautions(levels: Sequence[LevelSummary], rate: RateLimit) -> tuple[Caution, ...]:
    """Those of the levels, and that people wait too long before the queue grows."""
    found = [caution for level in levels for caution in level.cautions]
    low, promised = rate.rate_per_s, rate.promised_rate_per_s
    if low is not None and promised is None:
        found.append(
            Caution(
                "service-level-first",
                "the service level was kept at no rate that was tried, though the queue was stable",
                "begin lower (arrivals.rates_per_s), or ask for less (--slo)",
            )
        )
    elif low is not None and promised is not None and promised < low:
        found.append(
            Caution(
                "service-level-first",
                f"the service level breaks before the queue grows: it was kept at {promised:.3g} a second, not at "
                f"{low:.3g}",
                "plan for the lower rate, or ask for less (--slo)",
            )
        )
    return tuple(found)


def _sentence(rate: RateLimit) -> str:
    if rate.rate_per_s is None and rate.grows_at_per_s is not None:
        return f"Even {rate.grows_at_per_s:.3g} new conversations a second are too many: the queue grows."
    if rate.rate_per_s is None:
        return "No rate could be trusted, so there is no answer."
    low, inside = f"{rate.rate_per_s:.3g}", "–" if rate.inside_users is None else f"{rate.inside_users:.0f}"
    if rate.grows_at_per_s is None:
        return f"At least {low} new conversations a second stay stable, with {inside} inside; more were not tried."
    high = f"{rate.grows_at_per_s:.3g}"
    if rate.recommended_per_s is None:
        return f"{low} new conversations a second stay stable, with {inside} inside; at {high} the queue grows."
    plan = f"{rate.recommended_per_s:.3g}"
    return (
        f"{low} new conversations a second stay stable, with {inside} inside; at {high} the queue grows. "
        f"Plan for {plan} a second."
    )
