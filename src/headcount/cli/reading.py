"""The verbs that read what is stored: ``report``, ``compare``, ``export``, ``import``.

They need no server, no GPU and no network.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.cli.arguments import LANGUAGES, Verbs, add_active_share, add_answer, amount, positive, say
from headcount.errors import RunError, ScenarioError

if TYPE_CHECKING:
    from headcount.prices import Prices
    from headcount.report import Report
    from headcount.store import Run

__all__ = ["add"]

NOT_TRUSTED = 5


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    report = verbs.add_parser("report", parents=[common], help="show what a stored run found")
    report.add_argument("run", type=Path, help="a run folder")
    add_active_share(report)
    report.add_argument("--electricity-price", type=amount, metavar="N", help="of a kWh, for the cost of an answer")
    report.add_argument("--hardware-price", type=amount, metavar="N", help="of the machine, written off in 48 months")
    report.add_argument("--currency", help="of both prices (default EUR)")
    add_answer(report)
    report.set_defaults(verb=_report)
    compare = verbs.add_parser(
        "compare", parents=[common], help="hold runs, or the conditions of one run, side by side"
    )
    compare.add_argument("run", type=Path, nargs="+", help="run folders, the first is what the others are held against")
    compare.add_argument("--names", help="what to call them, with commas between (default: what tells them apart)")
    compare.add_argument("--format", default="terminal", help="terminal (default), json, markdown or html")
    compare.add_argument("--out", type=Path, metavar="FILE", help="write it there instead of showing it")
    compare.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    compare.set_defaults(verb=_compare)
    export = verbs.add_parser("export", parents=[common], help="write a run's levels and requests as plain tables")
    export.add_argument("run", type=Path, help="a run folder")
    export.add_argument("--to", default="csv", help="csv (default), sqlite or parquet")
    export.add_argument("--out", type=Path, default=Path(), help="where to (default: here)")
    export.set_defaults(verb=_export)
    take = verbs.add_parser("import", parents=[common], help="make a run folder of another tool's results")
    take.add_argument("file", type=Path, nargs="+", help="result files of one server, each with a level or more")
    take.add_argument("--from", dest="kind", default="", help="whose: guidellm, aiperf, vllm, sglang or table (a CSV)")
    take.add_argument("--users", type=positive, help="streams that asked at once, where a file does not tell")
    take.add_argument("--slo", action="append", help='a preset or "ttft_p95<=2s" (default chat)')
    take.add_argument("--name", default="", help="what to call the run")
    take.add_argument("--out", type=Path, default=Path("runs"), help="where run folders go (default ./runs)")
    take.set_defaults(verb=_import)


def _report(options: argparse.Namespace) -> int:
    from headcount.analysis.accounts import in_accounts
    from headcount.report import known_format, write_report
    from headcount.review import review, scenario_of
    from headcount.store import open_run

    known_format(options.format)
    run = open_run(options.run)
    verdict = review(run)
    if options.active_share is not None:
        verdict = in_accounts(verdict, options.active_share)
    prices = _prices(scenario_of(run).prices, options)
    write_report(options.format, verdict, run.facts, run.path, options.lang, prices)
    _say_damage(run)
    return 0 if verdict.trusted else NOT_TRUSTED


def _prices(stored: Prices | None, options: argparse.Namespace) -> Prices | None:
    """The scenario's prices, with what the flags say instead; None when neither tells any."""
    import msgspec

    from headcount.prices import Prices

    told = {
        "electricity_per_kwh": options.electricity_price,
        "hardware_price": options.hardware_price,
        "currency": options.currency,
    }
    given = {name: value for name, value in told.items() if value is not None}
    return msgspec.structs.replace(stored or Prices(), **given) if given else stored


def _say_damage(run: Run) -> None:
    """What could not be read of a run's files, where anything could not."""
    if damage := run.damage_sentence():
        say(damage)


def _compare(options: argparse.Namespace) -> int:
    from headcount.report.comparison import COMPARISONS, write_comparison
    from headcount.report.versus import side_by_side
    from headcount.report.words import language_of
    from headcount.review import asked_of, scenario_of
    from headcount.store import open_run

    if options.format not in COMPARISONS:
        raise ScenarioError(f"format {options.format!r} is not known", f"known: {', '.join(COMPARISONS)}")
    runs = [open_run(path) for path in options.run]
    language = options.lang or language_of(os.environ)
    names, reports = _as_reports(runs, language)
    if options.names:
        given = [name.strip() for name in options.names.split(",")]
        if len(given) != len(names):
            raise ScenarioError(f"--names has {len(given)} names for {len(names)} runs", "give one name for each")
        names = given
    scenarios = [scenario_of(run) for run in runs]
    asked = [asked_of(scenario) for scenario in scenarios] if len(runs) > 1 else ()
    text = write_comparison(options.format, side_by_side(reports, names, scenarios[0].comfort, asked))
    for run in runs:
        _say_damage(run)
    return _shown(text, options.out or (Path("comparison.html") if _to_a_screen(options.format) else None))


def _to_a_screen(form: str) -> bool:
    return form == "html" and sys.stdout.isatty()


def _shown(text: str, path: Path | None) -> int:
    """On stdout, or in a file."""
    if path is None:
        sys.stdout.write(text)
        return 0
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}", "choose another place with --out") from error
    print(path)
    return 0


def _as_reports(runs: list[Run], language: str) -> tuple[list[str], list[Report]]:
    """What is compared, and what it is called: several runs, or one run's conditions."""
    from headcount.report import Report
    from headcount.review import conditions_of, review

    if len(runs) > 1:
        return _names(runs), [Report(review(run), run.facts, run, language) for run in runs]
    (run,) = runs
    conditions = conditions_of(run)
    if len(conditions) < 2:
        raise RunError(
            f"{run.path} has no two conditions to compare", "give a second run: headcount compare RUN_A RUN_B"
        )
    return [name or "-" for name in conditions], [
        Report(review(run, condition), run.facts, run, language) for condition in conditions
    ]


def _names(runs: list[Run]) -> list[str]:
    """Models where they tell the runs apart, else the folders' names without their time, else their days or times, else
    the whole names."""
    models = [run.facts.engine.model or "" for run in runs]
    folders = [run.path.resolve().name for run in runs]
    days = [run.facts.started_utc[:10] for run in runs]
    times = [run.facts.started_utc[11:19] for run in runs] if len(set(days)) == 1 else []
    nested = ["/".join(run.path.resolve().parts[-2:]) for run in runs]
    for names in (models, [folder[20:] for folder in folders], days, times, folders, nested):
        if len(names) == len(runs) == len(set(names)) and all(names):
            return names
    return [str(run.path) for run in runs]


def _export(options: argparse.Namespace) -> int:
    from headcount.report.export import export
    from headcount.review import review
    from headcount.store import open_run

    run = open_run(options.run)
    for path in export(options.to, run, review(run), options.out):
        print(path)
    _say_damage(run)
    return 0


def _import(options: argparse.Namespace) -> int:
    from headcount.imports import import_files

    slo = options.slo or ["chat"]
    wanted = slo[0] if len(slo) == 1 else tuple(slo)
    path = import_files(
        options.file, options.out, kind=options.kind, slo=wanted, users=options.users, name=options.name
    )
    print(path)
    return 0
