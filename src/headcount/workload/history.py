"""History and the model's context: when a conversation must end."""

from __future__ import annotations

from headcount.records import Turn

__all__ = ["fits", "text_tokens"]

BYTES_PER_TOKEN = 3.0
"""Of unplanned text; ordinary text has more, so that the estimate errs on the long side."""


def text_tokens(turn: Turn) -> int:
    """What the turn's text costs: as planned, else by its bytes."""
    if turn.planned_prompt_tokens is not None:
        return turn.planned_prompt_tokens
    return round(len(turn.text.encode()) / BYTES_PER_TOKEN)


def fits(prompt_tokens: int | None, output_tokens: int | None, following: Turn, context_tokens: int | None) -> bool:
    """Whether the next turn, its answer included, still fits after a turn of which the server counted this.

    True where a limit or the counts are unknown: then the first ``context_overflow`` tells.
    """
    if context_tokens is None or prompt_tokens is None:
        return True
    history_tokens = prompt_tokens + (output_tokens or 0)
    return history_tokens + text_tokens(following) + following.max_output_tokens <= context_tokens
