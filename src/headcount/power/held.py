"""Power limits that return to what they were, however this program ends.

A small process of its own, the guard, keeps the limits as they were found and puts them back when its input closes:
on a normal end, on an error, on Ctrl-C, and when this program is killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

import msgspec

from headcount.errors import RunError
from headcount.power.boards import Board, ByCommand, ByDriver, Setter

__all__ = ["Charge", "HeldLimits"]

_READY_S = 10.0


class Charge(msgspec.Struct, frozen=True):
    """What a guard has to put back, and how."""

    limits_w: dict[str, float]
    """By GPU UUID."""
    command: str | None
    """None: through the driver."""

    @property
    def setter(self) -> Setter:
        """The way to set limits."""
        return ByDriver() if self.command is None else ByCommand(self.command)


class HeldLimits:
    """``with HeldLimits(boards, command) as limits: limits.set(350)``; afterwards all is as before."""

    def __init__(self, boards: Sequence[Board], command: str | None = None) -> None:
        self._boards = tuple(boards)
        self._charge = Charge({board.uuid: board.limit_w for board in boards}, command)
        self._setter = self._charge.setter
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> HeldLimits:
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "headcount.power.guard", msgspec.json.encode(self._charge).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # what ends a terminal's programs must not end it
        )
        assert self._guard.stdout is not None
        if self._guard.stdout.readline() != b"ready\n":
            raise RunError("the process that puts power limits back did not start", "no limit was changed")
        return self

    def check(self, limit_w: float) -> None:
        """``ScenarioError`` for a limit that one of the GPUs does not take."""
        for board in self._boards:
            board.check(limit_w)

    def set(self, limit_w: float) -> None:
        """One limit for every GPU. ``ScenarioError`` when the driver or the command refuses it."""
        self.check(limit_w)
        for board in self._boards:
            self._setter.set(board.uuid, limit_w)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._guard is not None
        _, complaint = self._guard.communicate()  # closes its input: put all back, and tell
        if self._guard.returncode:
            limits = ", ".join(f"{board.name} {board.limit_w:g} W" for board in self._boards)
            raise RunError(
                f"power limits were not put back: {complaint.decode(errors='replace').strip()}",
                f"set them yourself: {limits}",
            ) from error
