"""History and the model's context: when a conversation must end, and when a server drops history in silence."""

from __future__ import annotations

from collections.abc import Sequence

from headcount.records import Turn

__all__ = ["fits", "stopped_growing", "text_tokens"]

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


def stopped_growing(prompt_tokens: Sequence[int], turns: Sequence[Turn]) -> int | None:
    """The first turn (from 1) whose prompt was not even longer than the one before by half of its own text:
    the server cut history off without saying so. None when every turn grew.

    Answers are left out of the sum, since a reasoning model's thoughts are not re-sent.
    """
    for number in range(1, min(len(prompt_tokens), len(turns))):
        if prompt_tokens[number] - prompt_tokens[number - 1] < text_tokens(turns[number]) / 2:
            return number + 1
    return None
