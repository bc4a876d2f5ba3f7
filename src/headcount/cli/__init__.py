"""Command lines to one call per verb; errors and hints on stderr; exit codes.

Each group of verbs is a file that says its arguments and imports its parts only inside the verbs, so that
``headcount --help`` is quick. Exit codes: 0 answered, 1 answered but below ``--require-users`` or worse than the
baseline, 2 scenario or flags, 3 server, 4 run folder, 5 not to be trusted, 6 better than the baseline, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headcount.cli import checking, experimenting, measuring, mocking, planning, predicting, reading, sizing, watching
from headcount.cli.arguments import say
from headcount.errors import HeadcountError

__all__ = ["main"]

INTERRUPTED = 130
UNWRITABLE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; gives the exit code."""
    _open_standard_streams()
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        code = verb(options)
        sys.stdout.flush()
    except HeadcountError as error:
        if options.debug:
            raise
        say(f"error: {error.message}")
        if error.hint:
            say(f"\nhint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        _forget_output()
        return 0
    except OSError as error:
        if options.debug:
            raise
        _forget_output()
        say(f"error: {error.filename or 'the output'}: {error.strerror or error}")
        say("\nhint: make room, or check the permissions; what was measured lies in the run folder")
        return UNWRITABLE
    return code


def _forget_output() -> None:
    """What stands in stdout's buffer goes nowhere, so that leaving does not fail once more."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stream of ours in a test is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_standard_streams() -> None:
    """Streams that were closed lead nowhere; a terminal of another encoding shows ``?`` for what it cannot show."""
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115 they live as long as the program
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headcount",
        description="How many people can use your model server at once before it stops feeling good, "
        "and what gives out first.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    for group in (measuring, experimenting, reading, watching, checking, mocking, planning, predicting, sizing):
        group.add(verbs, common)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"headcount {version('headcount')}")
        parser.exit()
