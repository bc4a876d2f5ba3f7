"""``python -m headcount.mock [--port 8000] [--dialect vllm] [NAME=VALUE ...]``: serve until interrupted.

``NAME=VALUE`` are the simulated engine's options: ``server=laptop slots=8 error_share=0.01``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

import msgspec

from headcount.engine.simulation import read_options
from headcount.errors import HeadcountError
from headcount.mock.dialect import DIALECTS
from headcount.mock.server import MockServer

__all__ = ["main"]


def main() -> int:
    """Prints the address once it listens; exit code."""
    parser = argparse.ArgumentParser(prog="python -m headcount.mock", description="A simulated model server over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--dialect", choices=sorted(DIALECTS), default="vllm")
    parser.add_argument("--model")
    parser.add_argument("--api-key")
    parser.add_argument("option", nargs="*", metavar="NAME=VALUE", help="options of the simulated engine")
    asked = parser.parse_args()
    try:
        options = read_options(dict(_pair(text) for text in asked.option))
        server = MockServer(options, asked.dialect, asked.model, asked.api_key, asked.host, asked.port)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(server))
    except HeadcountError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _pair(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


async def _serve(server: MockServer) -> None:
    async with server:
        print(f"{server.model} on {server.url} ({server.dialect.name})", flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    sys.exit(main())
