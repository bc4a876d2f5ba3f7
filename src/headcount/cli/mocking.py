"""The verb that serves: ``mock``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from headcount.cli.arguments import Verbs, add_key, api_key, at_most, duration, positive, say
from headcount.errors import ScenarioError

if TYPE_CHECKING:
    from headcount.mock import MockServer

__all__ = ["add"]

_READY = {"vllm": "home", "sglang": "workstation", "llamacpp": "laptop"}
"""What is played where neither hardware nor a ready server is named, by engine."""


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb and its flags."""
    mock = verbs.add_parser(
        "mock",
        parents=[common],
        help="serve a simulated model server over HTTP, to try everything without a GPU",
        epilog="NAME=VALUE is any option of the simulated engine, faults among them: error_share=0.01 "
        "error_kind=http_503 queue_limit=8 stall_share=0.05 buffered=true proxy_limit=20 drift_per_hour=0.3",
    )
    mock.add_argument("option", nargs="*", metavar="NAME=VALUE", help="how it behaves, and what is wrong with it")
    mock.add_argument(
        "--engine", choices=sorted(_READY), help="whose words and habits it has (default: the server's own, or vllm)"
    )
    mock.add_argument("--gpu", help='a GPU of the catalogue, for instance "RTX 4090"; needs --model')
    mock.add_argument("--gpus", type=positive, help="how many of them (default 1)")
    mock.add_argument("--model", help="the model it serves; with --gpu one of the catalogue, e.g. Qwen3-8B-AWQ")
    mock.add_argument("--slots", type=positive, help="requests it works on at once")
    mock.add_argument("--adapters", help="LoRA adapters by name, or how many: law,tax or 5")
    mock.add_argument("--speed", type=float, help="of the whole server; 2 is twice as fast")
    mock.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine only)")
    mock.add_argument("--port", type=at_most(65535, least=0), default=8000, help="0: any that is free (default 8000)")
    mock.add_argument("--unix", metavar="PATH", help="listen on a Unix socket instead")
    mock.add_argument("--for", dest="for_s", type=duration, metavar="TIME", help="end by itself after e.g. 90s or 10m")
    add_key(mock)
    mock.set_defaults(verb=_mock)


def _mock(options: argparse.Namespace) -> int:
    import contextlib

    from headcount.load.descriptors import raise_descriptor_limit
    from headcount.mock import run

    server = _server(options)
    raise_descriptor_limit()
    with contextlib.suppress(KeyboardInterrupt):
        run(server, options.for_s, lambda: _announce(server))
    return 0


def _server(options: argparse.Namespace) -> MockServer:
    from headcount.engine.simulation import read_options
    from headcount.mock import MockServer

    given = dict(_pair(text) for text in options.option)
    flags = {name: getattr(options, name) for name in ("gpu", "gpus", "slots", "speed")}
    given |= {name: value for name, value in flags.items() if value is not None}
    if options.gpus and "gpu" not in given:
        raise ScenarioError("--gpus is given without a GPU", 'give --gpu "RTX 4090" and --model Qwen3-8B-AWQ as well')
    adapters = options.adapters or given.get("adapters")
    if isinstance(adapters, str):
        given["adapters"] = _adapters(adapters)
    if options.engine and given.get("gpu"):
        given.setdefault("policy", options.engine)
    elif options.engine and not {"server", "policy"} & set(given):
        given["server"] = _READY[options.engine]
    key = api_key(options)
    where = {"host": options.host, "port": options.port, "socket_path": options.unix}
    return MockServer(read_options(given), options.engine, options.model, key, **where)


def _announce(server: MockServer) -> None:
    """The address alone goes to stdout, for scripts."""
    policy = server.core.policy
    kept = "" if policy.queue_limit is None else f", {policy.queue_limit} more may wait"
    adapters = f", adapters {', '.join(server.options.adapters)}" if server.options.adapters else ""
    print(server.url, flush=True)
    say(f"simulated {server.model}, {policy.slots} requests at once{kept}{adapters}; speaks as {server.dialect.title}")
    say(f"measure it: headcount find {server.url}")
    say("Ctrl-C ends it")


def _pair(text: str) -> tuple[str, Any]:
    """``NAME=VALUE``, the value as JSON where it is some."""
    import msgspec

    name, given, value = text.partition("=")
    if not given:
        raise ScenarioError(f"{text!r} is no option", "write NAME=VALUE, for instance error_share=0.01")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _adapters(text: str) -> tuple[str, ...]:
    if text.isdecimal():
        if len(text) > 4:
            raise ScenarioError(f"--adapters {text} are too many", "at most 9999, e.g. --adapters 5")
        return tuple(f"adapter-{number}" for number in range(1, int(text) + 1))
    return tuple(name.strip() for name in text.split(",") if name.strip())
