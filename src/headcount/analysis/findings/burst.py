"""Everybody at once, and agents who never pause, against people who come as they like, in equal numbers."""

from __future__ import annotations

from headcount.analysis.compare import Ratio
from headcount.analysis.findings.evidence import (
    MEASURES,
    Evidence,
    Finding,
    clearly_more,
    little,
    pooled,
    range_of,
    said,
    times,
)

__all__ = ["find"]

MEASURED = tuple(MEASURES[name] for name in ("ttft_p50_s", "ttft_p95_s", "e2e_p50_s", "output_tokens_per_s"))


def find(evidence: Evidence) -> Finding:
    """People as they like first, then those who press enter at once, then agents."""
    people, *others = evidence.names
    felt: dict[str, Ratio | None] = {}
    lines = []
    for other in others:
        comparison = evidence.compared(people, other, MEASURED)
        felt[other] = pooled(comparison, "ttft_p95_s") or pooled(comparison, "e2e_p50_s")
        lines += [said(ratio, people, other) for ratio in comparison.overall if ratio.measure != "ttft_p50_s"]
    dear = [(name, ratio) for name, ratio in felt.items() if ratio is not None and clearly_more(ratio, len(others))]
    if dear:
        name, ratio = max(dear, key=lambda one: one[1].ratio)
        what = "the slowest first tokens" if ratio.measure == "ttft_p95_s" else "whole answers"
        return Finding(
            f"As many people, but {name}: they wait {times(ratio)} times as long for {what} (95 % {range_of(ratio)}).",
            tuple(lines),
            ("plan for the hour in which they come together, not for the average one",),
        )
    known = [ratio for ratio in felt.values() if ratio is not None]
    if known and all(map(little, known)):
        return Finding("It makes no difference that could be seen how these people come.", tuple(lines))
    return Finding("What was measured cannot tell whether it matters how these people come.", tuple(lines))
