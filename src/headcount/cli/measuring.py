"""The verbs that measure: ``find``, ``run``, ``demo``."""

from __future__ import annotations

import argparse
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.cli.arguments import (
    Verbs,
    add_active_share,
    add_key,
    add_output,
    agreed,
    api_key,
    ask,
    can_answer,
    duration,
    fraction,
    fraction_or_none,
    positive,
    say,
    whole,
)
from headcount.errors import RunError, ScenarioError, ServerError

if TYPE_CHECKING:
    from headcount.demo import EmbeddedEngine
    from headcount.measure import Intent, Outcome
    from headcount.prices import Prices
    from headcount.scenario import Scenario
    from headcount.store import Run

__all__ = ["add", "look_around", "measured"]

INTERRUPTED = 130
NOT_TRUSTED = 5
BELOW_REQUIRED = 1

FLAGS = {
    "search.max_users": "--max-users",
    "search.max_time_s": "--max-time",
    "search.level_time_s": "--level-time",
    "search.resolution": "--resolution",
    "search.headroom": "--headroom",
    "search.soak_s": "--soak",
    "search.active_share": "--active-share",
    "arrivals.kind": "--arrivals",
    "engine.kind": "--engine",
    "engine.url": "the address",
    "workload.kind": "--workload",
    "telemetry.gpu_metrics": "--gpu-metrics",
    "processes": "--processes",
    "slo": "--slo",
}
"""How who gives flags calls the keys of a scenario."""
WITH_RESUME = {
    *("resume", "url", "api_key", "insecure", "ca_file", "max_time", "processes", "require_users"),
    *("yes", "format", "lang", "debug", "verb", "usual"),
}
"""What may be said anew of a run that goes on: how the server is reached, how long, and how the answer is shown."""


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    find = verbs.add_parser("find", parents=[common], help="find the largest number of people a server carries")
    _add_server(find)
    _add_search(find)
    add_output(find)
    find.set_defaults(verb=_find, usual=find.get_default)
    run = verbs.add_parser("run", parents=[common], help="measure what a scenario file says: fixed levels or a search")
    run.add_argument("scenario", type=Path, help="a scenario file (TOML)")
    run.add_argument("url", nargs="?", help="the server's address, in place of the scenario's")
    run.add_argument("--model", help="the model to ask, in place of the scenario's")
    _add_no_stages(run)
    add_key(run)
    add_output(run)
    run.set_defaults(verb=_run)
    demo = verbs.add_parser("demo", parents=[common], help="find the limit of a small real engine on this machine")
    demo.add_argument("--slots", type=positive, default=4, help="requests the engine works on at once (default 4)")
    add_output(demo)
    demo.set_defaults(verb=_demo)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", help="the server's address; none: look on this machine's usual ports")
    parser.add_argument(
        "--engine", metavar="KIND", help="which server it is (default: by what it answers), or simulated"
    )
    parser.add_argument("--model", help="the model to ask (default: the server's first)")
    add_key(parser)
    parser.add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    parser.add_argument("--ca-file", help="a certificate authority to trust for TLS")
    parser.add_argument("--slo", action="append", help='a preset (chat, strict, agent, home, whole) or "ttft_p95<=2s"')
    parser.add_argument(
        "--workload", metavar="KIND", help="what people do: chat, chat-slow, short, rag … (default chat)"
    )
    _add_no_stages(parser)
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="the model's tokenizer.json, to count words by (default: ask)"
    )
    parser.add_argument("--seed", type=whole, metavar="N", help="of everything random (default 1)")
    parser.add_argument("--gpu-metrics", metavar="URL", help="a DCGM or other Prometheus exporter of the server's GPUs")


def _add_no_stages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-stages", action="store_true", help="leave out retrieval, tools and speech: the model alone"
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-users", metavar="N", type=positive, help="never more people than this (default 4096)")
    parser.add_argument(
        "--max-time", metavar="TIME", type=duration, help="never longer than this, e.g. 20m (default 1h)"
    )
    parser.add_argument("--level-time", metavar="TIME", type=duration, help="never longer at one level (default 3m)")
    parser.add_argument(
        "--resolution", metavar="SHARE", type=fraction, help="how fine the answer must be, e.g. 5%% (default)"
    )
    parser.add_argument(
        "--headroom", metavar="SHARE", type=fraction_or_none, help="kept free below the limit (default 25%%)"
    )
    parser.add_argument(
        "--arrivals", choices=("closed", "open"), help="open: the rate of new conversations it carries, not the people"
    )
    parser.add_argument(
        "--no-burst", action="store_true", help="leave out the last check: everybody presses enter at once"
    )
    parser.add_argument(
        "--soak", metavar="TIME", type=duration, help="then hold the recommended number so long, e.g. 20m"
    )
    add_active_share(parser)
    parser.add_argument("--processes", type=positive, metavar="N", help="load processes to begin with (default 1)")
    parser.add_argument("--require-users", type=positive, metavar="N", help="exit 1 when the limit is below N")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was cut short")


def _find(options: argparse.Namespace) -> int:
    if options.resume:
        return _resume(options)
    return measured(_as_flagged(_scenario_from_flags(options), options), options, "find")


def _resume(options: argparse.Namespace) -> int:
    """Go on with a stored run by its own settings; when it had finished, its answer is shown."""
    from headcount.analysis.search import spent_s
    from headcount.review import nothing_left, scenario_of, summaries_of
    from headcount.slo import parse_slo
    from headcount.store import open_run

    beside = [name for name, value in vars(options).items() if name not in WITH_RESUME and value != options.usual(name)]
    if beside:
        flag = f"--{beside[0].replace('_', '-')}"
        raise ScenarioError(
            f"--resume goes on with the settings of its run; {flag} cannot be changed",
            f"leave out {flag}, or begin anew",
        )
    run = open_run(options.resume)
    if run.facts.verb == "import":
        raise RunError(f"{run.path} was imported and cannot be continued", "measure with headcount find")
    known = summaries_of(run, parse_slo(run.facts.slo), finished_only=True)
    scenario = _resumed(scenario_of(run), spent_s(known), options)
    if nothing_left(known, scenario):
        return _finished(run, options)
    say(f"going on with {run.path}, where {_levels(len(known))} told")
    return measured(scenario, options, "find")


def _resumed(scenario: Scenario, spent_s: float, options: argparse.Namespace) -> Scenario:
    """The run's own scenario with what was said anew; ``--max-time`` is time from now on."""
    import msgspec

    engine, search = scenario.engine, scenario.search
    if options.url and engine.kind == "simulated":
        raise ScenarioError("the simulated engine has no address", f"leave out {options.url}")
    ca_file, insecure = options.ca_file or engine.ca_file, options.insecure or engine.insecure
    engine = msgspec.structs.replace(engine, url=options.url or engine.url, ca_file=ca_file, insecure=insecure)
    if options.max_time:
        search = msgspec.structs.replace(search, max_time_s=spent_s + options.max_time)
    processes = options.processes or scenario.processes
    return msgspec.structs.replace(scenario, engine=engine, search=search, processes=processes)


def _levels(n: int) -> str:
    return "1 level is" if n == 1 else f"{n} levels are"


def _finished(run: Run, options: argparse.Namespace) -> int:
    """Show the answer of a run that had finished."""
    from headcount.measure import Outcome
    from headcount.review import review, scenario_of

    say(f"{run.path} had finished: nothing is left to measure (more time: --max-time 20m)")
    outcome = Outcome(review(run), run.facts, run.path, interrupted=False)
    return _answered(outcome, scenario_of(run).prices, options)


def _run(options: argparse.Namespace) -> int:
    from headcount.scenario import load_scenario

    return measured(_as_flagged(load_scenario(options.scenario), options), options, "run")


def _as_flagged(scenario: Scenario, options: argparse.Namespace) -> Scenario:
    """The scenario at another address, or without stages, where the flags say so; an address is looked for where
    neither tells any."""
    import msgspec

    from headcount.workload import without_stages

    engine = scenario.engine
    if engine.kind == "simulated" and options.url:
        raise ScenarioError("the simulated engine has no address", f"leave out {options.url}, or name another engine")
    elsewhere = scenario.condition and all("url" in one.engine for one in scenario.condition)
    if engine.kind != "simulated" and not elsewhere:
        url, model = options.url or engine.url or look_around(), options.model or engine.model
        engine = msgspec.structs.replace(engine, url=url, model=model)
    workload = without_stages(scenario.workload) if options.no_stages else scenario.workload
    return msgspec.structs.replace(scenario, engine=engine, workload=workload)


def _demo(options: argparse.Namespace) -> int:
    from headcount.demo import INSTALL_HINT, EmbeddedEngine, demo_scenario, find_demo_engine

    if find_demo_engine():
        code = measured(demo_scenario(), options, "find", EmbeddedEngine(slots=options.slots))
    else:
        say(f"simulated engine, since the demo's real one is not installed ({INSTALL_HINT})")
        code = measured(demo_scenario(simulated=True), options, "find")
    say("\nyour own server: headcount find http://HOST:PORT   (any OpenAI-compatible one)")
    return code


def measured(scenario: Scenario, options: argparse.Namespace, verb: str, embedded: EmbeddedEngine | None = None) -> int:
    """Measure, show the answer, give the exit code."""
    from headcount.measure import measure
    from headcount.report import known_format
    from headcount.report.progress import Progress
    from headcount.report.words import language_of

    known_format(options.format)
    options.lang = options.lang or language_of(os.environ)
    # Simulated minutes pass in a moment: a line at each level's beginning and end is enough.
    line_every_s = math.inf if scenario.engine.kind == "simulated" else 15.0
    with Progress(line_every_s=line_every_s, language=options.lang) as progress:
        outcome = measure(
            scenario,
            verb=verb,
            out=options.out,
            api_key=api_key(options),
            watcher=progress,
            agree=lambda intent: _agreed(intent, options),
            resume=getattr(options, "resume", None),
            embedded=embedded,
            tell=progress.say,
        )
    if outcome is None:
        say("nothing was measured")
        return 0
    return _answered(outcome, scenario.prices, options)


def _answered(outcome: Outcome, prices: Prices | None, options: argparse.Namespace) -> int:
    """Show the answer, give the exit code."""
    from headcount.report import save_html, write_report

    shown = (outcome.verdict, outcome.facts, outcome.path, options.lang, prices)
    page = save_html(*shown)
    write_report(options.format, *shown)
    say(f"\nreport: {page}\nfacts:  {outcome.path}")
    return _exit_code(outcome, getattr(options, "require_users", None))


def _exit_code(outcome: Outcome, required: int | None) -> int:
    if outcome.interrupted:
        return INTERRUPTED
    if not outcome.verdict.trusted:
        return NOT_TRUSTED
    held = outcome.verdict.limit_users if outcome.verdict.confirmations else 0
    if required is not None and (held or 0) < required:
        return BELOW_REQUIRED
    return 0


def _agreed(intent: Intent, options: argparse.Namespace) -> bool:
    """Show the plan; ask where somebody can answer."""
    from headcount.report.plan import plan_text

    about = (intent.scenario, intent.facts, intent.estimate_s, intent.notes, intent.simulated)
    return agreed(plan_text(*about, language=options.lang), ask_first=not options.yes and not intent.simulated)


def _scenario_from_flags(options: argparse.Namespace) -> Scenario:
    from headcount.scenario import make_scenario

    engine = {
        "kind": options.engine or "auto",
        "url": options.url,
        "model": options.model,
        "insecure": options.insecure,
        "ca_file": options.ca_file,
        "tokenizer_file": options.tokenizer,
    }
    search = {
        "max_users": options.max_users,
        "max_time_s": options.max_time,
        "level_time_s": options.level_time,
        "resolution": options.resolution,
        "headroom": options.headroom,
        "burst": False if options.no_burst else None,
        "soak_s": options.soak,
        "active_share": options.active_share,
    }
    slo = options.slo or ["chat"]
    table = {
        "name": "find",
        "seed": 1 if options.seed is None else options.seed,
        "slo": slo[0] if len(slo) == 1 else slo,
        "processes": options.processes or 1,
        "engine": _given(engine),
        "workload": {"kind": options.workload or "chat"},
        "arrivals": {"kind": options.arrivals or "closed"},
        "search": _given(search),
        "telemetry": _given({"gpu_metrics": options.gpu_metrics}),
    }
    try:
        return make_scenario(table)
    except ScenarioError as error:
        raise ScenarioError(_by_flags(error.message), _hint_for_flags(error)) from error


def _by_flags(text: str) -> str:
    """A sentence about keys as one about flags."""
    keys = "|".join(map(re.escape, FLAGS))
    return re.sub(rf"(?<![\w.])(?:{keys})(?![\w.])", lambda found: FLAGS[found[0]], text)


def _hint_for_flags(error: ScenarioError) -> str:
    """What flags cannot say, a scenario file can."""
    if error.message.startswith("workload.") and _by_flags(error.message) == error.message:
        return f"a scenario file can say more of people than flags: headcount run FILE ({error.hint})"
    return _by_flags(error.hint)


def _given(table: dict[str, object]) -> dict[str, object]:
    """Without what was not said."""
    return {key: value for key, value in table.items() if value is not None}


def look_around() -> str:
    """The one server that answers on this machine's usual ports; asks when there are several."""
    import asyncio

    from headcount.engine.detect import find_servers

    found = asyncio.run(find_servers())
    if not found:
        raise ServerError(
            "no model server answers on this machine's usual ports",
            "give its address: headcount find http://HOST:PORT   (or try: headcount demo)",
        )
    if len(found) == 1:
        return found[0].url
    lines = "\n".join(f"  {number}. {server.url}  {server.engine}" for number, server in enumerate(found, 1))
    if not can_answer():
        raise ScenarioError(f"several model servers answer here:\n{lines}", "give the address of one of them")
    answer = ask(f"Several model servers answer here:\n{lines}\nWhich one? [1] ", "1") or "none"
    if not answer.isdigit() or not 1 <= int(answer) <= len(found):
        raise ScenarioError(f"{answer!r} is not one of them", "give a number of the list, or the address")
    return found[int(answer) - 1].url
