"""Which of several runs for how many people: from how their levels feel. Knows nothing of how it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headcount.analysis.comfort import BANDS, band, carried
from headcount.analysis.conclusions import LevelSummary
from headcount.slo import Comfort

__all__ = ["Carries", "choose"]


class Carries(msgspec.Struct, frozen=True):
    """Up to how many people one run is put up with."""

    name: str
    most_users: int | None
    """The largest number of people that was measured and is comfortable or slightly slow, with nothing worse below;
    None when not even the smallest number was."""
    streamed: bool
    """Whether that takes streaming, where whole answers were measured."""
    from_users: int | None
    """The fewest measured people that none of the runs carrying fewer carries; None when there is no such number."""


def choose(runs: Mapping[str, Sequence[LevelSummary]], comfort: Comfort) -> tuple[Carries, ...]:
    """The runs, those that carry most people first.

    Whoever carries fewer is worth considering for them: it was taken for something, and is not asked to carry more.
    """
    capacity = {name: _capacity(levels, comfort) for name, levels in runs.items()}
    measured = sorted({level.users for levels in runs.values() for level in levels if level.decision != "void"})
    found = []
    for name, (most, streamed) in capacity.items():
        fewer = max(
            (other or 0 for key, (other, _) in capacity.items() if key != name and (other or 0) < (most or 0)),
            default=0,
        )
        beyond = [users for users in measured if fewer < users <= (most or 0)]
        found.append(Carries(name, most, streamed, min(beyond, default=None)))
    return tuple(sorted(found, key=lambda one: -(one.most_users or 0)))


def _capacity(levels: Sequence[LevelSummary], comfort: Comfort) -> tuple[int | None, bool]:
    """The most people, and whether streaming is needed for them."""
    most, streamed = None, False
    for users in sorted({level.users for level in levels}):
        held = [level for level in levels if level.users == users and level.decision != "void" and band(level, comfort)]
        if not held:
            continue
        if not all(carried(level, comfort) for level in held):
            break
        whole_is_fine = all(band(level, comfort) in BANDS[:2] for level in held)
        if most is not None and not whole_is_fine and not streamed:
            # Whole answers carry the people so far; more would need streaming, which is another question.
            break
        most, streamed = users, not whole_is_fine
    return most, streamed
