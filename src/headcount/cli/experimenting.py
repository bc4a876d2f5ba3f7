"""The verb ``experiment``: a ready scenario whose conditions are held against each other."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from headcount.cli.arguments import Verbs, add_key, add_output, api_key, duration, fraction_or_none, positive, whole
from headcount.errors import ScenarioError

if TYPE_CHECKING:
    from headcount.records import EngineFacts

__all__ = ["add"]

ASKING = ("adapters", "context", "interference")
"""Experiments that are fitted to what the server tells of itself."""
OWN_FLAGS = {
    "adapters": ("adapters",),
    "models": ("url",),
    "cold-start": ("before", "idle"),
    "power": ("limits", "loss", "power_command", "power_by_hand"),
    "soak": ("soak",),
}
"""Flags that only one experiment has."""


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "experiment", parents=[common], help="what changes the answer: adapters, streaming, power … side by side"
    )
    parser.add_argument("name", nargs="?", help="which experiment; none: list them")
    parser.add_argument(
        "target", nargs="*", help="the server's address (none: look on this machine); for models: two, A and B"
    )
    parser.add_argument("--engine", metavar="KIND", help="which server it is, or simulated")
    parser.add_argument("--model", help="the model to ask (default: the server's first)")
    parser.add_argument("--url", help="for models: the one server that has both")
    parser.add_argument("--adapters", metavar="A,B", help="for adapters: which (default: all that the server has)")
    parser.add_argument("--before", metavar="COMMAND", help="for cold-start: a command that starts the server anew")
    parser.add_argument(
        "--idle", metavar="TIME", type=duration, help="for cold-start: how long to leave it alone (default 330s)"
    )
    parser.add_argument("--limits", metavar="W,W", type=_numbers, help="for power: the power limits, in watts")
    parser.add_argument(
        "--loss", metavar="SHARE", type=fraction_or_none, help="for power: the loss of tokens/s allowed (default 5%%)"
    )
    parser.add_argument("--power-command", metavar="COMMAND", help="for power: sets a limit, with {gpu} and {watts}")
    parser.add_argument("--power-by-hand", action="store_true", help="for power: ask me to set each limit")
    parser.add_argument("--users", metavar="N,N", type=_numbers, help="other numbers of people, e.g. 4,16")
    parser.add_argument("--visits", metavar="N", type=positive, help="how often each is held (default 2)")
    parser.add_argument("--slo", action="append", help='a preset or "ttft_p95<=2s", where conditions have none')
    parser.add_argument(
        "--level-time", metavar="TIME", type=duration, help="how long at each number of people, e.g. 2m"
    )
    parser.add_argument("--max-time", metavar="TIME", type=duration, help="never longer than this in all, e.g. 30m")
    parser.add_argument("--soak", metavar="TIME", type=duration, help="for soak: how long to hold (default 1h)")
    parser.add_argument("--seed", type=whole, metavar="N", help="of everything random (default 1)")
    parser.add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    parser.add_argument("--ca-file", help="a certificate authority to trust for TLS")
    parser.add_argument("--show", action="store_true", help="print the scenario instead, to change it and run it")
    add_key(parser)
    add_output(parser)
    parser.set_defaults(verb=_experiment)


def _numbers(text: str) -> list[int]:
    """``4,8,16``."""
    return [positive(part.strip()) for part in text.split(",")]


def _experiment(options: argparse.Namespace) -> int:
    from headcount.experiments import EXPERIMENTS, ready_table, summary_line

    if options.name is None:
        width = max(map(len, EXPERIMENTS))
        for name in EXPERIMENTS:
            print(f"{name:{width}}  {summary_line(name)}")
        return 0
    from headcount.cli.measuring import measured
    from headcount.scenario import encode_scenario, make_scenario

    table = ready_table(options.name)
    _check_flags(options)
    table = _flagged(_aimed(table, options), options)
    if options.name in ASKING:
        table = _fitted(table, options)
    scenario = make_scenario(table)
    if options.show:
        print(encode_scenario(scenario), end="")
        return 0
    return measured(scenario, options, "experiment")


def _check_flags(options: argparse.Namespace) -> None:
    """A flag of another experiment is not silently ignored."""
    for name, flags in OWN_FLAGS.items():
        values = {f"--{flag.replace('_', '-')}": getattr(options, flag) for flag in flags}
        given = [flag for flag, value in values.items() if value is not None and value is not False]  # 0 is given
        if given and name != options.name:
            raise ScenarioError(f"{given[0]} is for {name}, not {options.name}", "leave it out")
    if options.power_command and options.power_by_hand:
        raise ScenarioError("--power-command and --power-by-hand are both given", "keep one of them")
    if options.adapters is not None and not _names(options.adapters):
        raise ScenarioError(f"--adapters {options.adapters!r} names none", "name some, e.g. --adapters sql,law")


def _names(text: str) -> list[str]:
    """``sql,law``, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _aimed(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment at the server, or the two, that are named."""
    from headcount.cli.measuring import look_around
    from headcount.experiments.tailoring import between_models

    targets: list[str] = list(options.target)
    engine = {"kind": options.engine, "model": options.model, "ca_file": options.ca_file}
    engine = {key: value for key, value in engine.items() if value is not None}
    if options.insecure:
        engine["insecure"] = True
    if options.name == "models":
        if len(targets) != 2:
            raise ScenarioError("models needs two to hold against each other", "give two addresses, or two models")
        table = between_models(table, *targets)
        targets = [] if "url" in table["condition"][0]["engine"] else [options.url or ""]
    if len(targets) > 1:
        raise ScenarioError(f"{options.name} takes one address, not {len(targets)}", f"leave out {targets[1]}")
    if options.engine == "simulated":
        if targets and targets[0]:
            raise ScenarioError("the simulated engine has no address", f"leave out {targets[0]}")
        if options.name == "adapters" and options.adapters:
            engine["options"] = {"adapters": _names(options.adapters)}
    elif targets or options.name != "models":
        engine["url"] = (targets[0] if targets else "") or look_around()
    return {**table, "engine": {**table.get("engine", {}), **engine}}


def _flagged(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment with what flags say of people and time."""
    from headcount.experiments.tailoring import after_each, of_people

    if options.users:
        table = of_people(table, options.users)
    if options.before or options.idle is not None:
        table = after_each(table, options.before or "", options.idle)
    search = {
        "visits": options.visits,
        "level_time_s": options.level_time,
        "max_time_s": options.max_time,
        "soak_s": options.soak,
    }
    table = _limited(table, options)
    table = {**table, "search": table.get("search", {}) | {k: v for k, v in search.items() if v is not None}}
    if options.slo:
        table["slo"] = options.slo[0] if len(options.slo) == 1 else options.slo
    if options.seed is not None:
        table["seed"] = options.seed
    return table


def _limited(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment with power limits as its conditions."""
    from headcount.experiments.tailoring import under_power_limits

    if options.name != "power":
        return table
    return under_power_limits(table, options.limits or (), options.power_command, options.power_by_hand, options.loss)


def _fitted(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment fitted to what the server tells."""
    from headcount.experiments.tailoring import tailored

    adapters = _names(options.adapters or "")
    return tailored(options.name, table, _facts(table, options), adapters)


def _facts(table: dict[str, Any], options: argparse.Namespace) -> EngineFacts:
    """What the server says of itself."""
    from headcount.preflight import reach
    from headcount.scenario import EngineOptions
    from headcount.workload.table import fill

    engine = fill(EngineOptions, table["engine"], "engine")

    async def ask() -> EngineFacts:
        ready = await reach(engine, api_key(options))
        await ready.engine.close()
        return ready.facts

    return asyncio.run(ask())
