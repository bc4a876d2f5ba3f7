"""The instant companion of the simulator: the same server as a birth-death chain, for sliders and first guesses.

People think or wait (the machine-repairman loop); the server is processor sharing whose speed depends on how many
share it. Exact for exponential times, and close for others. Knows means only, no percentiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from headcount.simulator.cost import Cost

__all__ = ["Means", "predict"]


@dataclass(frozen=True, slots=True)
class Means:
    """The steady state of a closed loop."""

    requests_per_s: float
    e2e_s: float
    """From pressing enter to the last token."""
    in_flight_requests: float
    """Waiting ones included."""
    output_tokens_per_s: float


def predict(
    cost: Cost,
    slots: int,
    users: int,
    think_s: float,
    new_prompt_tokens: float,
    output_tokens: float,
    context_tokens: float,
) -> Means:
    """``users`` people who ask, wait and think.

    ``new_prompt_tokens`` is what a prompt has beyond the cached history, ``context_tokens`` the mean context of a
    decoding sequence.
    """
    weight, weights = 1.0, [1.0]
    rates = [0.0]
    for inside in range(1, users + 1):
        rates.append(_ends_per_s(cost, min(inside, slots), new_prompt_tokens, output_tokens, context_tokens))
        weight *= (users - inside + 1) / think_s / rates[inside]
        weights.append(weight)
        if weight > 1e200:
            weights = [each * 1e-200 for each in weights]
            weight *= 1e-200
    total = sum(weights)
    rate_per_s = sum(each * rate for each, rate in zip(weights, rates, strict=True)) / total
    in_flight = sum(each * inside for inside, each in enumerate(weights)) / total
    return Means(rate_per_s, in_flight / rate_per_s, in_flight, rate_per_s * output_tokens)


def _ends_per_s(cost: Cost, running: int, prompt: float, output: float, context: float) -> float:
    """Answers a second with ``running`` sequences: each costs its own steps and everybody's prefill in between."""
    step_s = cost.step_s(running, running, adapted=False) + cost.context_token_s * running * context
    prefill_s = cost.token_s * prompt + cost.pair_s * prompt * (max(0.0, context - output / 2 - prompt) + prompt / 2)
    return running / (output * step_s + running * prefill_s)
