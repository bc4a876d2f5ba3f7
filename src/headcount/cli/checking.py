"""The verbs that look before measuring: ``check``, ``preview``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from headcount.cli.arguments import LANGUAGES, Verbs, add_key, api_key, positive, say

__all__ = ["add"]


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    check = verbs.add_parser("check", parents=[common], help="is the server reachable, what is it, what will be asked")
    check.add_argument("target", nargs="?", help="a server's address or a scenario file; none: look on this machine")
    check.add_argument("--model", help="the model to ask, in place of the scenario's")
    check.add_argument("--against", type=Path, metavar="RUN", help="say what changed since a stored run")
    check.add_argument("--client", action="store_true", help="instead: how much load this machine itself can carry")
    check.add_argument("--processes", type=positive, default=1, help="load processes of --client (default 1)")
    check.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    add_key(check)
    check.set_defaults(verb=_check)
    preview = verbs.add_parser("preview", parents=[common], help="what a scenario would send, without sending it")
    preview.add_argument("scenario", type=Path, help="a scenario file (TOML)")
    preview.add_argument("--users", type=positive, help="people (default: the scenario's first level, else 10)")
    preview.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    preview.set_defaults(verb=_preview)


def _check(options: argparse.Namespace) -> int:
    if options.client:
        from headcount.ceiling import check_client

        return check_client(options.processes)
    from headcount.check import check
    from headcount.cli.measuring import look_around
    from headcount.report.words import language_of

    return check(
        options.target or _address_of(options.against) or look_around(),
        model=options.model,
        api_key=api_key(options),
        against=options.against,
        language=options.lang or language_of(os.environ),
        tell=say,
    )


def _address_of(against: Path | None) -> str:
    """Where a stored run's server was; empty where no run is given, or it had no address."""
    from headcount.store import open_run

    return open_run(against).facts.engine.address if against is not None else ""


def _preview(options: argparse.Namespace) -> int:
    from headcount.preview import scenario_text
    from headcount.report.words import language_of
    from headcount.scenario import load_scenario

    print(scenario_text(load_scenario(options.scenario), options.users, options.lang or language_of(os.environ)))
    return 0
