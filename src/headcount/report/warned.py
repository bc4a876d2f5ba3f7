"""Cautions as they are told: one for each kind, however many levels it stands at, with the figures of all of them.

Knows nothing of how a caution is drawn.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from headcount.analysis.conclusions import Caution, Verdict
from headcount.report.words import Words, people

__all__ = ["Warned", "caution_groups", "warned_at"]

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
"""A figure; not the number in a name such as ``http_503`` or ``p95``."""


class Warned(msgspec.Struct, frozen=True):
    """One kind of caution, however many levels it stands at."""

    caution: Caution
    """Its figures are ranges over all levels; where the sentences differ in more than figures, it is the one of the
    whole run or of the level nearest to the limit."""
    users: tuple[int, ...]
    """At which numbers of people it stands, ascending; empty for the whole run."""
    near: bool
    """Whether it concerns the answer itself: the whole run, the limit, or a level that it voids."""
    told_of: int | None = None
    """The number of people whose sentence is told, where the others' differ in more than figures."""


def caution_groups(verdict: Verdict) -> list[Warned]:
    """Cautions by their code: those that void a level first, then those of the whole run and of the limit, then others.

    Far above the limit a server's queue is never empty; that must not hide what stands at the limit itself.
    """
    users = {level.index: level.users for level in verdict.levels}
    limit = verdict.limit_users

    def distance(caution: Caution) -> float:
        held = users.get(caution.level) if caution.level is not None else None
        return -1.0 if held is None else abs(held - limit) if limit is not None else held

    groups: dict[tuple[bool, str], list[Caution]] = defaultdict(list)
    for caution in sorted(verdict.cautions, key=distance):
        groups[not caution.fatal, caution.code].append(caution)
    found = []
    for (mild, _code), cautions in groups.items():
        nearest = cautions[0]
        at = {users[one.level] for one in cautions if one.level in users}
        near = not mild or distance(nearest) <= 0.0 or limit is None
        over_all = _ranges([one.sentence for one in cautions])
        told_of = None if over_all is not None or nearest.level is None else users.get(nearest.level)
        told = msgspec.structs.replace(nearest, sentence=over_all or nearest.sentence)
        found.append(Warned(told, tuple(sorted(at)), near, told_of))
    return sorted(found, key=lambda one: (not one.caution.fatal, not one.near))


def warned_at(one: Warned, _: Words) -> str:
    """``at 23 and 64 people``; ``at 23 people (likewise at 64)``; empty for the whole run."""
    if not one.users:
        return ""
    if one.told_of is None or len(one.users) == 1:
        return _at(one.users, _)
    others = _listed([users for users in one.users if users != one.told_of], _)
    return _("{where} (likewise at {others})").format(where=_at((one.told_of,), _), others=others)


def _at(users: Sequence[int], _: Words) -> str:
    last = str(users[-1])
    return _("at {people}").format(people=people(users[-1], _).replace(last, _listed(users, _), 1))


def _listed(users: Sequence[int], _: Words) -> str:
    *others, last = map(str, users)
    return _("{numbers} and {last}").format(numbers=", ".join(others), last=last) if others else last


def _ranges(sentences: Sequence[str]) -> str | None:
    """One sentence for several that differ in their figures alone, each figure from the least to the greatest.

    >>> _ranges(["3 of 70 failed", "12 of 70 failed"])
    '3–12 of 70 failed'
    """
    pieces = {tuple(_NUMBER.split(sentence)) for sentence in sentences}
    if len(pieces) != 1:
        return None
    told = [""]
    for values in zip(*map(_NUMBER.findall, sentences), strict=True):
        rising = sorted(dict.fromkeys(values), key=lambda value: float(value.replace(",", "")))
        told.append(rising[0] if len(rising) == 1 else f"{rising[0]}–{rising[-1]}")
    between = next(iter(pieces))
    return "".join(number + text for number, text in zip(told, between, strict=True))
