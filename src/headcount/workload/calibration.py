"""What a word costs in the server's tokens, learned from its own counts: no tokenizer needed.

Pure: texts to send, and a line through what came back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import StatisticsError, fmean, linear_regression

import msgspec

from headcount.workload.streams import number_of, random_stream
from headcount.workload.text import LANGUAGES, opening, write

__all__ = ["TokenCost", "calibration_texts", "fit_token_cost"]

SHORT_WORDS, LONG_WORDS, EACH = 20, 240, 3


class TokenCost(msgspec.Struct, frozen=True):
    """prompt tokens = overhead_tokens + words x tokens_per_word, for one language and model."""

    tokens_per_word: float
    overhead_tokens: float
    """What the server's template adds to a conversation of one message; never below 0."""
    residual_fraction: float
    """The largest distance of a measured count from the line, as a share of the count."""


def calibration_texts(language: str, seed: int) -> tuple[str, ...]:
    """Short and long texts whose prompt tokens tell the cost of a word; made as those that are sent later."""
    spoken = LANGUAGES[language]
    rng = random_stream(seed, "calibration", language)
    offset = number_of(seed, "calibration", language, "openings")
    lengths = itertools.chain.from_iterable(itertools.repeat((SHORT_WORDS, LONG_WORDS), EACH))
    return tuple(write(spoken, words, rng, opening(spoken, i, offset)) for i, words in enumerate(lengths))


def fit_token_cost(counted: Sequence[tuple[int, int]]) -> TokenCost | None:
    """The cost from pairs (words of one message, the server's prompt tokens).

    None when it cannot be told: fewer than two different lengths, or tokens that do not grow with the words
    (a server that does not count, or truncates).
    """
    words = [float(pair[0]) for pair in counted]
    tokens = [float(pair[1]) for pair in counted]
    try:
        per_word, overhead = linear_regression(words, tokens)
    except StatisticsError:
        return None
    if overhead < 0:
        per_word, overhead = fmean(tokens) / fmean(words), 0.0
    if per_word <= 0:
        return None
    misses = (abs(overhead + per_word * w - t) / t for w, t in zip(words, tokens, strict=True) if t)
    return TokenCost(per_word, overhead, max(misses, default=0.0))
