"""A mock server for as long as it is wanted, on a fast event loop. Knows nothing of what it serves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from headcount.mock.server import MockServer
from headcount.virtual import run_in_real_time

__all__ = ["run"]


def run(server: MockServer, for_s: float | None, listening: Callable[[], None]) -> None:
    """Serve until SIGTERM, or for ``for_s``; ``listening`` is called once it does. ``KeyboardInterrupt`` for Ctrl-C."""

    async def main() -> None:
        ended = asyncio.Event()
        with contextlib.suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        async with server:
            listening()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), for_s)

    run_in_real_time(main())
