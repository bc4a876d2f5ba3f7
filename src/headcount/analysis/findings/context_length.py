"""Ever longer contexts: from which on fewer people are carried, and where the KV cache is what binds."""

from __future__ import annotations

from headcount.analysis.conclusions import ConditionResult
from headcount.analysis.findings.evidence import Evidence, Finding
from headcount.analysis.findings.plain import limits_line

__all__ = ["find"]

FULL_KV_FRACTION = 0.95


def find(evidence: Evidence) -> Finding:
    """From the shortest context to the longest."""
    lines = []
    for result in evidence.results:
        used = [one.kv_used_max_fraction for one in evidence.under(result.name) if one.kv_used_max_fraction is not None]
        lines.append(limits_line(result))
        if used:
            lines.append(f"{result.name}: the KV cache was up to {max(used):.0%} full")
    shortest, *longer = evidence.results
    fallen = next((result for result in longer if _surely_fewer(result, shortest)), None)
    if shortest.limit_users is None:
        return Finding(
            "No limit was found for the shortest context, so longer ones cannot be held against it.", tuple(lines)
        )
    if fallen is None:
        if any(_limit_low(result) is None for result in longer):
            return Finding("What was measured cannot tell whether longer contexts carry fewer people.", tuple(lines))
        return Finding(f"No fall of the limit was seen up to a context of {longer[-1].name}.", tuple(lines))
    binds = next((one for one in evidence.results if _kv_binds(evidence, one)), None)
    sentence = (
        f"From a context of {fallen.name} on fewer people are carried: {fallen.limit_users} instead of "
        f"{shortest.limit_users}."
    )
    if binds is None:
        return Finding(sentence, tuple(lines))
    lines.append(f"the KV cache binds from a context of {binds.name} on")
    return Finding(sentence, tuple(lines), ("shorten contexts and histories, or give the KV cache more memory",))


def _surely_fewer(result: ConditionResult, shortest: ConditionResult) -> bool:
    """Whether its interval lies wholly below the other's."""
    high, low = _limit_high(result), _limit_low(shortest)
    return high is not None and low is not None and high < low


def _limit_high(result: ConditionResult) -> float | None:
    if result.limit_users is None or result.at_least:
        return None
    return result.limit_interval_users[1] if result.limit_interval_users else float(result.limit_users)


def _limit_low(result: ConditionResult) -> float | None:
    if result.limit_users is None:
        return None
    return result.limit_interval_users[0] if result.limit_interval_users else float(result.limit_users)


def _kv_binds(evidence: Evidence, result: ConditionResult) -> bool:
    if result.cause == "kv-memory":
        return True
    return any(
        (one.kv_used_max_fraction or 0.0) >= FULL_KV_FRACTION and one.decision == "fails"
        for one in evidence.under(result.name)
    )
