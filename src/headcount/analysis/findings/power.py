"""Power limits against each other: what each costs and saves, and the best for a given loss."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headcount.analysis.compare import Ratio
from headcount.analysis.conclusions import ConditionResult, LevelSummary
from headcount.analysis.energy import energy_by_users
from headcount.analysis.findings.evidence import Evidence, Finding, pooled
from headcount.analysis.findings.plain import limits_line

__all__ = ["find"]

RANKED_FRACTION = 0.03
"""Limits whose throughput differs by less are not ranked."""


class _Kept(msgspec.Struct, frozen=True):
    """What one limit keeps of the highest one's tokens per second, over all numbers of people both were held at."""

    name: str
    limit_w: float
    ratio: Ratio

    @property
    def clearly_slower(self) -> bool:
        """Whether it costs throughput beyond chance and beyond what is ranked."""
        high = self.ratio.high_ratio
        return self.ratio.ratio < 1.0 - RANKED_FRACTION and (high is None or high < 1.0)


def find(evidence: Evidence) -> Finding:
    """The lowest limit that costs no more than the allowed loss of tokens per second."""
    evidence = _warm(evidence)
    watts = evidence.power_limits_w
    names = sorted((name for name in evidence.names if name in watts), key=lambda name: -watts[name])
    lines = [line for result in _in_order(evidence.results, names) for line in _lines(evidence, result)]
    if len(names) < 2:
        return Finding("There are no two power limits to hold against each other.", tuple(lines))
    full, *lower = names
    kept = []
    for name in lower:
        ratio = pooled(evidence.compared(full, name), "output_tokens_per_s")
        if ratio is not None:
            kept.append(_Kept(name, watts[name], ratio))
    if not kept:
        return Finding("No two power limits were held with the same number of people.", tuple(lines))
    return Finding(_sentence(full, kept, evidence), (*map(_said, kept), *lines))


def _sentence(full: str, kept: Sequence[_Kept], evidence: Evidence) -> str:
    """Which limit to set, and what it costs."""
    if not any(one.clearly_slower for one in kept):
        least = min(kept, key=lambda one: one.limit_w)
        if least.ratio.statement != "no-difference":
            return f"What was measured cannot tell {least.name} and {full} apart."
        return f"No difference seen down to {least.name}: it keeps the tokens per second of {full}."
    allowed = 1.0 - evidence.loss_allowed_fraction
    enough = [one for one in kept if one.ratio.ratio >= allowed and one.ratio.statement != "cannot-tell"]
    if not enough:
        return f"Every lower limit costs more than {evidence.loss_allowed_fraction:.0%} of the tokens per second."
    best = min(enough, key=lambda one: one.limit_w)
    loss = max(0.0, 1.0 - best.ratio.ratio)
    less = f"{loss:.0%} fewer tokens per second than at {full}"
    cost = f"as many tokens per second as at {full}" if loss < RANKED_FRACTION else less
    return f"{best.name} is the limit to set: {cost}{_saved(evidence, full, best.name)}."


def _saved(evidence: Evidence, full: str, name: str) -> str:
    """Tokens per joule against the highest limit, at the most people both were held at."""
    before, after = _tokens_per_j(evidence, full), _tokens_per_j(evidence, name)
    common = before.keys() & after.keys()
    if not common:
        return ""
    return f", {after[max(common)] / before[max(common)]:.2f} times the tokens per joule"


def _tokens_per_j(evidence: Evidence, name: str) -> dict[int, float]:
    found = energy_by_users(evidence.under(name))
    return {one.users: 1.0 / one.token_energy_j for one in found if one.token_energy_j}


def _said(one: _Kept) -> str:
    """What a limit keeps, ranked only where it can be."""
    low, high = one.ratio.low_ratio, one.ratio.high_ratio
    sure = f" (95 % {low:.0%} to {high:.0%})" if low is not None and high is not None else ""
    close = "" if one.clearly_slower else ", too close to rank"
    return f"{one.name}: {one.ratio.ratio:.0%} of the tokens per second{sure}{close}"


def _lines(evidence: Evidence, result: ConditionResult) -> list[str]:
    """The limit in people, and what was seen with few people and at the limit."""
    levels = evidence.under(result.name)
    lines = [limits_line(result)] if result.searched else []
    if not levels:
        return lines
    few = min(level.users for level in levels)
    many = result.limit_users if result.searched and result.limit_users else max(level.users for level in levels)
    for users in dict.fromkeys((few, many)):
        visits = [level for level in levels if level.users == users]
        if visits:
            seen = _seen(visits)
            many_there = f"{result.name} at {users} people: {seen}"
            lines.append(f"{result.name} at 1 person: {seen}" if users == 1 else many_there)
    return lines


def _seen(visits: Sequence[LevelSummary]) -> str:
    """TTFT, tokens, watts, degrees, tokens per joule; what is not known is left out."""
    waits = [v.ttft_s.p95 for v in visits if v.ttft_s.p95 is not None]
    rates = [v.output_tokens_per_s for v in visits if v.output_tokens_per_s is not None]
    degrees = [gpu.temperature_max_c for v in visits for gpu in v.gpus if gpu.temperature_max_c is not None]
    parts = [f"TTFT p95 {max(waits):.2f} s"] if waits else []
    parts += [f"{sum(rates) / len(rates):.0f} tokens/s"] if rates else []
    for one in energy_by_users(visits):
        parts.append(f"{one.power_w:.0f} W")
        parts += [f"{1.0 / one.token_energy_j:.2f} tokens per joule"] if one.token_energy_j else []
    parts += [f"{max(degrees):.0f} °C"] if degrees else []
    return ", ".join(parts)


def _in_order(results: Sequence[ConditionResult], names: Sequence[str]) -> list[ConditionResult]:
    return sorted((one for one in results if one.name in names), key=lambda one: names.index(one.name))


def _warm(evidence: Evidence) -> Evidence:
    """Without the first visit to a number of people under a limit, where there are others: the card was still cold."""
    seen: dict[tuple[str, int], int] = {}
    left = []
    for level in evidence.levels:
        key = (level.condition, level.users)
        seen[key] = seen.get(key, 0) + 1
        again = sum((one.condition, one.users) == key for one in evidence.levels)
        if again == 1 or seen[key] > 1:
            left.append(level)
    return msgspec.structs.replace(evidence, levels=tuple(left))
