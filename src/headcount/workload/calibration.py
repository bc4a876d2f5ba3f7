"""What a word costs in the server's tokens, learned from its own counts: no tokenizer needed.

Pure: texts to send, and what their counts tell. A first few short texts give a guess, with which further ones get the
lengths that are sent later: short texts of a vocabulary cost other than long ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from headcount.workload import Workload

__all__ = ["PROBE", "CalibrationText", "TokenCost", "calibration_texts", "token_cost"]

PROBE = "Hi"
"""One token in any vocabulary: sent alone, all but one of its prompt tokens are the server's template."""

PEOPLE = 200
LONGEST_WORDS = 160
MOST_TOKENS_PER_WORD = 12
"""Of a vocabulary that knows no Korean: even then the longest text fits the context."""


class CalibrationText(msgspec.Struct, frozen=True):
    """One message to send alone."""

    key: str
    """``english``, or ``english@MODEL`` where the workload names a model: a key of ``tokens_per_word``."""
    model: str | None
    text: str


class TokenCost(msgspec.Struct, frozen=True):
    """prompt tokens = overhead_tokens + words x tokens_per_word, for one language and model."""

    tokens_per_word: float
    overhead_tokens: int
    """What the server's template adds to a conversation of one message."""
    error_fraction: float
    """Standard error of ``tokens_per_word``, as a share of it; infinite for a single text."""


def calibration_texts(
    workload: Workload, context_tokens: int | None = None, each: int = 24, longest_words: int = LONGEST_WORDS
) -> tuple[CalibrationText, ...]:
    """The first words of ``each`` people of each language and model, as long as they will be sent, or cut to
    ``longest_words`` and to what certainly fits. None of them is sent again later. Empty when nothing is planned by
    words (real data)."""
    most = max(12, min(longest_words, (context_tokens or 4096) // MOST_TOKENS_PER_WORD))
    found: Counter[str] = Counter()
    texts = []
    for person in range(PEOPLE):
        talk = next(workload.conversations(person, "calibration"))
        key = f"{talk.language}@{talk.model}" if talk.model else talk.language
        if found[key] < each and talk.turns[0].planned_prompt_tokens is not None:
            found[key] += 1
            texts.append(CalibrationText(key, talk.model, " ".join(talk.turns[0].text.split()[:most])))
    return tuple(texts)


def token_cost(probe_tokens: int, counted: Sequence[tuple[int, int]]) -> TokenCost | None:
    """The cost, from the prompt tokens of ``PROBE`` and pairs (words of a text, its prompt tokens).

    A ratio of sums, not a line: a line's slope would carry what openings cost into texts of other lengths.
    None when the counts tell nothing: none, or no more tokens than the probe has (a server that does not count).
    """
    overhead_tokens = max(0, probe_tokens - 1)
    words = sum(pair[0] for pair in counted)
    tokens = sum(pair[1] - overhead_tokens for pair in counted)
    if not words or tokens <= len(counted):
        return None
    per_word = tokens / words
    n = len(counted)
    misses = sum((count - overhead_tokens - per_word * length) ** 2 for length, count in counted)
    error = math.sqrt(misses / (n - 1) * n) / tokens if n > 1 else math.inf
    return TokenCost(per_word, overhead_tokens, error)
