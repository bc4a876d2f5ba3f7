"""How long one engine step takes. Knows nothing of queues, memory and requests."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

__all__ = ["Cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The constants of one model on one machine; every term in seconds.

    ``t = (overhead + hypot(weights, token * tokens) + sequence * sequences) * (1 + adapter)
    + context_token * K + pair * Pairs``, where *tokens* are all tokens of the step (one a decoding sequence,
    a chunk a prefilling one), *K* the sum of the contexts of the decoding sequences and *Pairs* the sum of
    chunk * (context before it + chunk / 2). The hypotenuse is a smooth roofline: reading the weights and
    computing on them overlap.
    """

    overhead_s: float = 0.0
    """Launch, sampling, scheduling: what a step costs with nothing in it."""
    weights_s: float = 0.0
    """Reading every weight once that a step always reads."""
    token_s: float = 0.0
    """Multiplying one token with all linear layers."""
    sequence_s: float = 0.0
    """What each sequence adds to a step: sampling, its answer's way out."""
    context_token_s: float = 0.0
    """Reading the keys and values of one token of a decoding sequence's context."""
    pair_s: float = 0.0
    """Attention between one token of a prefill chunk and one token before it."""
    adapter_fraction: float = 0.0
    """How much slower the linear part is when a LoRA adapter is in the batch."""
    adapter_load_s: float = 0.0
    """Bringing an adapter onto the GPU that is not there yet."""
    experts_s: float = 0.0
    """Mixture of experts: reading *all* experts once, on top of ``weights_s``."""
    expert_fraction: float = 1.0
    """The share of experts one token visits."""
    batch_factor: tuple[tuple[int, float], ...] = ()
    """(tokens of a step, factor on the part that does not depend on contexts), ascending: kernels that change with the
    size of the batch leave the equation there. Between them by proportion; none from four times the last on."""

    def step_s(self, tokens: int, sequences: int, adapted: bool) -> float:
        """The part of a step that does not depend on contexts."""
        weights_s = self.weights_s
        if self.experts_s:
            weights_s += self.experts_s * (1.0 - (1.0 - self.expert_fraction) ** tokens)
        linear_s = self.overhead_s + hypot(weights_s, self.token_s * tokens) + self.sequence_s * sequences
        if self.batch_factor:
            linear_s *= _between(self.batch_factor, tokens)
        return linear_s * (1.0 + self.adapter_fraction) if adapted else linear_s


def _between(points: tuple[tuple[int, float], ...], tokens: int) -> float:
    """The factor for that many tokens."""
    below, factor_below = points[0]
    if tokens <= below:
        return factor_below
    for above, factor_above in (*points[1:], (4 * points[-1][0], 1.0)):
        if tokens < above:
            return factor_below + (factor_above - factor_below) * (tokens - below) / (above - below)
        below, factor_below = above, factor_above
    return 1.0
