"""The verbs over time: ``recheck``, ``history``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.cli.arguments import LANGUAGES, Verbs, add_key, agreed, api_key, say
from headcount.errors import HeadcountError, RunError, ScenarioError

if TYPE_CHECKING:
    from headcount.measure import Intent
    from headcount.records import RunFacts
    from headcount.report.retest import Retest

__all__ = ["add"]

INTERRUPTED = 130


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    recheck = verbs.add_parser("recheck", parents=[common], help="is a measured server still what it was")
    recheck.add_argument("run", type=Path, help="the run folder of the baseline")
    recheck.add_argument("url", nargs="?", help="the server's address, in place of the baseline's")
    recheck.add_argument("--model", help="the model to ask, in place of the baseline's")
    add_key(recheck)
    recheck.add_argument(
        "--fail-on", action="append", metavar="CONDITION", help='exit 1 on this alone: "limit<-5%%", "e2e_p50>+10%%"'
    )
    recheck.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML there")
    recheck.add_argument(
        "--summary", type=Path, metavar="FILE", help="add Markdown to that file (default: GITHUB_STEP_SUMMARY, if set)"
    )
    recheck.add_argument("--out", type=Path, default=Path("runs"), help="where run folders go (default ./runs)")
    recheck.add_argument("--yes", action="store_true", help="do not ask before the start")
    recheck.add_argument("--format", default="terminal", help="terminal (default), markdown, json or junit")
    recheck.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    recheck.set_defaults(verb=_recheck)
    history = verbs.add_parser(
        "history", parents=[common], help="the runs in a folder over time, with the limit's trend"
    )
    history.add_argument(
        "folder", type=Path, nargs="?", default=Path("runs"), help="where the runs are (default ./runs)"
    )
    history.add_argument("--format", default="terminal", help="terminal (default), markdown or json")
    history.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    history.set_defaults(verb=_history)


def _recheck(options: argparse.Namespace) -> int:
    from headcount.analysis.recheck import parse_fail_on
    from headcount.recheck import recheck
    from headcount.report.progress import Progress
    from headcount.report.retest import RETESTS, Retest, write_retest
    from headcount.report.words import language_of
    from headcount.store import open_run

    if options.format not in RETESTS:
        raise ScenarioError(f"format {options.format!r} is not known", f"known: {', '.join(RETESTS)}")
    fail_on = [parse_fail_on(text) for text in options.fail_on or ()]
    summary = options.summary or os.environ.get("GITHUB_STEP_SUMMARY")
    _refuse_unwritable([options.junit, Path(summary) if summary else None])
    run = open_run(options.run)
    options.lang = options.lang or language_of(os.environ)
    with Progress(line_every_s=math.inf if run.facts.simulated else 15.0, language=options.lang) as progress:
        found = recheck(
            run,
            url=options.url,
            model=options.model,
            out=options.out,
            api_key=api_key(options),
            watcher=progress,
            agree=lambda intent: _agreed(intent, run.facts, options),
            fail_on=fail_on,
            tell=progress.say,
        )
    if found is None:
        say("nothing was measured")
        return 0
    told = Retest(found.result, found.baseline, found.outcome.facts, options.lang)
    sys.stdout.write(write_retest(options.format, told))
    _for_ci(told, options)
    say(f"\nfacts: {found.outcome.path}")
    return INTERRUPTED if found.outcome.interrupted else found.result.exit_code


def _agreed(intent: Intent, baseline: RunFacts, options: argparse.Namespace) -> bool:
    """Show what changed and what is about to be done; ask where somebody can answer."""
    from headcount.recheck import changes_of
    from headcount.report.plan import plan_text

    for change in changes_of(baseline, intent):
        say(change)
    about = (intent.scenario, intent.facts, intent.estimate_s, intent.notes, intent.simulated)
    return agreed(plan_text(*about, language=options.lang), ask_first=not options.yes and not intent.simulated)


def _refuse_unwritable(files: list[Path | None]) -> None:
    """Say before the measuring, not after it, that a file cannot be written."""
    for file in filter(None, files):
        there = file.exists()
        try:
            file.open("a").close()
            if not there:
                file.unlink()
        except OSError as error:
            raise RunError(f"cannot write {file}: {error.strerror or error}", "choose another place") from error


def _for_ci(told: Retest, options: argparse.Namespace) -> None:
    """The files that CI reads."""
    from headcount.report.retest import write_retest

    summary = options.summary or os.environ.get("GITHUB_STEP_SUMMARY")
    try:
        if options.junit:
            options.junit.write_text(write_retest("junit", told), encoding="utf-8")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(write_retest("markdown", told))
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror or error}", "choose another place") from error


def _history(options: argparse.Namespace) -> int:
    from headcount.report.history import HISTORIES, Past, write_history
    from headcount.report.words import language_of
    from headcount.review import asked_of, review, scenario_of
    from headcount.store import open_run

    folders = sorted(path.parent for path in options.folder.glob("*/run.json"))
    if not folders:
        raise RunError(f"{options.folder} holds no runs", "give the folder that --out named")
    past = []
    for folder in folders if options.format in HISTORIES else ():
        try:
            run = open_run(folder)
            past.append(Past(folder.name, run.facts, review(run), asked_of(scenario_of(run))))
        except HeadcountError as error:
            say(f"left out: {error.message}")
    sys.stdout.write(write_history(options.format, past, options.lang or language_of(os.environ)))
    return 0
