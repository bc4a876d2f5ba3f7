"""The constants of a step from what a client saw of a server. Pure; knows nothing of how it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log

from headcount.simulator.cost import Cost
from headcount.simulator.minimise import minimise

__all__ = ["DecodeSeen", "Fit", "PrefillSeen", "fit", "prefill_s"]

WORST_RESIDUAL = 0.08
"""Root mean square of the logarithms' residuals beyond which the equation is not this server's."""

_SPREADS = {
    "overhead_s": 0.7,
    "weights_s": 0.5,
    "token_s": 0.7,
    "sequence_s": 1.0,
    "context_token_s": 0.7,
    "pair_s": 1.0,
}
"""How far each constant may lie from its prior: standard deviations of the logarithm."""

_NOISE = 0.03
"""Standard deviation of the logarithm of one observation."""


@dataclass(frozen=True, slots=True)
class PrefillSeen:
    """The first token of one request alone on the server."""

    prompt_tokens: int
    """Computed ones: what the cache spared is left out."""
    ttft_s: float
    """Without the round trip."""


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

    @property
    def is_trusted(self) -> bool:
        """Whether the equation describes this server at all."""
        return self.residual <= WORST_RESIDUAL


def fit(
    prefills: Sequence[PrefillSeen], decodes: Sequence[DecodeSeen], prior: Cost, max_batched_tokens: int = 2048
) -> Fit:
    """The constants nearest to ``prior`` that explain the observations. Adapters and experts stay as in ``prior``."""
    names = list(_SPREADS)

    def cost_at(x: list[float]) -> Cost:
        return replace(prior, **{name: getattr(prior, name) * exp(v) for name, v in zip(names, x, strict=True)})

    def residuals(cost: Cost) -> list[float]:
        of_prefills = (log(prefill_s(cost, seen.prompt_tokens, max_batched_tokens) / seen.ttft_s) for seen in prefills)
        of_decodes = (log(_gap_s(cost, seen) / seen.gap_s) for seen in decodes)
        return [*of_prefills, *of_decodes]

    def loss(x: list[float]) -> float:
        explained = sum((r / _NOISE) ** 2 for r in residuals(cost_at(x)))
        return explained + sum((v / spread) ** 2 for v, spread in zip(x, _SPREADS.values(), strict=True))

    found = cost_at(minimise(loss, [0.0] * len(names), steps=(0.5, -0.4, 0.3, -0.1), rounds=300))
    left = residuals(found)
    return Fit(found, (sum(r * r for r in left) / len(left)) ** 0.5, tuple(left))


def prefill_s(cost: Cost, prompt_tokens: int, max_batched_tokens: int) -> float:
    """Computing a prompt alone, in chunks."""
    total_s, done = 0.0, 0
    while done < prompt_tokens:
        chunk = min(max_batched_tokens, prompt_tokens - done)
        total_s += cost.step_s(chunk, 1, adapted=False) + cost.pair_s * chunk * (done + chunk / 2)
        done += chunk
    return total_s


def _gap_s(cost: Cost, seen: DecodeSeen) -> float:
    """A step with nothing but decoding sequences."""
    step_s = cost.step_s(seen.sequences, seen.sequences, adapted=False)
    return step_s + cost.context_token_s * seen.sequences * seen.context_tokens
