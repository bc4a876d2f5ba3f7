"""What verbs share: kinds of values, flags that several of them have, and how they talk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "LANGUAGES",
    "Verbs",
    "add_active_share",
    "add_answer",
    "add_key",
    "add_output",
    "agreed",
    "amount",
    "api_key",
    "ask",
    "at_most",
    "can_answer",
    "duration",
    "fraction",
    "fraction_or_none",
    "positive",
    "printable",
    "say",
    "whole",
]

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a group of verbs adds its own."""

LANGUAGES = ("en", "ko")


def say(text: str) -> None:
    """Talk to the person; data goes to stdout."""
    print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """Without what a name or a server may have put in to move a cursor or colour a terminal; line breaks stay."""
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text)


def can_answer() -> bool:
    """Whether somebody sits before a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, usual: str) -> str | None:
    """What the person answers, ``usual`` for just Enter; None for the end of input."""
    say(question)
    try:
        return input().strip() or usual
    except EOFError:
        return None


def agreed(plan: str, *, ask_first: bool) -> bool:
    """Show the plan, and ask where that is wanted and somebody can answer."""
    say(plan)
    if not ask_first or not can_answer():
        return True
    answer = ask("Begin? [Y/n] ", "y")
    return answer is not None and answer.lower() in ("y", "yes")


def whole(text: str) -> int:
    """Any whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None


def positive(text: str) -> int:
    """A whole number from 1 on."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def at_most(most: int, least: int = 1) -> Callable[[str], int]:
    """A whole number from ``least`` to ``most``."""

    def bounded(text: str) -> int:
        value = whole(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be {least} to {most}, not {value}")
        return value

    return bounded


def fraction(text: str) -> float:
    """``5%`` or ``0.05``; 0 is none."""
    value = _share(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be above 0, e.g. 5%")
    return value


def fraction_or_none(text: str) -> float:
    """``25%``, ``0.25`` or ``0``."""
    return _share(text)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a share such as 5% or 0.05, below 100%, not {text!r}")
    return value


def amount(text: str) -> float:
    """Money: a number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be an amount of money such as 0.30, not {text!r}")
    return value


def duration(text: str) -> float:
    """``90``, ``90s``, ``20m`` or ``1.5h``, in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        seconds = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a time such as 90s, 20m or 1.5h, not {text!r}")
    return seconds


def add_key(parser: argparse.ArgumentParser) -> None:
    """``--api-key``."""
    parser.add_argument("--api-key", help="or HEADCOUNT_API_KEY; never stored, never printed")


def api_key(options: argparse.Namespace) -> str | None:
    """The key by flag or environment; None for none."""
    return getattr(options, "api_key", None) or os.environ.get("HEADCOUNT_API_KEY") or None


def add_answer(parser: argparse.ArgumentParser) -> None:
    """How an answer is shown."""
    parser.add_argument("--format", default="terminal", help="terminal (default), json, markdown, html or csv")
    parser.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")


def add_active_share(parser: argparse.ArgumentParser) -> None:
    """``--active-share``."""
    parser.add_argument(
        "--active-share",
        metavar="SHARE",
        type=fraction,
        help="of registered accounts in use in the busy hour, e.g. 10%%: the answer in accounts as well",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where facts go and how the answer is shown."""
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where run folders go (default ./runs)")
    parser.add_argument("--yes", action="store_true", help="do not ask before the start")
    add_answer(parser)
