"""Two levels that no constant was fitted to, held on the server and in the simulator: near half of what it can take,
and near all of it.

The same prompts and answers on both sides, as many tokens as the server counted, so that only the times are predicted.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import numpy as np

from headcount.engine import Engine
from headcount.prediction.calibration import Check
from headcount.probing import Asker
from headcount.simulator.cost import Cost
from headcount.simulator.drive import Person, drive
from headcount.simulator.job import Job
from headcount.simulator.policy import Policy
from headcount.simulator.server import Server
from headcount.stats.quantile import quantile
from headcount.virtual import clock

__all__ = ["Lived", "capacity", "check_level", "predicted"]

_WORDS, _TOKENS = (30, 200), (40, 120)
_MOST_AT_ONCE = 64
_SLOWEST_TOKEN_S = 0.1
"""Beyond it nobody would call the server well used."""


_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lived:
    """One answered question of a check."""

    stream: int
    asked_at_s: float
    ttft_s: float
    e2e_s: float
    prompt_tokens: int
    """Computed ones."""
    output_tokens: int


_FEWEST_ROUNDS, _MOST_ROUNDS, _SHORTEST_SHARE = 4, 60, 0.25
_PATIENCE = 1.4
"""A level that takes so many times as long as was foreseen is ended."""


def capacity(cost: Cost, policy: Policy, context_tokens: float = 250.0) -> int:
    """Answers at once that the server takes without getting unbearably slow: at most its slots, and 64."""
    most = min(policy.slots, _MOST_AT_ONCE)

    def gap_s(requests: int) -> float:
        return cost.step_s(requests, requests, adapted=False) + cost.context_token_s * requests * context_tokens

    bearable_s = max(_SLOWEST_TOKEN_S, 3.0 * gap_s(1))
    return max(1, max((n for n in range(1, most + 1) if gap_s(n) <= bearable_s), default=1))


async def check_level(
    engine: Engine, cost: Cost, policy: Policy, outside_s: tuple[float, float], requests: int, longest_s: float
) -> Check:
    """Hold ``requests`` streams of questions for about ``longest_s`` and predict the same. ``outside_s``: what a
    request takes before its first step, and after its last one."""
    step_s = cost.step_s(requests, requests, adapted=False) + cost.context_token_s * requests * 250.0
    words, tokens = (_WORDS[0], min(_WORDS[1], policy.context_tokens // 8)), _TOKENS
    answer_s = step_s * sum(tokens) / 2 + requests * cost.token_s * 2.0 * sum(words) / 2 + sum(outside_s)
    if answer_s * _FEWEST_ROUNDS > longest_s:  # a slow server gets shorter questions, so that there are enough of them
        share = max(_SHORTEST_SHARE, longest_s / answer_s / _FEWEST_ROUNDS)
        words, tokens = (_shorter(words, share), _shorter(tokens, share))
        answer_s *= share
    rounds = min(_MOST_ROUNDS, max(2, round(longest_s / answer_s)))
    lived = await _live(engine, requests, rounds, answer_s, (words, tokens), _PATIENCE * longest_s)
    label = f"{requests} at once"
    if len(lived) < requests:
        return Check(
            level=label,
            n_requests=len(lived),
            e2e_p50_s=None,
            predicted_e2e_p50_s=None,
            ttft_p95_s=None,
            predicted_ttft_p95_s=None,
            output_tokens_per_s=None,
            predicted_output_tokens_per_s=None,
        )
    foreseen = predicted(lived, cost, policy, *outside_s)
    return Check(
        level=label,
        n_requests=len(lived),
        e2e_p50_s=_quantile([one.e2e_s for one in lived], 0.5),
        predicted_e2e_p50_s=_quantile([one.e2e_s for one in foreseen], 0.5),
        ttft_p95_s=_quantile([one.ttft_s for one in lived], 0.95),
        predicted_ttft_p95_s=_quantile([one.ttft_s for one in foreseen], 0.95),
        output_tokens_per_s=_tokens_per_s(lived),
        predicted_output_tokens_per_s=_tokens_per_s(foreseen),
    )


async def _live(
    engine: Engine, requests: int, rounds: int, answer_s: float, lengths: tuple[_Range, _Range], longest_s: float
) -> list[Lived]:
    """Everybody asks ``rounds`` times, one question right after the other, begun apart from each other; nothing more
    after ``longest_s``."""
    asker, now = Asker(engine), clock()
    began_s, lived = now(), []

    async def stream(number: int) -> None:
        rng = random.Random(f"check {requests} {number}")
        await asyncio.sleep(answer_s * number / requests)
        for _ in range(rounds):
            if now() - began_s > longest_s:
                return
            asked_at_s, reply = await asker.ask(asker.text(rng.randint(*lengths[0])), rng.randint(*lengths[1]))
            if reply.error is not None or not reply.chunk_at_s or not reply.prompt_tokens or not reply.output_tokens:
                return
            lived.append(
                Lived(
                    stream=number,
                    asked_at_s=asked_at_s - began_s,
                    ttft_s=reply.chunk_at_s[0] - asked_at_s,
                    e2e_s=reply.chunk_at_s[-1] - asked_at_s,
                    prompt_tokens=max(1, reply.prompt_tokens - (reply.cached_tokens or 0)),
                    output_tokens=reply.output_tokens,
                )
            )

    await asyncio.gather(*map(stream, range(requests)))
    return lived


def predicted(lived: list[Lived], cost: Cost, policy: Policy, request_s: float, tail_s: float = 0.0) -> list[Lived]:
    """The same questions in the simulator: each stream begins when it did, and asks on when it is answered."""
    streams: dict[int, list[Lived]] = {}
    for one in sorted(lived, key=lambda one: one.asked_at_s):
        streams.setdefault(one.stream, []).append(one)

    def person(asked: list[Lived]) -> Person:
        pause_s = asked[0].asked_at_s + request_s
        for one in asked:
            yield pause_s, Job(one.prompt_tokens, one.output_tokens, limit_tokens=_TOKENS[1])
            pause_s = tail_s + request_s

    found = []
    for job in drive(Server(cost, policy), [person(asked) for asked in streams.values()]):
        ended_at_s = job.ended_at_s or job.submitted_at_s
        first_at_s = job.first_token_at_s or ended_at_s
        asked_at_s = job.submitted_at_s - request_s
        found.append(
            Lived(
                stream=int(str(job.tag)),
                asked_at_s=asked_at_s,
                ttft_s=first_at_s - asked_at_s,
                e2e_s=ended_at_s - asked_at_s,
                prompt_tokens=job.prompt_tokens,
                output_tokens=job.output_tokens,
            )
        )
    return found


def _shorter(lengths: _Range, share: float) -> _Range:
    return round(share * lengths[0]), round(share * lengths[1])


def _quantile(values: list[float], share: float) -> float | None:
    return quantile(np.asarray(values), share)


def _tokens_per_s(lived: list[Lived]) -> float:
    began_s = min(one.asked_at_s for one in lived)
    ended_s = max(one.asked_at_s + one.e2e_s for one in lived)
    return sum(one.output_tokens for one in lived) / max(1e-9, ended_s - began_s)
