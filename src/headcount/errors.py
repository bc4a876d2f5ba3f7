"""The errors a user can meet, each with its exit code.

    HeadcountError            1   the parent; never raised itself
    ├── ScenarioError         2   a scenario file or a flag is wrong
    ├── ServerError           3   the model server cannot be reached or used
    ├── RunError              4   a run folder cannot be written, read or continued
    └── NotTrustedError            5   measured, but no level can be trusted

Exit 1 without an error means: answered, but below ``--require-users``; 130: interrupted.
A failed *request* is never an exception: it is a ``Request`` with ``error``.
"""

from __future__ import annotations

__all__ = ["HeadcountError", "NotTrustedError", "RunError", "ScenarioError", "ServerError"]


class HeadcountError(Exception):
    """One clear sentence that names the key or address at fault, and a hint with the remedy."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ScenarioError(HeadcountError):
    """A scenario file or a command-line flag cannot be understood."""

    exit_code = 2


class ServerError(HeadcountError):
    """The model server cannot be reached, refuses us, or does not do what measuring needs."""

    exit_code = 3


class RunError(HeadcountError):
    """A run folder cannot be written, read or continued."""

    exit_code = 4


class NotTrustedError(HeadcountError):
    """Levels were measured, but none of them can be believed."""

    exit_code = 5
