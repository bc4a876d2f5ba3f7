"""What is felt, from the facts of one request: one short function a metric, its definition in the docstring.

Every function takes a ``Request`` and gives seconds, or None where the metric does not exist.
Values are given for unfinished requests too where they are already known; whether they count is
``slo.meets``'s business. Knows nothing of levels and percentiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from headcount.records import Request

__all__ = ["METRICS", "e2e_s", "first_answer_s", "max_chunk_gap_s", "send_delay_s", "tpot_s", "ttft_s"]


def ttft_s(request: Request) -> float | None:
    """From the scheduled instant to the first event with generated output of any kind; None for whole answers
    and when no output came."""
    if not request.streamed or not request.chunk_at_s:
        return None
    return request.chunk_at_s[0] - request.scheduled_at_s


def first_answer_s(request: Request) -> float | None:
    """From the scheduled instant to the first *answer* content; None when there was none or for whole answers."""
    if not request.streamed or request.first_answer_at_s is None:
        return None
    return request.first_answer_at_s - request.scheduled_at_s


def e2e_s(request: Request) -> float | None:
    """From the scheduled instant to the last output (end of body for whole answers); None for failed requests."""
    if request.error is not None:
        return None
    last_at_s = request.chunk_at_s[-1] if request.streamed and request.chunk_at_s else request.ended_at_s
    return last_at_s - request.scheduled_at_s


def tpot_s(request: Request) -> float | None:
    """(last output - first output) / (output tokens - 1), tokens from the server's usage; None for one token,
    for whole answers and for unfinished or failed ones."""
    if not request.streamed or request.error is not None or len(request.chunk_at_s) < 1:
        return None
    if request.output_tokens is None or request.output_tokens < 2:
        return None
    return (request.chunk_at_s[-1] - request.chunk_at_s[0]) / (request.output_tokens - 1)


def max_chunk_gap_s(request: Request) -> float | None:
    """The largest pause between consecutive output events of one answer: a stall in mid-answer; None below two."""
    at_s = request.chunk_at_s
    if len(at_s) < 2:
        return None
    return max(later - earlier for earlier, later in itertools.pairwise(at_s))


def send_delay_s(request: Request) -> float | None:
    """Our own delay: scheduled to sent, connecting excluded; None when nothing was sent."""
    if request.sent_at_s is None:
        return None
    return max(0.0, request.sent_at_s - request.scheduled_at_s - request.connect_s)


METRICS: dict[str, Callable[[Request], float | None]] = {
    "ttft": ttft_s,
    "first_answer": first_answer_s,
    "e2e": e2e_s,
    "tpot": tpot_s,
    "max_gap": max_chunk_gap_s,
}
"""Metrics a clause may name."""
