"""The event loop whose clock jumps, and the one way to read a clock.

Code calls ``clock()``'s function and ``asyncio.sleep``, nothing else. Under ``run`` time is virtual: it jumps
to the next timer whenever every task waits, so that an hour of simulated load takes seconds and comes out
alike every time. Knows nothing of what runs on it.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualLoop", "clock", "run", "run_in_real_time"]

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Waits by moving the clock instead of sleeping; real file descriptors are only polled."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Poll, then jump ``timeout`` ahead. Raises ``RuntimeError`` when nothing can ever happen again."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits and no timer is set: the virtual clock cannot go on")
        self.now_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time, in seconds from 0. Threads and sub-processes are not waited for."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now_s


def clock() -> Callable[[], float]:
    """The running loop's clock in seconds: virtual where the loop is, else the monotonic clock.

    uvloop's own ``loop.time()`` is that same clock cut to milliseconds and read once an iteration;
    arrival times need it fresh and whole (see docs/decisions/0003).
    """
    loop = asyncio.get_running_loop()
    return loop.time if isinstance(loop, VirtualLoop) else time.monotonic


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a fresh virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def run_in_real_time(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on the fastest loop there is: uvloop, or asyncio's on Windows, which has none."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
