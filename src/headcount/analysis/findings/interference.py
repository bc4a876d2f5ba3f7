"""Long pasted documents beside short questions: what they do to those who ask short ones."""

from __future__ import annotations

import msgspec

from headcount.analysis.compare import LONGEST_PAUSE, Comparison, Ratio, compare
from headcount.analysis.conclusions import LevelSummary
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

SHORT = "short"
"""The persona of those who ask short questions under both conditions."""
MEASURED = (LONGEST_PAUSE, MEASURES["ttft_p95_s"], MEASURES["ttft_p50_s"], MEASURES["tpot_p50_s"])

ADVICE = {
    "vllm": "let long prompts be read in smaller pieces: --enable-chunked-prefill, a smaller --max-num-batched-tokens",
    "sglang": "let long prompts be read in smaller pieces: a smaller --chunked-prefill-size, --enable-mixed-chunk",
    "llamacpp": "let long prompts be read in smaller pieces: a smaller -b and -ub",
}


def find(evidence: Evidence) -> Finding:
    """The short askers alone first, with those who paste second."""
    alone, beside = evidence.names
    comparison = _short_ones(evidence, alone, beside)
    pauses, slowest = pooled(comparison, LONGEST_PAUSE.name), pooled(comparison, "ttft_p95_s")
    typical = pooled(comparison, "ttft_p50_s")
    lines = [said(ratio, alone, beside) for ratio in comparison.overall]
    lines += _pause_lines(evidence, alone, beside)
    disturbed = _disturbed(pauses, slowest, typical)
    advice: tuple[str, ...] = ()
    if disturbed:
        advice = (ADVICE.get(evidence.engine.engine, "let long prompts be read in pieces (chunked prefill)"),)
    return Finding(disturbed or _undisturbed(pauses, slowest), tuple(lines), advice)


def _short_ones(evidence: Evidence, alone: str, beside: str) -> Comparison:
    """Those who ask short questions, whose number is the same however many others there are."""

    def same_place(levels: list[LevelSummary]) -> list[LevelSummary]:
        return [msgspec.structs.replace(level, users=1) for level in levels]

    comparison = compare(
        same_place(evidence.under(alone, SHORT)), same_place(evidence.under(beside, SHORT)), measures=MEASURED
    )
    return evidence.paired(comparison, alone, beside, users=1)


def _pause_lines(evidence: Evidence, alone: str, beside: str) -> list[str]:
    lines = []
    for name in (alone, beside):
        longest = [one.max_gap_s.max for one in evidence.under(name, SHORT) if one.max_gap_s.max is not None]
        if longest:
            lines.append(f"{name}: the longest pause within a short answer was {max(longest):.2f} s")
    return lines


def _disturbed(pauses: Ratio | None, slowest: Ratio | None, typical: Ratio | None) -> str:
    """The worst of what is clear: stalls within answers, then the slowest first tokens, then the typical ones, of which
    fewer answers tell; empty when nothing is."""
    if pauses is not None and clearly_more(pauses, 3):
        return (
            f"Pasted documents make short answers stall: the longest pauses take {times(pauses)} times as long as "
            f"without them (95 % {range_of(pauses)})."
        )
    if slowest is not None and clearly_more(slowest, 3):
        return (
            f"Pasted documents make short questions wait: the slowest first tokens take {times(slowest)} times as "
            f"long as without them (95 % {range_of(slowest)})."
        )
    if typical is not None and clearly_more(typical, 3):
        return (
            f"Pasted documents make short questions wait: first tokens take {times(typical)} times as long as without "
            f"them (95 % {range_of(typical)})."
        )
    return ""


def _undisturbed(pauses: Ratio | None, slowest: Ratio | None) -> str:
    """What can be said where nothing is clear."""
    known = [one for one in (pauses, slowest) if one is not None]
    if not known:
        return "Too few short answers were measured to see what pasted documents do to them."
    if all(map(little, known)):
        return "Pasted documents do nothing to short answers that could be seen."
    return "What was measured cannot tell whether pasted documents disturb short answers."
