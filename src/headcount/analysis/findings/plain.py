"""Conditions of one's own: each held against the first, by limits where they were looked for, and by ratios."""

from __future__ import annotations

from headcount.analysis.conclusions import ConditionResult
from headcount.analysis.findings.evidence import Evidence, Finding, pooled, said

__all__ = ["find", "limits_line"]

SHOWN = ("ttft_p95_s", "e2e_p50_s", "output_tokens_per_s")


def find(evidence: Evidence) -> Finding:
    """The plain statement of ``compare`` about each condition, the first of them as the sentence."""
    first, *others = evidence.names
    sentences, lines = [], []
    for other in others:
        comparison = evidence.compared(first, other)
        sentences.append(_sentence(comparison.statement, first, other))
        ratios = [ratio for name in SHOWN if (ratio := pooled(comparison, name)) is not None]
        lines += [said(ratio, first, other) for ratio in ratios]
    sentence, *more = sentences or [f"{first} was held alone: there is nothing to compare it with."]
    limits = [limits_line(result) for result in evidence.results if result.searched]
    return Finding(sentence, (*more, *limits, *lines))


def _sentence(statement: str, first: str, second: str) -> str:
    return {
        "worse": f"{second} is slower than {first}.",
        "better": f"{second} is faster than {first}.",
        "mixed": f"{second} is better than {first} in some ways and worse in others.",
        "no-difference": f"No difference seen between {first} and {second}.",
        "cannot-tell": f"What was measured cannot tell {first} and {second} apart.",
        "nothing-common": f"{first} and {second} were never held with the same number of people.",
    }[statement]


def limits_line(result: ConditionResult) -> str:
    """How many people one condition carries."""
    if result.limit_users is None:
        return f"{result.name}: no limit can be given"
    if result.at_least:
        return f"{result.name}: at least {result.limit_users} people"
    if result.limit_interval_users is None:
        return f"{result.name}: {result.limit_users} people"
    low, high = result.limit_interval_users
    return f"{result.name}: {result.limit_users} people (95 % {low:.0f} to {high:.0f})"
