"""Text of a wanted number of words: ordinary sentences, and a beginning that no other conversation has.

A *pattern* is a row of slots, a slot some alternatives; a number picks one of each, its digits in mixed base.
The opening of a conversation spells its number in that way: within one persona and level different numbers give
different openings, always; and whoever starts next to each other starts with different words. Knows nothing of tokens.
"""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from headcount.workload import english, korean

__all__ = ["LANGUAGES", "Language", "language_of", "opening", "size", "spell", "write"]

HANGUL_SHARE = 0.2
"""From this share of Korean letters on a text counts as Korean: code and names in it stay Latin."""

Pattern = tuple[tuple[str, ...], ...]

_STEP = 2**61 - 1
"""A prime, so that it has no factor in common with any pattern's number of sentences."""


class Language(NamedTuple):
    """What it takes to write in one language."""

    opening: Pattern
    sentences: tuple[Pattern, ...]
    asks: tuple[str, ...]
    """Requests for a long answer, the longest first."""
    tokens_per_word: float
    """A first guess, until the server's usage tells."""


LANGUAGES: dict[str, Language] = {
    "english": Language(english.OPENING, english.SENTENCES, english.ASKS, english.TOKENS_PER_WORD),
    "korean": Language(korean.OPENING, korean.SENTENCES, korean.ASKS, korean.TOKENS_PER_WORD),
}


def spell(pattern: Pattern, number: int) -> str:
    """The sentence a number stands for; numbers below the pattern's size give different ones."""
    words = []
    for slot in pattern:
        number, place = divmod(number, len(slot))
        words.append(slot[place])
    return " ".join(words)


def size(pattern: Pattern) -> int:
    """How many different sentences a pattern has."""
    return math.prod(map(len, pattern))


def opening(language: Language, number: int, offset: int) -> str:
    """The first sentence of conversation ``number`` of a stream that has its own ``offset``.

    Two numbers of one stream never share it: (number * prime + offset) mod size is a permutation. Two streams share
    one with the chance of their numbers of conversations multiplied, over the size (above 2**48).
    """
    return spell(language.opening, (number * _STEP + offset) % size(language.opening))


def language_of(text: str) -> str:
    """``korean`` or ``english``, by the letters at the beginning of a text.

    >>> language_of("이 Python code를 설명해 줘"), language_of("Explain 받침 to me, please")
    ('korean', 'english')
    """
    letters = [letter for letter in text[:400] if letter.isalpha()]
    hangul = sum("가" <= letter <= "힣" for letter in letters)
    return "korean" if hangul > HANGUL_SHARE * len(letters) else "english"


def write(language: Language, words: int, rng: Random, begin: str = "", ask: bool = True) -> str:
    """Exactly ``words`` words (at least one): ``begin``, sentences, and a request for a long answer.

    The request is the longest that takes at most half of the words; very short texts have none.
    """
    last = next((a.split() for a in language.asks if 2 * len(a.split()) <= words), []) if ask else []
    room = max(1, words) - len(last)
    text = begin.split()
    patterns = language.sentences
    while len(text) < room:
        bits = rng.getrandbits(64)
        text += spell(patterns[bits % len(patterns)], bits // len(patterns)).split()
    del text[room:]
    if last and not text[-1].endswith((".", ":", "?")):
        text[-1] = text[-1].rstrip(",") + "."
    return " ".join(text + last)
