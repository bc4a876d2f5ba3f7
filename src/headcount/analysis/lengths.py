"""Whether prompts and answers had the lengths that were planned, and whether the server kept the history it was sent.

Pure functions of one level's requests. Knows nothing of workloads: what was planned stands in each request.
"""

from __future__ import annotations

import itertools

import msgspec
import numpy as np

from headcount.analysis.conclusions import Caution
from headcount.analysis.table import Flags, Rows

__all__ = ["Lengths", "lengths_of", "not_as_planned", "turn_cliff", "turns_cut"]

_FEW_REQUESTS = 20
"""Below these the mean says little: one short text may be off by 15 %."""
_OFF_FRACTION = 0.05
_LOST_FRACTION = 0.5
"""Below this share of the plan the text does not reach the model."""
_CLIFF_RATIO, _CLIFF_S = 2.0, 0.2
"""A turn whose first token takes longer than this times as long as its longer prompt explains, and by so much."""


class Lengths(msgspec.Struct, frozen=True):
    """What was sent and what came back, over what was planned and asked for. None where nothing is known."""

    prompt_of_plan_fraction: float | None
    """First turns: prompt tokens as the server counts, without its template's, over those planned."""
    planned_prompts: int
    """First turns of which both are known."""
    output_of_asked_fraction: float | None
    """Output tokens of complete answers over the most that was asked for."""


def lengths_of(rows: Rows, template_tokens: int | None) -> Lengths:
    """The lengths of a level's requests, those of its warm-up too: what text costs does not depend on the load.

    ``template_tokens``: what the server adds to a conversation of one message."""
    good = rows.where(rows.good)
    first = good.where((good.turn == 1) & (good.planned_tokens > 0) & (good.prompt_tokens >= 0))
    planned, sent = int(first.planned_tokens.sum()), int(first.prompt_tokens.sum())
    asked = good.where((good.output_tokens >= 0) & (good.max_output_tokens > 0))
    return Lengths(
        (sent - template_tokens * len(first)) / planned if planned and template_tokens is not None else None,
        len(first),
        float(asked.output_tokens.sum() / asked.max_output_tokens.sum()) if len(asked) else None,
    )


def not_as_planned(lengths: Lengths) -> Caution | None:
    """Prompts were more than 5 % longer or shorter than planned."""
    share = lengths.prompt_of_plan_fraction
    if share is None or lengths.planned_prompts < _FEW_REQUESTS or abs(share - 1.0) <= _OFF_FRACTION:
        return None
    said = f"{share - 1.0:.0%} longer" if share > 1.0 else f"{1.0 - share:.0%} shorter"
    return Caution(
        "prompts-not-as-planned",
        f"first prompts were {said} than planned, as the server counts them",
        "the answer holds for the lengths that were sent; for others set workload.tokens_per_word",
        fatal=share < _LOST_FRACTION,
    )


def turns_cut(inside: Rows) -> tuple[int, int]:
    """(turns whose prompt had not grown over that of the turn before by even half of their own text, turns of which
    that could be seen). Answers are left out of it: a reasoning model's thoughts are not sent again."""
    rows = inside.where(inside.good & (inside.prompt_tokens >= 0))
    if not (rows.turn > 1).any():
        return 0, 0
    order = np.lexsort((rows.scheduled_at_s, rows.person))
    person, turn = rows.person[order], rows.turn[order].astype(np.int64)
    prompt, planned = rows.prompt_tokens[order], rows.planned_tokens[order]
    # Of one person the next turn by number and time is of the same conversation: failed ones are begun afresh.
    follows: Flags = (person[1:] == person[:-1]) & (turn[1:] == turn[:-1] + 1) & (planned[1:] > 0)
    return int((follows & (prompt[1:] - prompt[:-1] < planned[1:] / 2)).sum()), int(follows.sum())


def turn_cliff(inside: Rows) -> tuple[int, float, float] | None:
    """(turn, median TTFT of the turn before it, median TTFT of it) where the first token suddenly takes far longer than
    the longer prompt explains; the first such turn. None where there is none, or too few turns to tell.
    """
    known = inside.where(~np.isnan(inside.ttft_s) & inside.good)
    turns = [
        int(turn) for turn, n in zip(*np.unique(known.turn, return_counts=True), strict=True) if n >= _FEW_REQUESTS
    ]
    for before, turn in itertools.pairwise(turns):
        first, second = known.where(known.turn == before), known.where(known.turn == turn)
        short_s, long_s = float(np.median(first.ttft_s)), float(np.median(second.ttft_s))
        grown = float(np.median(second.prompt_tokens)) / max(1.0, float(np.median(first.prompt_tokens)))
        if turn == before + 1 and long_s > short_s + _CLIFF_S and long_s > short_s * _CLIFF_RATIO * max(1.0, grown):
            return turn, short_s, long_s
    return None
