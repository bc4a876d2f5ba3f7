"""How large and how small what a scenario says may be: beyond, nobody means it and nothing could hold it.

Data only; the messages name the key, and are made where tables are read.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

__all__ = [
    "MOST_OUTPUT_TOKENS",
    "MOST_PROMPT_TOKENS",
    "MOST_TURNS",
    "MOST_USERS",
    "MOST_WAIT_S",
    "RatePerS",
    "TokenCost",
    "Wait",
    "Weight",
]

MOST_USERS = 2**20
"""People of one level have numbers below this."""
MOST_TURNS = 1000
MOST_PROMPT_TOKENS = 10_000_000
"""Of one turn, and of all turns of a conversation together: the longest contexts there are."""
MOST_OUTPUT_TOKENS = 1_000_000
MOST_WAIT_S = 86_400.0
"""A day: of pauses, stages, time-outs and windows."""

Wait = Annotated[float, Meta(ge=0, le=MOST_WAIT_S)]
Weight = Annotated[float, Meta(ge=0, le=1e9)]
RatePerS = Annotated[float, Meta(ge=0.01, le=1e6)]
"""Tokens a second that people read or type."""
TokenCost = Annotated[float, Meta(ge=0.01, le=100)]
"""Tokens of one word."""
