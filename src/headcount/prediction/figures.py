"""What a level held without a clock showed: latencies, throughput, the service level, and what the server spent its
time on. Knows nothing of draws and intervals.
"""

from __future__ import annotations

import msgspec
import numpy as np

from headcount.metrics import METRICS
from headcount.prediction.crowd import Asked, Held
from headcount.records import Request
from headcount.simulator.cost import Cost
from headcount.simulator.server import Server
from headcount.slo import Clause, meets
from headcount.stats.quantile import quantile

__all__ = ["Figures", "figures_of"]

_OFTEN = 0.1
"""A queue this share of the time makes what it waits for the thing that binds."""


class Figures(msgspec.Struct, frozen=True):
    """One level. None where no answer ended."""

    users: int
    e2e_p50_s: float | None
    e2e_p95_s: float | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    tpot_p95_s: float | None
    output_tokens_per_s: float
    requests_per_s: float
    in_flight_mean: float
    holds: bool
    """Whether every clause of the service level holds."""
    worst_clause: str
    """The clause nearest to its bound, or furthest beyond it."""
    worst_share: float
    """Its misses over those allowed; above 1 it fails."""
    binds: str
    """``bandwidth``, ``compute``, ``overhead``, ``kv-memory``, ``slots`` or ``context``: what would have to grow."""
    bandwidth_fraction: float
    """Of the time of all steps: reading weights and contexts."""
    compute_fraction: float
    """Of the time of all steps: multiplying."""


def figures_of(held: Held, server: Server, users: int, slo: tuple[Clause, ...], request_s: float = 0.0) -> Figures:
    """Judge a level by the same definitions as a measured one."""
    whole_gaps = any(clause.metric == "max_gap" for clause in slo)
    requests = [_request(asked, server, request_s, whole_gaps) for asked in held.asked]
    worst_clause, worst_share = _worst(requests, slo, held.overflows)
    answered = len(requests)
    tokens_per_s = sum(asked.job.output_tokens for asked in held.asked) / held.window_s if answered else 0.0
    bandwidth, compute, overhead = _time_shares(held, server.cost, tokens_per_s)
    return Figures(
        users=users,
        e2e_p50_s=_quantile(requests, "e2e", 0.5),
        e2e_p95_s=_quantile(requests, "e2e", 0.95),
        ttft_p50_s=_quantile(requests, "ttft", 0.5),
        ttft_p95_s=_quantile(requests, "ttft", 0.95),
        tpot_p95_s=_quantile(requests, "tpot", 0.95),
        output_tokens_per_s=tokens_per_s,
        requests_per_s=answered / held.window_s if answered else 0.0,
        in_flight_mean=held.running_mean + held.waiting_mean,
        holds=worst_share <= 1.0,
        worst_clause=worst_clause,
        worst_share=worst_share,
        binds=_binds(
            held,
            {"bandwidth": bandwidth, "compute": compute, "overhead": overhead},
            late=worst_share > 1.0 and worst_clause.startswith(("ttft", "first_answer")),
        ),
        bandwidth_fraction=bandwidth,
        compute_fraction=compute,
    )


def _request(asked: Asked, server: Server, request_s: float, whole_gaps: bool) -> Request:
    """As a client would have seen it; only the ends of the answer unless the gaps within count."""
    job = asked.job
    ended_at_s = job.ended_at_s or job.submitted_at_s
    first_at_s = job.first_token_at_s or ended_at_s
    chunk_at_s = server.token_times(job, ended_at_s) if whole_gaps else [first_at_s, ended_at_s]
    return Request(
        level=0,
        person=asked.person,
        conversation=0,
        turn=1,
        scheduled_at_s=asked.scheduled_at_s,
        ended_at_s=ended_at_s,
        streamed=asked.streamed,
        first_answer_at_s=first_at_s,
        chunk_at_s=chunk_at_s if asked.streamed else [],
        output_tokens=job.output_tokens,
    )


def _quantile(requests: list[Request], metric: str, share: float) -> float | None:
    values = [value for request in requests if (value := METRICS[metric](request)) is not None]
    return quantile(np.asarray(values), share)


def _worst(requests: list[Request], slo: tuple[Clause, ...], overflows: int) -> tuple[str, float]:
    """The clause with the most misses for what it allows. A question that is refused misses every clause."""
    worst = ("", 0.0)
    for clause in slo:
        verdicts = [verdict for request in requests if (verdict := meets(request, clause)) is not None]
        n = len(verdicts) + overflows
        if not n:
            continue
        share = (verdicts.count(False) + overflows) / n / max(clause.allowed_fraction, 1e-9)
        if share >= worst[1]:
            worst = (clause.text, share)
    return worst


def _time_shares(held: Held, cost: Cost, tokens_per_s: float) -> tuple[float, float, float]:
    """Reading, multiplying and the rest, as shares of the time of all steps."""
    steps_per_s = tokens_per_s / max(1.0, held.running_mean)
    weights_s = cost.weights_s + cost.experts_s * (1.0 - (1.0 - cost.expert_fraction) ** max(1.0, held.running_mean))
    reading = steps_per_s * weights_s + tokens_per_s * held.context_mean_tokens * cost.context_token_s
    multiplying = (tokens_per_s + held.computed_tokens_per_s) * cost.token_s + held.pairs_per_s * cost.pair_s
    rest = steps_per_s * cost.overhead_s + tokens_per_s * cost.sequence_s
    total = reading + multiplying + rest or 1.0
    return reading / total, multiplying / total, rest / total


def _binds(held: Held, spent: dict[str, float], *, late: bool) -> str:
    """What there was a queue for; without one, what the time went into. First tokens that are ``late`` without a queue
    wait for prompts to be computed."""
    if held.overflows:
        return "context"
    if held.memory_short_fraction > _OFTEN or held.preemptions > _OFTEN * len(held.asked):
        return "kv-memory"
    if held.slots_full_fraction > _OFTEN:
        return "slots"
    return "compute" if late else max(spent, key=lambda name: spent[name])
