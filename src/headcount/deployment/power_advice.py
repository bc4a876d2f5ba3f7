"""A power limit worth setting, from a run whose conditions are power limits. Knows nothing of how limits are set."""

from __future__ import annotations

import re
from collections import defaultdict

from headcount.analysis.conclusions import LevelSummary
from headcount.deployment.capacity import Measured, figure

__all__ = ["LOSS_ALLOWED_FRACTION", "power_advice"]

LOSS_ALLOWED_FRACTION = 0.05
"""Of the tokens per second at the highest limit."""
_WATTS = re.compile(r"(\d+(?:\.\d+)?)\s*W\b")


def power_advice(measured: Measured) -> tuple[str, tuple[str, ...]] | None:
    """The lowest limit that costs at most ``LOSS_ALLOWED_FRACTION`` of the throughput, as a sentence and its figures;
    None for a run without such conditions, or where only the highest limit keeps that much.

    Limits are compared at the most people that were held under all of them.
    """
    levels = _by_limit(measured)
    if len(levels) < 2:
        return None
    common = set.intersection(*(set(held) for held in levels.values()))
    if not common:
        return None
    users = max(common)
    full_w = max(levels)
    full = levels[full_w][users].output_tokens_per_s
    if not full:
        return None
    kept = {limit_w: (held[users].output_tokens_per_s or 0.0) / full for limit_w, held in levels.items()}
    best_w = min(limit_w for limit_w, share in kept.items() if share >= 1.0 - LOSS_ALLOWED_FRACTION)
    if best_w == full_w:
        return None
    shown = tuple(
        figure(
            measured.name,
            levels[limit_w][users],
            f"{limit_w:g} W, {levels[limit_w][users].output_tokens_per_s:.0f} tokens/s",
        )
        for limit_w in (full_w, best_w)
    )
    return f"A power limit of {best_w:g} W keeps {kept[best_w]:.0%} of the tokens per second.", shown


def _by_limit(measured: Measured) -> dict[float, dict[int, LevelSummary]]:
    """Levels by power limit and people; conditions that name no watts are left out."""
    found: dict[float, dict[int, LevelSummary]] = defaultdict(dict)
    for level in measured.verdict.levels:
        limit = _WATTS.search(level.condition)
        if limit is not None and level.decision != "void":
            found[float(limit[1])][level.users] = level
    return dict(found)
