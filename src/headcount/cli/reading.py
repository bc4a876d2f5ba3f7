"""The verbs that read stored runs: ``report``, ``export``. They need no server, no GPU and no network."""

from __future__ import annotations

import argparse
from pathlib import Path

from headcount.cli.arguments import Verbs, add_answer

__all__ = ["add"]

NOT_TRUSTED = 5


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    report = verbs.add_parser("report", parents=[common], help="show what a stored run found")
    report.add_argument("run", type=Path, help="a run folder")
    add_answer(report)
    report.set_defaults(verb=_report)
    export = verbs.add_parser("export", parents=[common], help="write a run's levels and requests as plain tables")
    export.add_argument("run", type=Path, help="a run folder")
    export.add_argument("--to", default="csv", help="csv (default) or sqlite")
    export.add_argument("--out", type=Path, default=Path(), help="where to (default: here)")
    export.set_defaults(verb=_export)


def _report(options: argparse.Namespace) -> int:
    from headcount.report import known_format, write_report
    from headcount.review import review
    from headcount.store import open_run

    known_format(options.format)
    run = open_run(options.run)
    verdict = review(run)
    write_report(options.format, verdict, run.facts, run.path, options.lang)
    return 0 if verdict.trusted else NOT_TRUSTED


def _export(options: argparse.Namespace) -> int:
    from headcount.report.export import export
    from headcount.review import review
    from headcount.store import open_run

    run = open_run(options.run)
    for path in export(options.to, run, review(run), options.out):
        print(path)
    return 0
