"""The timeline of requests at the limit as an SVG's rectangles: who waited, who was being answered.

Drawn without a script, so that it also shows where scripts are off. Knows nothing of levels.
"""

from __future__ import annotations

from typing import Any

from headcount.report.format import seconds
from headcount.report.traffic import Bar, Traffic
from headcount.report.words import Words

__all__ = ["timeline"]

_WIDTH = 1000.0
_ROW = 11
_MOST_BARS = 1500
_TICK_S = 10


def timeline(traffic: Traffic | None, title: str, _: Words) -> dict[str, Any] | None:
    """What the template needs; None when there is nothing to show."""
    if traffic is None or not traffic.bars:
        return None
    bars = traffic.bars[:_MOST_BARS]
    rows = {person: number for number, person in enumerate(sorted({bar.person for bar in bars}))}
    length_s = max(traffic.ended_at_s - traffic.began_at_s, 1e-3)
    names = {part for bar in bars for part, _begin, _end in _parts(bar)}
    return {
        "title": title,
        "height": len(rows) * _ROW + 22,
        "key": [(name, label) for name, label in _labels(_).items() if name in names],
        "ticks": [
            {"x": f"{_WIDTH * at_s / length_s:.0f}", "label": f"{at_s} s"}
            for at_s in range(_TICK_S, int(length_s), _TICK_S)
        ],
        "bars": [_drawn(bar, rows[bar.person] * _ROW + 2, traffic.began_at_s, length_s, _) for bar in bars],
    }


def _labels(_: Words) -> dict[str, str]:
    return {
        "queue": _("queued in the server"),
        "wait": _("waiting for the first token"),
        "decode": _("answer being written"),
        "whole": _("whole answer, not streamed"),
        "failed": _("failed"),
        "cut": _("cut at the level's end"),
    }


def _parts(bar: Bar) -> list[tuple[str, float, float]]:
    """(name, begin, end) of each stretch of one request."""
    if bar.error is not None and bar.error != "cut":
        return [("failed", bar.scheduled_at_s, bar.ended_at_s)]
    parts = []
    begin_at_s = bar.scheduled_at_s
    first_at_s = bar.first_output_at_s
    if bar.queued_until_s is not None and begin_at_s < bar.queued_until_s < (first_at_s or bar.ended_at_s):
        parts.append(("queue", begin_at_s, bar.queued_until_s))
        begin_at_s = bar.queued_until_s
    if first_at_s is not None:
        parts += [("wait", begin_at_s, first_at_s), ("decode", first_at_s, bar.ended_at_s)]
    else:
        parts.append(("cut" if bar.error else "whole", begin_at_s, bar.ended_at_s))
    return parts


def _drawn(bar: Bar, y: int, began_at_s: float, length_s: float, _: Words) -> dict[str, Any]:
    parts = []
    for name, begin_at_s, end_at_s in _parts(bar):
        left = min(max((begin_at_s - began_at_s) / length_s, 0.0), 1.0) * _WIDTH
        right = min(max((end_at_s - began_at_s) / length_s, 0.0), 1.0) * _WIDTH
        if right > left:
            parts.append({"name": name, "x": f"{left:.1f}", "width": f"{max(right - left, 0.6):.1f}"})
    labels = _labels(_)
    told = [f"{labels[name]}: {seconds(end_at_s - begin_at_s)}" for name, begin_at_s, end_at_s in _parts(bar)]
    return {"y": y, "parts": parts, "title": _("person {n}").format(n=bar.person) + " – " + ", ".join(told)}
