"""A simulated server from the figures of a few levels, where single requests are not known: two constants, checked.

Of what a step costs, one constant scales what every step costs and one what each answer in it adds; both by least
squares of the relative error. Knows nothing of requests and of gateways.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, hypot, log, sqrt

import msgspec

from headcount.analysis.conclusions import LevelSummary
from headcount.prediction import Change, Hardware, Served, Start, predict
from headcount.simulator.cost import Cost
from headcount.simulator.minimise import minimise
from headcount.simulator.policy import vllm
from headcount.workload import make_workload

__all__ = ["WORST_RESIDUAL", "start_of_figures"]

WORST_RESIDUAL = 0.08
"""Root mean square of the relative errors beyond which two constants do not describe this server."""
_SPREAD_AT_LEAST = 0.03
_EVERY_STEP = ("overhead_s", "weights_s", "experts_s")
_EACH_ANSWER = ("sequence_s", "context_token_s", "token_s", "pair_s")
_MANY_SLOTS = 1024
_QUEUED = 0.5
"""Requests that wait on average: from here on a level tells of the queue instead of steps."""
_A_STEP_S, _A_SEQUENCE_S = 0.01, 0.0003
"""Where fitting begins on hardware that nobody told."""
_DRAWS = 12
_ROUNDS = 2
_CHAT: dict[str, object] = {"kind": "chat"}


class _Point(msgspec.Struct, frozen=True):
    """One level: how many wrote at once, how long a token took, how long answers were."""

    users: int
    e2e_s: float
    writing_requests: float
    token_s: float
    answer_tokens: float
    ttft_s: float | None


def start_of_figures(
    levels: Sequence[LevelSummary],
    *,
    workload: Mapping[str, object] | None = None,
    hardware: Hardware | None = None,
    slots: int | None = None,
) -> Start | None:
    """Where a prediction begins; None when there are fewer than two levels that tell latency and throughput while
    nobody waits for one of the ``slots``, or when the constants miss those levels by more than ``WORST_RESIDUAL``.

    People say what ``workload`` says, the ordinary chat where nobody knows.
    """
    table = dict(workload or _CHAT)
    expected = make_workload(table, 1).expected()
    points = [point for level in levels if (point := _point(level, expected.think_s, slots)) is not None]
    if len({point.writing_requests for point in points}) < 2:
        return None
    first = min(points, key=lambda point: point.writing_requests)
    answer_tokens = sum(point.answer_tokens for point in points) / len(points)
    each = _EACH_ANSWER if hardware is not None else ("sequence_s",)
    cost, residual = _fitted(
        points,
        _unknown(first.ttft_s, expected.prompt_tokens) if hardware is None else hardware.cost(),
        each,
        context_tokens=expected.prompt_tokens * expected.turns + answer_tokens,
        prompt_share=expected.prompt_tokens / answer_tokens,
    )
    if residual > WORST_RESIDUAL:
        return None
    return _settled(
        _start(cost, residual, table, answer_tokens / expected.output_tokens, hardware, slots), points, each
    )


def _start(
    cost: Cost,
    residual: float,
    table: dict[str, object],
    answer_share: float,
    hardware: Hardware | None,
    slots: int | None,
) -> Start:
    rng = random.Random("figures")
    spread = max(_SPREAD_AT_LEAST, residual)
    draws = tuple(_scaled(cost, exp(rng.gauss(0.0, spread)), (*_EVERY_STEP, *_EACH_ANSWER)) for _ in range(_DRAWS))
    policy = vllm(slots=min(slots or _MANY_SLOTS, _MANY_SLOTS), pool_tokens=1 << 24, context_tokens=1 << 17)
    return Start(
        served=Served(cost, policy, draws, hardware=hardware),
        workload=table,
        slo=(),
        basis="figures",
        answer_share=(min(1.0, answer_share),),
    )


def _settled(start: Start, points: Sequence[_Point], each: Sequence[str]) -> Start:
    """The same, held at its smallest and its largest level as it will be asked, and moved by what it is off there."""
    few, many = min(points, key=lambda one: one.users), max(points, key=lambda one: one.users)
    for _ in range(_ROUNDS):
        for point, names in ((many, each), (few, _EVERY_STEP)):
            found_s = predict(start, Change(), point.users, draws=0).figures.e2e_p50_s
            if found_s is None:
                return start
            served, factor = start.served, point.e2e_s / found_s
            moved = replace(
                served,
                cost=_scaled(served.cost, factor, names),
                draws=tuple(_scaled(cost, factor, names) for cost in served.draws),
            )
            start = msgspec.structs.replace(start, served=moved)
    return start


def _unknown(ttft_s: float | None, prompt_tokens: float) -> Cost:
    """Where fitting begins on hardware that nobody told; what a token of a prompt costs is told by the first token."""
    token_s = 0.0 if ttft_s is None else max(0.0, ttft_s - _A_STEP_S) / max(1.0, prompt_tokens)
    return Cost(weights_s=_A_STEP_S, sequence_s=_A_SEQUENCE_S, token_s=token_s)


def _point(level: LevelSummary, think_s: float, slots: int | None) -> _Point | None:
    """What a level tells of a step; None where it does not tell latency and throughput, or where requests queued."""
    e2e_s, tokens_per_s = level.e2e_s.p50, level.output_tokens_per_s
    if e2e_s is None or tokens_per_s is None or level.decision == "void" or level.purpose in ("burst", "probe"):
        return None
    requests_per_s = level.requests_per_s or level.users / (e2e_s + think_s)
    answer_tokens = level.output_tokens_mean or tokens_per_s / requests_per_s
    writing = level.in_flight_mean or requests_per_s * e2e_s
    if (level.server_waiting_mean or 0.0) > _QUEUED or (slots is not None and writing > slots):
        return None
    return _Point(level.users, e2e_s, writing, e2e_s / answer_tokens, answer_tokens, level.ttft_s.p50)


def _fitted(
    points: Sequence[_Point], sheet: Cost, each: Sequence[str], *, context_tokens: float, prompt_share: float
) -> tuple[Cost, float]:
    """``sheet`` with both its parts scaled to explain the points, in their own proportions, so that known hardware can
    be exchanged; and how well they do. ``prompt_share``: tokens of prompt that are read for each token written."""

    def cost_at(x: Sequence[float]) -> Cost:
        return _scaled(_scaled(sheet, exp(x[0]), _EVERY_STEP), exp(x[1]), each)

    def errors(cost: Cost) -> list[float]:
        return [
            log(_token_s(cost, point.writing_requests, context_tokens, prompt_share) / point.token_s)
            for point in points
        ]

    def loss(x: list[float]) -> float:
        return sum(error**2 for error in errors(cost_at(x)))

    cost = cost_at(minimise(loss, [0.0, 0.0], steps=(1.0, -0.5, 0.1), rounds=120))
    return cost, sqrt(sum(error**2 for error in errors(cost)) / len(points))


def _token_s(cost: Cost, writing: float, context_tokens: float, prompt_share: float) -> float:
    """A step in which so many answers are written and prompts are read at the rate at which answers end."""
    fixed_s = cost.overhead_s + hypot(cost.weights_s + cost.experts_s, cost.token_s * writing * (1.0 + prompt_share))
    return fixed_s + writing * (cost.sequence_s + cost.context_token_s * context_tokens)


def _scaled(cost: Cost, factor: float, names: Sequence[str]) -> Cost:
    return replace(cost, **{name: getattr(cost, name) * factor for name in names})
