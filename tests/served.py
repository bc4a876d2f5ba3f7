"""A ``Playback`` server on a thread with a loop of its own, for tests of whole commands, which run their own loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tests.playback import Playback


@contextlib.contextmanager
def served(server: Playback) -> Iterator[str]:
    """Serve until the block ends; gives the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)  # type: ignore[arg-type]

    wait(server.__aenter__())
    try:
        yield server.url
    finally:
        wait(server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
