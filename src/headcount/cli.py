"""Arguments to one call per verb; errors and hints on stderr; exit codes.

Imports its parts inside the verbs, so that ``headcount --help`` is quick. Exit codes: 0 answered, 1 answered but
below ``--require-users``, 2 scenario or flags, 3 server, 4 run folder, 5 not to be trusted, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.errors import HeadcountError, ScenarioError

if TYPE_CHECKING:
    from headcount.demo import EmbeddedEngine
    from headcount.measure import Intent, Outcome
    from headcount.scenario import Scenario

__all__ = ["main"]

INTERRUPTED = 130
BELOW_REQUIRED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; gives the exit code."""
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        return verb(options)
    except HeadcountError as error:
        if options.debug:
            raise
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"\nhint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)


# --- arguments -------------------------------------------------------------------------------


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
    find = verbs.add_parser("find", parents=[common], help="find the largest number of people a server carries")
    _add_server(find)
    _add_search(find)
    find.set_defaults(verb=_find)
    run = verbs.add_parser("run", parents=[common], help="measure what a scenario file says: fixed levels or a search")
    run.add_argument("scenario", type=Path, help="a scenario file (TOML)")
    _add_output(run)
    run.set_defaults(verb=_run)
    report = verbs.add_parser("report", parents=[common], help="show what a stored run found")
    report.add_argument("run", type=Path, help="a run folder")
    report.add_argument("--format", default="terminal", help="terminal (default), json, markdown …")
    report.set_defaults(verb=_report)
    check = verbs.add_parser("check", parents=[common], help="is the server reachable, what is it, what will be asked")
    check.add_argument("target", nargs="?", help="a server's address or a scenario file; none: look on this machine")
    check.add_argument("--model", help="the model to ask")
    check.add_argument("--api-key", help="or HEADCOUNT_API_KEY; never stored, never printed")
    check.set_defaults(verb=_check)
    demo = verbs.add_parser("demo", parents=[common], help="find the limit of a small real engine on this machine")
    demo.add_argument("--slots", type=_positive, default=4, help="requests the engine works on at once (default 4)")
    _add_output(demo)
    demo.set_defaults(verb=_demo)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"headcount {version('headcount')}")
        parser.exit()


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", help="the server's address; none: look on this machine's usual ports")
    parser.add_argument(
        "--engine", default="auto", help="which server it is (default: by what it answers), or simulated"
    )
    parser.add_argument("--model", help="the model to ask (default: the server's first)")
    parser.add_argument("--api-key", help="or HEADCOUNT_API_KEY; never stored, never printed")
    parser.add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    parser.add_argument("--ca-file", help="a certificate authority to trust for TLS")
    parser.add_argument("--slo", action="append", help='a preset (chat, strict, agent, home, whole) or "ttft_p95<=2s"')
    parser.add_argument("--workload", default="chat", help="a preset: chat, chat-slow, short … (default chat)")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default 1)")


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-users", type=_positive, help="never more people than this (default 4096)")
    parser.add_argument("--max-time", type=_duration, help="never longer than this, e.g. 20m (default 1h)")
    parser.add_argument("--level-time", type=_duration, help="never longer at one level (default 3m)")
    parser.add_argument("--resolution", type=_fraction, help="how fine the answer must be, e.g. 5%% (default)")
    parser.add_argument("--headroom", type=_fraction, help="kept free below the limit (default 25%%)")
    parser.add_argument("--processes", type=_positive, default=1, help="load processes (default 1)")
    parser.add_argument("--require-users", type=_positive, metavar="N", help="exit 1 when the limit is below N")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was cut short")
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where run folders go (default ./runs)")
    parser.add_argument("--yes", action="store_true", help="do not ask before the start")
    parser.add_argument("--format", default="terminal", help="of the answer: terminal (default), json, markdown …")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _fraction(text: str) -> float:
    """``5%`` or ``0.05``."""
    value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1 (or 0% and 100%)")
    return value


def _duration(text: str) -> float:
    """``90``, ``90s``, ``20m`` or ``1.5h``, in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    seconds = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError("must be longer than nothing")
    return seconds


# --- the verbs -------------------------------------------------------------------------------


def _find(options: argparse.Namespace) -> int:
    from headcount.review import scenario_of
    from headcount.store import open_run

    scenario = scenario_of(open_run(options.resume)) if options.resume else _scenario_from_flags(options)
    return _measure(scenario, options, "find")


def _run(options: argparse.Namespace) -> int:
    from headcount.scenario import load_scenario

    return _measure(load_scenario(options.scenario), options, "run")


def _report(options: argparse.Namespace) -> int:
    from headcount.report import write_report
    from headcount.review import review
    from headcount.store import open_run

    run = open_run(options.run)
    verdict = review(run)
    write_report(options.format, verdict, run.facts, run.path)
    return 0 if verdict.trusted else 5


def _check(options: argparse.Namespace) -> int:
    from headcount.check import check

    return check(options.target, model=options.model, api_key=_api_key(options))


def _demo(options: argparse.Namespace) -> int:
    from headcount.demo import INSTALL_HINT, EmbeddedEngine, demo_scenario, find_demo_engine

    if find_demo_engine():
        embedded = EmbeddedEngine(slots=options.slots)
        code = _measure(demo_scenario(), options, "find", embedded)
    else:
        _say(f"simulated engine, since the demo's real one is not installed ({INSTALL_HINT})")
        code = _measure(demo_scenario(simulated=True), options, "find")
    _say("\nyour own server: headcount find http://HOST:PORT   (any OpenAI-compatible one)")
    return code


def _measure(scenario: Scenario, options: argparse.Namespace, verb: str, embedded: EmbeddedEngine | None = None) -> int:
    """Measure, show the answer, give the exit code."""
    from headcount.measure import measure
    from headcount.report import write_report
    from headcount.report.progress import Progress

    with Progress() as progress:
        outcome = measure(
            scenario,
            verb=verb,
            out=options.out,
            api_key=_api_key(options),
            watcher=progress,
            agree=lambda intent: _agreed(intent, options),
            resume=getattr(options, "resume", None),
            embedded=embedded,
        )
    if outcome is None:
        _say("nothing was measured")
        return 0
    write_report(options.format, outcome.verdict, outcome.facts, outcome.path)
    _say(f"\nfacts: {outcome.path}")
    return _exit_code(outcome, getattr(options, "require_users", None))


def _exit_code(outcome: Outcome, required: int | None) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    if not outcome.verdict.trusted:
        return 5
    if required is not None and (outcome.verdict.limit_users or 0) < required:
        return BELOW_REQUIRED
    return 0


def _agreed(intent: Intent, options: argparse.Namespace) -> bool:
    """Show the plan; ask where somebody can answer."""
    from headcount.report.plan import plan_text

    _say(plan_text(intent.scenario, intent.facts, intent.estimate_s, intent.notes, intent.simulated))
    if options.yes or not sys.stdin.isatty() or intent.simulated:
        return True
    _say("Begin? [Y/n] ")
    return input().strip().lower() in ("", "y", "yes")


def _api_key(options: argparse.Namespace) -> str | None:
    return getattr(options, "api_key", None) or os.environ.get("HEADCOUNT_API_KEY") or None


def _scenario_from_flags(options: argparse.Namespace) -> Scenario:
    from headcount.scenario import EngineOptions, Scenario, SearchOptions

    given = {
        "max_users": options.max_users,
        "max_time_s": options.max_time,
        "level_time_s": options.level_time,
        "resolution": options.resolution,
        "headroom": options.headroom,
    }
    url = options.url or ""
    if not url and options.engine != "simulated":
        url = _look_around()
    slo = tuple(options.slo) if options.slo else "chat"
    return Scenario(
        name="find",
        seed=options.seed,
        slo=slo if len(slo) != 1 else slo[0],
        processes=options.processes,
        engine=EngineOptions(
            kind=options.engine,
            url=url,
            model=options.model,
            insecure=options.insecure,
            ca_file=options.ca_file,
        ),
        workload={"kind": options.workload},
        search=SearchOptions(**{key: value for key, value in given.items() if value is not None}),
    )


def _look_around() -> str:
    """The one server that answers on this machine's usual ports; asks when there are several."""
    import asyncio

    from headcount.engine.detect import find_servers

    found = asyncio.run(find_servers())
    if not found:
        raise ScenarioError(
            "no model server answers on this machine's usual ports",
            "give its address: headcount find http://HOST:PORT   (or try: headcount demo)",
        )
    if len(found) == 1:
        return found[0].url
    lines = "\n".join(f"  {number}. {server.url}  {server.engine}" for number, server in enumerate(found, 1))
    if not sys.stdin.isatty():
        raise ScenarioError(f"several model servers answer here:\n{lines}", "give the address of one of them")
    _say(f"Several model servers answer here:\n{lines}\nWhich one? [1] ")
    answer = input().strip() or "1"
    if not answer.isdigit() or not 1 <= int(answer) <= len(found):
        raise ScenarioError(f"{answer!r} is not one of them", "give a number of the list, or the address")
    return found[int(answer) - 1].url


if __name__ == "__main__":
    sys.exit(main())
