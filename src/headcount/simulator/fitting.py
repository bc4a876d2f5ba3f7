"""The constants of a step from what a client saw of a server. Pure; knows nothing of how it was asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign, exp, log, sqrt

from headcount.simulator.cost import Cost
from headcount.simulator.least_squares import least_squares

__all__ = ["WORST_RESIDUAL", "DecodeSeen", "Fit", "PrefillSeen", "fit", "guess_of", "prefill_s"]

WORST_RESIDUAL = 0.08
"""Root mean square of the logarithms' residuals beyond which the equation is not this server's."""

_SPREADS = {
    "overhead_s": 0.7,
    "weights_s": 0.5,
    "token_s": 0.7,
    "sequence_s": 1.0,
    "context_token_s": 1.0,
    "pair_s": 1.0,
}
"""How far each constant may lie from its prior: standard deviations of the logarithm."""

_REQUEST_SPREAD = 1.5
"""The same of what a request takes outside steps, of which hardly anything is known beforehand."""

_NOISE = 0.03
"""Standard deviation of the logarithm of one observation."""

_MOST_OFF = 0.35
"""Of the logarithm of one batch size: what is further off is no kernel's doing."""

_ORDINARY = 2.0
"""Residuals beyond so many standard deviations count as if they grew by their root: a machine that was disturbed once
must not decide."""


@dataclass(frozen=True, slots=True)
class PrefillSeen:
    """The first token of one request whose prompt is the only one that is computed."""

    prompt_tokens: int
    """Computed ones: what the cache spared is left out."""
    ttft_s: float
    beside: int = 0
    """Sequences that decoded meanwhile."""
    beside_context_tokens: float = 0.0
    """Mean context of one of them."""
    cached_tokens: int = 0
    """What the cache spared: not computed, but attended to."""


@dataclass(frozen=True, slots=True)
class DecodeSeen:
    """The pause between tokens while some sequences decode and nobody's prompt is computed."""

    sequences: int
    context_tokens: float
    """Mean context of one of them."""
    gap_s: float


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found, and how well it explains what was seen."""

    cost: Cost
    residual: float
    """Root mean square of log(fitted / seen)."""
    residuals: tuple[float, ...]
    """One for each observation, prefills first."""
    request_s: float = 0.0
    """What a request takes outside every step."""
    covariance: tuple[tuple[float, ...], ...] = ()
    """Of the logarithms of the constants in the order of ``spreads``; empty where nothing was fitted."""

    @property
    def is_trusted(self) -> bool:
        """Whether the equation describes this server at all."""
        return self.residual <= WORST_RESIDUAL

    @property
    def spreads(self) -> dict[str, float]:
        """Standard deviation of the logarithm of each constant that was fitted."""
        names = [*_SPREADS, "request_s"]
        return {name: row[i] ** 0.5 for i, (name, row) in enumerate(zip(names, self.covariance, strict=False))}

    def draws(self, n: int, seed: int = 1) -> tuple[Cost, ...]:
        """Constants that explain what was seen about as well."""
        rng, factor = random.Random(f"constants {seed}"), _cholesky(self.covariance)
        found = []
        for _ in range(n):
            normal = [rng.gauss(0.0, 1.0) for _ in factor]
            moves = [sum(a * b for a, b in zip(row, normal, strict=True)) for row in factor]
            values = {name: getattr(self.cost, name) * exp(move) for name, move in zip(_SPREADS, moves, strict=False)}
            found.append(replace(self.cost, **values))
        return tuple(found)


def fit(
    prefills: Sequence[PrefillSeen],
    decodes: Sequence[DecodeSeen],
    prior: Cost,
    max_batched_tokens: int = 2048,
    request_s: float | None = None,
    *,
    prefill_alone: bool = False,
) -> Fit:
    """The constants nearest to ``prior`` that explain the observations. Adapters and experts stay as in ``prior``.

    ``request_s`` is a guess of what a request takes outside every step, to be fitted too; None: nothing.
    ``prefill_alone``: prompts are computed in steps of their own.
    """
    names = list(_SPREADS)
    spreads = [*_SPREADS.values(), *([] if request_s is None else [_REQUEST_SPREAD])]

    def cost_at(x: list[float]) -> Cost:
        return replace(prior, **{name: getattr(prior, name) * exp(v) for name, v in zip(names, x, strict=False)})

    def outside_s(x: list[float]) -> float:
        return 0.0 if request_s is None else request_s * exp(x[-1])

    def residuals(x: list[float]) -> list[float]:
        cost, more_s = cost_at(x), outside_s(x)
        of_prefills = [
            log((more_s + _first_s(cost, seen, max_batched_tokens, prefill_alone)) / seen.ttft_s) for seen in prefills
        ]
        return of_prefills + [log(_gap_s(cost, seen) / seen.gap_s) for seen in decodes]

    def weighed(x: list[float]) -> list[float]:
        own = [v / spread for v, spread in zip(x, spreads, strict=True)]
        return [*(_tamed(r / _NOISE) for r in residuals(x)), *own]

    x, covariance = least_squares(weighed, [0.0] * len(spreads))
    left = residuals(x)
    residual = (sum(r * r for r in left) / len(left)) ** 0.5
    noise = max(1.0, residual / _NOISE) ** 2
    found = cost_at(x)
    return Fit(
        replace(found, batch_factor=_batch_factor(found, decodes)),
        residual,
        tuple(left),
        outside_s(x),
        tuple(
            tuple(min(noise * v, spread * spread) if i == j else noise * v for j, v in enumerate(row))
            for i, (row, spread) in enumerate(zip(covariance, spreads, strict=True))
        ),
    )


def _batch_factor(cost: Cost, decodes: Sequence[DecodeSeen]) -> tuple[tuple[int, float], ...]:
    """What was seen over what the equation says, by the number of sequences; of small deviations less is believed."""
    deviations: dict[int, list[float]] = {}
    for seen in decodes:
        own_s = cost.step_s(seen.sequences, seen.sequences, adapted=False)
        rest_s = max(0.1 * seen.gap_s, seen.gap_s - cost.context_token_s * seen.sequences * seen.context_tokens)
        deviations.setdefault(seen.sequences, []).append(log(rest_s / own_s))
    points = []
    for sequences, found in sorted(deviations.items()):
        deviation = sum(found) / len(found)
        believed = deviation**3 / (deviation**2 + _NOISE**2)
        points.append((sequences, exp(min(_MOST_OFF, max(-_MOST_OFF, believed)))))
    return tuple(points) if any(abs(factor - 1.0) > 0.01 for _, factor in points) else ()


def guess_of(prefills: Sequence[PrefillSeen], decodes: Sequence[DecodeSeen]) -> Cost:
    """A prior from the observations themselves, for a server of which nothing else is known: the size of each constant
    by the simplest reading of what was seen. ``ValueError`` when there is nothing to read it from."""
    if not prefills or not decodes:
        raise ValueError("no prompts or no answers were seen")
    alone = min(decodes, key=lambda seen: (seen.sequences, seen.context_tokens))
    most = max(decodes, key=lambda seen: (seen.sequences, -seen.context_tokens))
    longest = max(prefills, key=lambda seen: seen.prompt_tokens)
    shortest = min(prefills, key=lambda seen: seen.prompt_tokens)
    length = max(1, longest.prompt_tokens - shortest.prompt_tokens)
    token_s = max(1e-9, (longest.ttft_s - shortest.ttft_s) / length)
    if length == 1:
        token_s = longest.ttft_s / longest.prompt_tokens
    sequence_s = max(0.0, most.gap_s - alone.gap_s) / max(1, most.sequences - alone.sequences)
    deepest = max(decodes, key=lambda seen: seen.sequences * seen.context_tokens)
    return Cost(
        overhead_s=0.2 * alone.gap_s,
        weights_s=0.7 * alone.gap_s,
        token_s=0.8 * token_s,
        sequence_s=max(0.3 * sequence_s, 1e-3 * alone.gap_s),
        context_token_s=0.03 * deepest.gap_s / (deepest.sequences * deepest.context_tokens),
        pair_s=0.1 * token_s / max(1, longest.prompt_tokens),
    )


def prefill_s(cost: Cost, prompt_tokens: int, max_batched_tokens: int) -> float:
    """Computing a prompt alone, in chunks."""
    total_s, done = 0.0, 0
    while done < prompt_tokens:
        chunk = min(max_batched_tokens, prompt_tokens - done)
        total_s += cost.step_s(chunk, 1, adapted=False) + cost.pair_s * chunk * (done + chunk / 2)
        done += chunk
    return total_s


def _first_s(cost: Cost, seen: PrefillSeen, max_batched_tokens: int, prefill_alone: bool) -> float:
    """The prompt, whose steps the others share unless it has them alone, after half of the step that it arrives in."""
    own_s = prefill_s(cost, seen.prompt_tokens, max_batched_tokens)
    own_s += cost.pair_s * seen.prompt_tokens * seen.cached_tokens
    if not seen.beside:
        return own_s
    others = DecodeSeen(seen.beside, seen.beside_context_tokens, 0.0)
    half_s = _gap_s(cost, others) / 2
    if prefill_alone:
        return half_s + own_s
    step_s = cost.step_s(seen.prompt_tokens + seen.beside, 1 + seen.beside, adapted=False)
    more_s = step_s - cost.step_s(seen.prompt_tokens, 1, adapted=False)
    return half_s + own_s + more_s + cost.context_token_s * seen.beside * seen.beside_context_tokens


def _gap_s(cost: Cost, seen: DecodeSeen) -> float:
    """A step with nothing but decoding sequences."""
    step_s = cost.step_s(seen.sequences, seen.sequences, adapted=False)
    return step_s + cost.context_token_s * seen.sequences * seen.context_tokens


def _tamed(deviation: float) -> float:
    """Huber's loss as a residual: its square grows linearly beyond what is ordinary."""
    size = abs(deviation)
    if size <= _ORDINARY:
        return deviation
    return copysign(sqrt(2.0 * _ORDINARY * size - _ORDINARY * _ORDINARY), deviation)


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose product with itself is ``matrix``; directions without variance get none."""
    size = len(matrix)
    lower = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            if i == j:
                lower[i][i] = max(0.0, rest) ** 0.5
            elif lower[j][j] > 0.0:
                lower[i][j] = rest / lower[j][j]
    return lower
