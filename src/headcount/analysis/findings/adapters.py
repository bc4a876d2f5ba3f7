"""The base model against ever more adapters mixed: what adapters cost, and from how many on the server thrashes."""

from __future__ import annotations

import itertools

from headcount.analysis.compare import Comparison, Ratio
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
from headcount.records import EngineFacts

__all__ = ["find"]

MEASURED = tuple(MEASURES[name] for name in ("ttft_p50_s", "ttft_p95_s", "e2e_p50_s", "output_tokens_per_s"))
FELT = ("ttft_p95_s", "ttft_p50_s", "e2e_p50_s")
THRASH_FACTOR = 1.25
"""One adapter more that makes people wait longer than by this is a step, not the price of an adapter."""

FLAGS = {"vllm": "--max-loras", "sglang": "--max-loras-per-batch"}


def find(evidence: Evidence) -> Finding:
    """The base model first, then one adapter, two and so on."""
    base, *mixed = evidence.names
    lines = [_against_base(evidence.compared(base, name, MEASURED), base, name) for name in mixed]
    for before, after in itertools.pairwise(mixed):
        waits = pooled(evidence.compared(before, after, MEASURED), "ttft_p95_s")
        lines += [said(waits, before, after)] if waits is not None else []
    lines += _by_adapter(evidence, mixed[-1:])
    step = _step(evidence, mixed)
    if step is not None:
        before, after, ratio = step
        return Finding(_step_sentence(before, after, ratio, evidence), tuple(lines), _advice(evidence.engine))
    return Finding(_price(evidence, base, mixed), tuple(lines))


def _price(evidence: Evidence, base: str, mixed: list[str]) -> str:
    """What adapters cost where no step was seen."""
    last = mixed[-1]
    ratios = {name: evidence.compared(base, name, MEASURED) for name in mixed}
    dear = [
        (name, ratio)
        for name, comparison in ratios.items()
        for measure in FELT
        if clearly_more(ratio := pooled(comparison, measure), len(mixed) * len(FELT)) and ratio is not None
    ]
    if dear:
        name, ratio = max(dear, key=lambda one: one[1].ratio)
        return (
            f"Adapters have their price: with {name} people wait {times(ratio)} times as long for {_what(ratio)} "
            f"as with {base} (95 % {range_of(ratio)}); no step was seen up to {last}."
        )
    waits = pooled(ratios[last], "e2e_p50_s")
    if waits is not None and waits.statement in ("no-difference", "better"):
        return f"Adapters cost nothing that could be seen: up to {last} answers take {times(waits)} times as long."
    if waits is not None and little(waits):
        return f"Adapters cost little: up to {last} answers take {times(waits)} times as long (95 % {range_of(waits)})."
    return f"What was measured cannot tell what adapters cost, up to {last}."


def _step(evidence: Evidence, mixed: list[str]) -> tuple[str, str, Ratio] | None:
    """The number of adapters at which waits jump, with the one before; the highest such jump."""
    pairs = list(itertools.pairwise(mixed))
    steps = []
    for before, after in pairs:
        comparison = evidence.compared(before, after, MEASURED)
        for measure in FELT:
            ratio = pooled(comparison, measure)
            if ratio is not None and clearly_more(ratio, len(pairs) * len(FELT), THRASH_FACTOR):
                steps.append((before, after, ratio))
    return max(steps, key=lambda one: one[2].ratio, default=None)


def _step_sentence(before: str, after: str, ratio: Ratio, evidence: Evidence) -> str:
    slots, fewer = _slots(evidence), before.split()[0]
    if slots is None:
        return (
            f"With {after} instead of {fewer} people wait {times(ratio)} times as long for {_what(ratio)} "
            f"(95 % {range_of(ratio)}): the server seems to swap them."
        )
    return (
        f"With {after} instead of {fewer} people wait {times(ratio)} times as long for {_what(ratio)} "
        f"(95 % {range_of(ratio)}): the server holds no more than {slots} at once and swaps them."
    )


def _what(ratio: Ratio) -> str:
    return "the first token" if ratio.measure.startswith("ttft") else "whole answers"


def _against_base(comparison: Comparison, base: str, name: str) -> str:
    ratio = pooled(comparison, "e2e_p50_s")
    return f"{name} and {base} were never held alike" if ratio is None else said(ratio, base, name)


def _by_adapter(evidence: Evidence, conditions: list[str]) -> list[str]:
    """The first token of each adapter alone, where all of them are mixed."""
    lines = []
    for condition in conditions:
        for adapter in sorted(name for name in evidence.parts if name):
            waits = [one.ttft_s for one in evidence.under(condition, adapter) if one.ttft_s.p50 is not None]
            if waits:
                p50_s = sum(one.p50 or 0.0 for one in waits) / len(waits)
                longest_s = max(one.max or 0.0 for one in waits)
                lines.append(f"{adapter} under {condition}: TTFT p50 {p50_s:.2f} s, at most {longest_s:.2f} s")
    return lines


def _slots(evidence: Evidence) -> int | None:
    """How many adapters the server holds at once: by its settings, else by how many ran at once at most where more
    were asked for; None where it tells neither."""
    for name in ("max_loras", "max_lora", "max_loras_per_batch"):
        value = evidence.engine.details.get(name)
        if isinstance(value, int | float | str) and str(value).isdigit():
            return int(value)
    most = [level.adapters_in_use_max for level in evidence.under(evidence.names[-1]) if level.adapters_in_use_max]
    asked = sum(1 for name in evidence.parts if name)
    return int(max(most)) if most and max(most) < asked else None


def _advice(engine: EngineFacts) -> tuple[str, ...]:
    flag = FLAGS.get(engine.engine)
    text = "hold as many adapters at once as are in use"
    return (f"{text}: {flag}" if flag else text,)
