"""Named random streams: every draw belongs to a name, so that nobody's words depend on what others do."""

from __future__ import annotations

import hashlib
import random

__all__ = ["number_of", "random_stream", "words_of"]


def number_of(*names: str | int) -> int:
    """64 bits that belong to these names. Different names give different numbers but for one chance in 2**64.

    >>> number_of(1, "find", 7) == number_of(1, "find", 7), number_of(1, "2") == number_of(12)
    (True, False)
    """
    joined = "".join(f"{len(text)}:{text}" for text in map(str, names))
    return int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=8).digest())


def random_stream(*names: str | int) -> random.Random:
    """The random numbers that belong to these names: always the same ones."""
    return random.Random(number_of(*names))


def words_of(stream: str) -> str:
    """The part of a level's stream that lengths, pauses and words belong to. What stands after a bar belongs to the
    first sentences alone: people who say the same again are not found in a server's prefix cache.

    >>> words_of("8 people, visit 1|whole answers")
    '8 people, visit 1'
    """
    return stream.partition("|")[0]
