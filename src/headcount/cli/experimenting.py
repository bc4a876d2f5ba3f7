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
    parser.add_argument("--idle", metavar="TIME", type=duration, help="for cold-start: how long to leave it alone")
    parser.add_argument("--limits", metavar="W,W", type=_numbers, help="for power: the power limits, in watts")
    parser.add_argument("--loss", type=fraction_or_none, help="for power: the loss of tokens/s allowed (default 5%%)")
    parser.add_argument("--power-command", metavar="COMMAND", help="for power: sets a limit, with {gpu} and {watts}")
    parser.add_argument("--power-by-hand", action="store_true", help="for power: ask me to set each limit")
    parser.add_argument("--users", metavar="N,N", type=_numbers, help="other numbers of people")
    parser.add_argument("--visits", metavar="N", type=positive, help="how often each is held (default 2)")
    parser.add_argument("--slo", action="append", help='a preset or "ttft_p95<=2s", where conditions have none')
    parser.add_argument("--level-time", metavar="TIME", type=duration, help="how long at each number of people")
    parser.add_argument("--max-time", metavar="TIME", type=duration, help="never longer than this in all")
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

    table = _flagged(_aimed(ready_table(options.name), options), options)
    if options.name in ASKING:
        table = _fitted(table, options)
    scenario = make_scenario(table)
    if options.show:
        print(encode_scenario(scenario), end="")
        return 0
    return measured(scenario, options, "experiment")


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
            engine["options"] = {"adapters": options.adapters.split(",")}
    elif targets or options.name != "models":
        engine["url"] = (targets[0] if targets else "") or look_around()
    return {**table, "engine": {**table.get("engine", {}), **engine}}


def _flagged(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment with what flags say of people and time."""
    from headcount.experiments.tailoring import after_each, of_people

    if options.users:
        table = of_people(table, options.users)
    if options.before or options.idle is not None:
        if options.name != "cold-start":
            raise ScenarioError(f"--before and --idle are for cold-start, not {options.name}", "leave them out")
        table = after_each(table, options.before or "", options.idle)
    search = {
        "visits": options.visits,
        "level_time_s": options.level_time,
        "max_time_s": options.max_time,
        "soak_s": options.soak,
    }
    table = _limited(table, options)
    if options.soak is not None and options.name != "soak":
        raise ScenarioError(f"--soak is for soak, not {options.name}", "leave it out")
    table = {**table, "search": table.get("search", {}) | {k: v for k, v in search.items() if v is not None}}
    if options.slo:
        table["slo"] = options.slo[0] if len(options.slo) == 1 else options.slo
    if options.seed is not None:
        table["seed"] = options.seed
    return table


def _limited(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment with power limits as its conditions."""
    from headcount.experiments.tailoring import under_power_limits

    given = {
        "--limits": options.limits,
        "--loss": options.loss,
        "--power-command": options.power_command,
        "--power-by-hand": options.power_by_hand,
    }
    if options.name != "power":
        if flags := [flag for flag, value in given.items() if value]:
            raise ScenarioError(f"{flags[0]} is for power, not {options.name}", "leave it out")
        return table
    return under_power_limits(table, options.limits or (), options.power_command, options.power_by_hand, options.loss)


def _fitted(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The experiment fitted to what the server tells."""
    from headcount.experiments.tailoring import tailored

    adapters = [name.strip() for name in options.adapters.split(",")] if options.adapters else []
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
