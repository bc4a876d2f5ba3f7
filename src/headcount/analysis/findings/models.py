"""Two models, or two servers: how much slower the second is, and whether by the same at every number of people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headcount.analysis.compare import Comparison, Ratio
from headcount.analysis.findings.evidence import Evidence, Finding, pooled, range_of, said, times
from headcount.analysis.findings.plain import limits_line

__all__ = ["find", "same_at_every_level"]

SAME_FACTOR = 1.1
"""Ratios that differ by less from each other are the same to people."""


def find(evidence: Evidence) -> Finding:
    """The second condition over the first."""
    first, second = evidence.names
    comparison = evidence.compared(first, second)
    waits = pooled(comparison, "e2e_p50_s")
    lines = [_level_line(comparison, users) for users in sorted({one.users for one in comparison.levels})]
    tokens = pooled(comparison, "output_tokens_per_s")
    if tokens is not None:
        lines.append(said(tokens, first, second))
    limits = [limits_line(result) for result in evidence.results if result.searched]
    if waits is None:
        return Finding(f"{first} and {second} were never held with the same number of people.", tuple(limits))
    return Finding(_sentence(waits, comparison, first, second), (*limits, *lines))


def _sentence(waits: Ratio, comparison: Comparison, first: str, second: str) -> str:
    if waits.statement == "no-difference":
        return f"No difference seen: answers of {second} take {times(waits)} times as long as those of {first}."
    if waits.statement == "cannot-tell":
        return f"What was measured cannot tell {first} and {second} apart."
    ratios = [one for one in comparison.levels if one.measure == "e2e_p50_s"]
    same = same_at_every_level(ratios)
    if same is None or len(ratios) < 2:
        return f"Answers of {second} take {times(waits)} times as long as those of {first} (95 % {range_of(waits)})."
    if same:
        return (
            f"Answers of {second} take {times(waits)} times as long as those of {first} (95 % {range_of(waits)}), "
            "about the same at every number of people."
        )
    least, most = min(ratios, key=lambda one: one.ratio), max(ratios, key=lambda one: one.ratio)
    return (
        f"Answers of {second} take {times(least)} times as long as those of {first} at {least.users} people, "
        f"{times(most)} times at {most.users}: it depends on how many people there are."
    )


def same_at_every_level(ratios: Sequence[Ratio]) -> bool | None:
    """Whether ratios differ from each other by no more than chance, or by too little to matter; None: not known."""
    known = [(math.log(one.ratio), one) for one in ratios if one.low_ratio and one.high_ratio]
    if len(known) < 2:
        return None
    logs = [log for log, _ in known]
    errors = [math.log((one.high_ratio or 1.0) / (one.low_ratio or 1.0)) / 3.92 for _, one in known]
    weights = [1.0 / max(error, 1e-3) ** 2 for error in errors]
    mean = sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights)
    excess = sum(w * (log - mean) ** 2 for w, log in zip(weights, logs, strict=True))
    # Cochran's Q against the 95 % point of chi-squared (Wilson and Hilferty 1931).
    degrees = len(known) - 1
    bound = degrees * (1.0 - 2.0 / (9.0 * degrees) + 1.645 * math.sqrt(2.0 / (9.0 * degrees))) ** 3
    return excess <= bound or max(logs) - min(logs) < math.log(SAME_FACTOR)


def _level_line(comparison: Comparison, users: int) -> str:
    here = {one.measure: one for one in comparison.levels if one.users == users}
    waits, tokens = here.get("e2e_p50_s"), here.get("output_tokens_per_s")
    if waits is None:
        return f"at {users} people: nothing in common"
    if tokens is None:
        return f"at {users} people answers take {times(waits)} times as long ({range_of(waits)})"
    return (
        f"at {users} people answers take {times(waits)} times as long ({range_of(waits)}), with {times(tokens)} times "
        "the tokens per second"
    )
