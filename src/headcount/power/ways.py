"""Which way limits are set: by the driver or a command, with a guard that puts them back, or by a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from headcount.power.boards import boards
from headcount.power.by_hand import ByHand
from headcount.power.held import HeldLimits

__all__ = ["hold_limits"]


def hold_limits(
    stack: ExitStack, limits_w: Sequence[float], uuids: Sequence[str], command: str | None, *, by_hand: bool
) -> Callable[[float], None]:
    """What sets one of ``limits_w`` on the GPUs with these UUIDs (none: all of this machine), until ``stack`` closes.

    Raises ``ScenarioError``, also for a limit that a GPU does not take, before any is changed.
    """
    if by_hand:
        return stack.enter_context(ByHand()).set
    held = stack.enter_context(HeldLimits(boards(uuids), command))
    for limit_w in limits_w:
        held.check(limit_w)
    return held.set
