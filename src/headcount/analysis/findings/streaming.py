"""Whole answers against streamed ones: what people wait for in each, each judged by its own bands."""

from __future__ import annotations

from headcount.analysis.comfort import BANDS, band
from headcount.analysis.conclusions import LevelSummary
from headcount.analysis.findings.evidence import MEASURES, Evidence, Finding, feels_good_up_to, pooled, said

__all__ = ["find"]


def find(evidence: Evidence) -> Finding:
    """``streamed`` first, ``whole`` second."""
    streamed_name, whole_name = evidence.names
    streamed, whole = evidence.under(streamed_name), evidence.under(whole_name)
    lines = [
        _wait_line(users, _at(whole, users), _at(streamed, users), evidence)
        for users in sorted({level.users for level in whole} & {level.users for level in streamed})
    ]
    waits = pooled(evidence.compared(streamed_name, whole_name, [MEASURES["e2e_p50_s"]]), "e2e_p50_s")
    if waits is not None:
        lines.append(said(waits, streamed_name, whole_name))
    if not streamed or not whole:
        missing = "streamed" if not streamed else "whole"
        return Finding(f"No level of {missing} answers can be believed, so streaming cannot be judged.", tuple(lines))
    good_streamed, good_whole = (feels_good_up_to(levels, evidence.comfort) for levels in (streamed, whole))
    better = [
        users
        for users in sorted({level.users for level in whole} & {level.users for level in streamed})
        if _worse(_at(whole, users), _at(streamed, users), evidence)
    ]
    sentence, advice = _sentence(good_streamed, good_whole, min(better, default=None), whole, evidence)
    return Finding(sentence, tuple(lines), advice)


def _at(levels: list[LevelSummary], users: int) -> LevelSummary:
    """Of the visits to one number of people the one that felt worst."""
    return max((one for one in levels if one.users == users), key=lambda one: one.e2e_s.p50 or 0.0)


def _worse(whole: LevelSummary, streamed: LevelSummary, evidence: Evidence) -> bool:
    """Whether whole answers fall into a worse band than streamed ones."""
    first, second = band(whole, evidence.comfort), band(streamed, evidence.comfort)
    return bool(first and second) and BANDS.index(first) > BANDS.index(second)


def _wait_line(users: int, whole: LevelSummary, streamed: LevelSummary, evidence: Evidence) -> str:
    ends_s, begins_s = whole.e2e_s.p50 or 0.0, streamed.ttft_s.p95 or 0.0
    return (
        f"at {users} people: whole answers come after {ends_s:.1f} s ({band(whole, evidence.comfort)}), "
        f"streamed ones begin within {begins_s:.1f} s ({band(streamed, evidence.comfort)})"
    )


def _sentence(
    streamed: int | None, whole: int | None, better: int | None, levels: list[LevelSummary], evidence: Evidence
) -> tuple[str, tuple[str, ...]]:
    fewest = min(levels, key=lambda one: one.users)
    if (streamed or 0) > (whole or 0):
        if whole is None:
            said_of = band(_at(levels, fewest.users), evidence.comfort) or BANDS[3]
            return (
                f"Answers must be streamed: whole ones are {said_of} already at {fewest.users} people, "
                f"streamed ones feel good up to {streamed}.",
                ("stream the answers",),
            )
        return (
            f"Streaming carries more people: streamed answers feel good up to {streamed}, whole ones up to {whole}.",
            (f"stream the answers beyond {whole} people",),
        )
    if (streamed or 0) < (whole or 0):
        return (
            f"Whole answers feel good up to {whole} people, streamed ones only up to {streamed or 0}: they are written "
            "too slowly, or begin too late.",
            (),
        )
    if whole is None:
        return f"Neither whole nor streamed answers feel good, at {fewest.users} people already.", ()
    if better is not None:
        return (
            f"Streaming makes comfortable what is slightly slow as whole answers, from {better} people on; both "
            f"feel good up to {whole}.",
            (f"stream the answers from {better} people on",),
        )
    return f"Streaming is not needed here: whole answers feel as good as streamed ones, up to {whole} people.", ()
