"""``python -m headcount.power.guard CHARGE``: puts power limits back once its input closes. See ``held``."""

from __future__ import annotations

import signal
import sys

import msgspec

from headcount.errors import ScenarioError
from headcount.power.boards import boards
from headcount.power.held import Charge

__all__ = ["main"]

_NOT_MINE = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
"""What is meant for the program it guards."""


def main(arguments: list[str]) -> int:
    """Wait, put back, and give the number of GPUs where that failed."""
    for number in _NOT_MINE:
        signal.signal(number, signal.SIG_IGN)
    charge = msgspec.json.decode(arguments[0], type=Charge)
    print("ready", flush=True)
    sys.stdin.buffer.read()
    failed = 0
    for uuid, limit_w in charge.limits_w.items():
        try:
            if charge.command is not None or boards([uuid])[0].limit_w != limit_w:
                charge.setter.set(uuid, limit_w)
        except ScenarioError as error:
            failed += 1
            print(f"{uuid}: {error.message}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
