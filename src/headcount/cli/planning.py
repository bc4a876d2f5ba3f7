"""The verb that makes a deployment of measured numbers: ``plan``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.cli.arguments import LANGUAGES, Verbs, add_key, api_key, duration, fraction, positive, say
from headcount.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headcount.deployment.advice import Advice, Demand
    from headcount.deployment.capacity import Measured
    from headcount.deployment.places import Place
    from headcount.measure import Intent

__all__ = ["add"]

NOT_MET = 1
INTERRUPTED = 130


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb and its flags."""
    plan = verbs.add_parser(
        "plan", parents=[common], help="from measured runs to who is served with what, its configuration and its proof"
    )
    plan.add_argument("run", type=Path, nargs="+", help="run folders, one for each model or server")
    expected = plan.add_mutually_exclusive_group()
    expected.add_argument("--people", type=positive, metavar="N", help="people at once (default: as many as fit)")
    expected.add_argument("--accounts", type=positive, metavar="N", help="registered accounts; needs --active-share")
    plan.add_argument(
        "--active-share", metavar="SHARE", type=fraction, help="of accounts active in the busy hour, e.g. 10%%"
    )
    plan.add_argument(
        "--complex-share", type=fraction, default=0.2, help="share of people with complex questions (default 0.2)"
    )
    plan.add_argument("--complex", metavar="MODEL", help="the model for them (default: the one that carries fewest)")
    plan.add_argument(
        "--comfort",
        choices=("comfortable", "slightly slow"),
        default="slightly slow",
        help="the worst that it may feel (default: slightly slow)",
    )
    plan.add_argument(
        "--growth", metavar="TIMES", type=_times, default=1.0, help="how many times the people are to come, e.g. 2x"
    )
    plan.add_argument("--gpu", help="the card it runs on, where a run does not tell: for what two of them would carry")
    plan.add_argument(
        "--server", action="append", type=_server, default=[], metavar="MODEL=URL", help="where a model answers"
    )
    plan.add_argument("--write", type=Path, metavar="DIR", help="write configuration files there")
    _add_proof(plan)
    plan.add_argument("--format", default="terminal", help="terminal (default), json or markdown")
    plan.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    plan.set_defaults(verb=_plan)


def _add_proof(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("--verify", metavar="URL", help="drive the mix through the gateway there, and prove the plan")
    plan.add_argument("--routed-by", choices=("client", "gateway"), default="client", help="who chooses the model")
    plan.add_argument("--level-time", type=duration, default=60.0, help="how long each level is held (default 60s)")
    plan.add_argument("--out", type=Path, default=Path("runs"), help="where the proof's run goes (default ./runs)")
    add_key(plan)


def _times(text: str) -> float:
    """``2x`` or ``2``."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, such as 2x, not {text!r}")
    return value


def _server(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not (name and equals and url):
        raise argparse.ArgumentTypeError("must be MODEL=URL, such as Qwen3-8B-AWQ=http://10.0.0.5:8000")
    return name, url


def _plan(options: argparse.Namespace) -> int:
    from headcount.deployment.advice import advise
    from headcount.deployment.files import plan_files, write_files
    from headcount.deployment.places import places_of
    from headcount.deployment.rehearsal import rehearse
    from headcount.deployment.showing import PLANS, Told, write_plan
    from headcount.deployment.sources import measured_models, starts_of
    from headcount.deployment.statements import statements
    from headcount.report.words import language_of

    if options.format not in PLANS:
        raise ScenarioError(f"format {options.format!r} is not known", f"known: {', '.join(PLANS)}")
    runs = measured_models(options.run)
    measured = [each for _, each in runs]
    advice = advise(measured, _demand(options))
    places = places_of(advice, measured, options.server)
    language = options.lang or language_of(os.environ)
    if options.verify:
        return _verify(options, advice, measured, places, language)
    rehearsal = rehearse(advice, measured, starts_of(runs, options.gpu))
    told = Told(
        advice,
        rehearsal,
        statements(advice, measured, rehearsal),
        any(each.facts.simulated for each in measured),
        language,
    )
    sys.stdout.write(write_plan(options.format, told))
    if options.write is not None:
        for path in write_files(options.write, plan_files(advice, measured, places)):
            say(f"written: {path}")
    return NOT_MET if rehearsal.holds is False or not advice.carried else 0


def _demand(options: argparse.Namespace) -> Demand:
    from headcount.analysis.accounts import active_users
    from headcount.deployment.advice import Demand

    people = options.people
    if options.accounts is not None:
        if options.active_share is None:
            raise ScenarioError("--accounts needs --active-share", "how many of them are active at once, e.g. 0.1")
        people = active_users(options.accounts, options.active_share)
    elif options.active_share is not None:
        raise ScenarioError("--active-share needs --accounts", "say how many accounts there are, or --people")
    return Demand(
        people=people,
        complex_share=options.complex_share,
        comfort=options.comfort,
        growth_factor=options.growth,
        complex_model=options.complex,
    )


def _verify(
    options: argparse.Namespace, advice: Advice, measured: Sequence[Measured], places: Sequence[Place], language: str
) -> int:
    """Prove the plan on what is there; shows the findings."""
    from headcount.deployment.proof import prove
    from headcount.deployment.showing import write_proof
    from headcount.report.plan import plan_text
    from headcount.report.progress import Progress

    def agree(intent: Intent) -> bool:
        about = (intent.scenario, intent.facts, intent.estimate_s, intent.notes, intent.simulated)
        say(plan_text(*about, language=language))
        return True

    with Progress(language=language) as progress:
        proof = prove(
            advice,
            measured,
            places,
            options.verify,
            api_key=api_key(options),
            keys=os.environ,
            out=options.out,
            watcher=progress,
            agree=agree,
            routed_by=options.routed_by,
            level_time_s=options.level_time,
        )
    if proof is None:
        return 0
    sys.stdout.write(write_proof(options.format, proof, language))
    say("".join(f"\nfacts:  {path}" for path in proof.paths))
    if proof.interrupted:
        return INTERRUPTED
    return 0 if proof.holds else NOT_MET
