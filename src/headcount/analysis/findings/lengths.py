"""Short, medium and long answers at the same few numbers of people: up to how many each still feels good."""

from __future__ import annotations

from headcount.analysis.comfort import band
from headcount.analysis.findings.evidence import Evidence, Finding, feels_good_up_to

__all__ = ["find"]


def find(evidence: Evidence) -> Finding:
    """From the shortest to the longest."""
    most = {name: feels_good_up_to(evidence.under(name), evidence.comfort) for name in evidence.names}
    lines = [
        _line(evidence, name, users)
        for name in evidence.names
        for users in sorted({level.users for level in evidence.under(name)})
    ]
    tried = max((level.users for level in evidence.levels), default=0)
    if not lines:
        return Finding("No level can be believed, so lengths cannot be held against each other.")
    if all(users == tried for users in most.values()):
        return Finding(
            f"Answers of every length feel good up to {tried} people, the most that were tried.", tuple(lines)
        )
    told = ", ".join(f"{name} {(users or 0) if evidence.under(name) else '–'}" for name, users in most.items())
    if len(set(most.values())) == 1:
        return Finding(f"The length of answers makes no difference to how many people feel good: {told}.", tuple(lines))
    return Finding(f"Up to how many people answers feel good, by their length: {told}.", tuple(lines))


def _line(evidence: Evidence, name: str, users: int) -> str:
    level = max((one for one in evidence.under(name) if one.users == users), key=lambda one: one.e2e_s.p50 or 0.0)
    ends, begins = level.e2e_s.p50 or 0.0, level.ttft_s.p95
    feels = band(level, evidence.comfort)
    if begins is None:
        return f"{name} at {users} people: whole after {ends:.1f} s ({feels})"
    return f"{name} at {users} people: first token within {begins:.2f} s, whole after {ends:.1f} s ({feels})"
