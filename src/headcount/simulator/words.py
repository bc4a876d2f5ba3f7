"""What text costs in tokens, by a fixed rule, and text that costs exactly so much. Knows no tokenizer.

The rule: words are split at white space; a word of ASCII characters costs one token for each 6 characters
begun, any other word 2 tokens for each 3 characters begun (Korean syllables, Chinese characters, Cyrillic).
English prose comes to about 1.2 tokens a word, Korean to about 2. A message costs 4 more, a prompt 3.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import cycle, islice

__all__ = ["MESSAGE_TOKENS", "PROMPT_TOKENS", "WORDS", "text_of", "text_tokens"]

MESSAGE_TOKENS = 4
PROMPT_TOKENS = 3

_PROSE = (
    "the river bends where old stones lie and light moves on the water as we walk past trees with "
    "quiet steps then rest a while to hear birds call from high above their songs drift over fields of "
    "barley green in spring but gold when summer ends so take your time look up now see how clouds"
)
WORDS = tuple(_PROSE.split())
"""What simulated answers repeat: at most 6 characters each, so one token a word."""


@lru_cache(maxsize=65_536)
def _word_tokens(word: str) -> int:
    if word.isascii():
        return -(-len(word) // 6)
    return -(-2 * len(word) // 3)


@lru_cache(maxsize=8192)
def text_tokens(text: str) -> int:
    """Tokens of ``text`` by the rule above; 0 for white space."""
    return sum(map(_word_tokens, text.split()))


@lru_cache(maxsize=4096)
def text_of(tokens: int) -> str:
    """English-looking text of exactly ``tokens`` tokens; always the same.

    >>> text_tokens(text_of(37))
    37
    """
    return " ".join(islice(cycle(WORDS), tokens))
