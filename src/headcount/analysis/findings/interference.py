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
    pauses, first_tokens = pooled(comparison, LONGEST_PAUSE.name), pooled(comparison, "ttft_p95_s")
    lines = [said(ratio, alone, beside) for ratio in comparison.overall]
    lines += _pause_lines(evidence, alone, beside)
    stalls, waits = clearly_more(pauses, 2), clearly_more(first_tokens, 2)
    advice: tuple[str, ...] = ()
    if stalls or waits:
        advice = (ADVICE.get(evidence.engine.engine, "let long prompts be read in pieces (chunked prefill)"),)
    return Finding(_sentence(pauses, first_tokens, stalls=stalls, waits=waits), tuple(lines), advice)


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


def _sentence(pauses: Ratio | None, first_tokens: Ratio | None, *, stalls: bool, waits: bool) -> str:
    if stalls and pauses is not None:
        return (
            f"Pasted documents make short answers stall: the longest pauses take {times(pauses)} times as long as "
            f"without them (95 % {range_of(pauses)})."
        )
    if waits and first_tokens is not None:
        return (
            f"Pasted documents make short questions wait: the slowest first tokens take {times(first_tokens)} times as "
            f"long as without them (95 % {range_of(first_tokens)})."
        )
    known = [one for one in (pauses, first_tokens) if one is not None]
    if not known:
        return "Too few short answers were measured to see what pasted documents do to them."
    if all(map(little, known)):
        return "Pasted documents do nothing to short answers that could be seen."
    return "What was measured cannot tell whether pasted documents disturb short answers."
