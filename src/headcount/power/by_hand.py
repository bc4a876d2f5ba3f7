"""Power limits that a person sets: asked for at the terminal, and asked to be put back. For servers elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

from headcount.errors import ScenarioError

__all__ = ["ByHand"]


class ByHand:
    """``with ByHand() as limits: limits.set(350)``: returns when the person says that it is done."""

    def __init__(self) -> None:
        self._changed = False

    def __enter__(self) -> ByHand:
        if sys.stdin is None or not sys.stdin.isatty():
            raise ScenarioError(
                "nobody sits at a terminal to set power limits by hand",
                "say how to set them: --power-command 'sudo nvidia-smi -i {gpu} -pl {watts}'",
            )
        return self

    def set(self, limit_w: float) -> None:
        """Ask for one limit. ``ScenarioError`` when the person has left."""
        print(f"\nset the server's power limit to {limit_w:g} W now, then press Enter", file=sys.stderr)
        try:
            input()
        except EOFError as error:
            raise ScenarioError("the terminal was closed before the power limit was set", "run it again") from error
        self._changed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._changed:
            print("\nput the server's power limit back to what it was", file=sys.stderr)
