"""The first request after a start, or after the server was left alone, against those that follow it."""

from __future__ import annotations

import statistics

from headcount.analysis.findings.evidence import Evidence, Finding

__all__ = ["find"]

COLD_FACTOR, COLD_S = 1.5, 0.5
"""A first request is cold when it takes longer than those after it by this factor, and by so much."""


def find(evidence: Evidence) -> Finding:
    """One condition, held several times by one person."""
    (name,) = evidence.names
    firsts_s, usual_s = [], []
    for level in evidence.under(name):
        latency = level.ttft_s if level.ttft_s.n else level.e2e_s
        first_s = level.first_requests.max if level.first_requests is not None else None
        if first_s is not None and latency.p50 is not None:
            firsts_s.append(first_s)
            usual_s.append(latency.p50)
    if not firsts_s:
        return Finding("No first request was answered, so the cold start is not known.")
    first_s, warm_s = statistics.median(firsts_s), statistics.median(usual_s)
    lines = (
        f"first requests: {', '.join(f'{one:.2f} s' for one in firsts_s)}",
        f"those that follow: {warm_s:.2f} s (median of {len(usual_s)} visits)",
    )
    cold = [
        one for one, warm in zip(firsts_s, usual_s, strict=True) if one > COLD_FACTOR * warm and one > warm + COLD_S
    ]
    if len(cold) == len(firsts_s):
        return Finding(
            f"The first request waits {first_s:.1f} s, those after it {warm_s:.2f} s: about {first_s - warm_s:.1f} s "
            "go into loading.",
            lines,
            ("keep the model loaded, or send one request ahead of the first person",),
        )
    if not cold:
        return Finding(
            f"No cold start was seen: the first request waits {first_s:.2f} s, those after it {warm_s:.2f} s.", lines
        )
    return Finding(
        f"{len(cold)} of {len(firsts_s)} first requests were cold: up to {max(cold):.1f} s, later {warm_s:.2f} s.",
        lines,
    )
