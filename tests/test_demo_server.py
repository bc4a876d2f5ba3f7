"""The demo's real model server answers while it is wanted and never outlives its user."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headcount.demo import EmbeddedEngine, find_demo_engine
from headcount.errors import ServerError

pytestmark = pytest.mark.engine

HOLDER = """
import asyncio
from headcount.demo import EmbeddedEngine

async def hold():
    async with EmbeddedEngine(slots=1, context_tokens=256) as engine:
        print(engine.url, flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


def models(url: str) -> list[str]:
    """The names of the models served at ``url``. Raises ``OSError`` when nothing listens there."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", "/v1/models")
        return [model["id"] for model in json.load(connection.getresponse())["data"]]
    finally:
        connection.close()


def test_the_engine_is_found() -> None:
    """With the demo extra installed, the demo uses a real engine."""
    assert find_demo_engine()


def test_it_answers_inside_the_block_and_is_gone_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is on loopback and answers; after the block nothing listens there and no log is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def use() -> tuple[str, list[str]]:
        async with EmbeddedEngine(slots=2, context_tokens=256) as engine:
            return engine.url, await asyncio.to_thread(models, engine.url)

    url, served = asyncio.run(use())

    assert urlsplit(url).hostname == "127.0.0.1"
    assert served == [EmbeddedEngine.model]
    with pytest.raises(ConnectionRefusedError):
        models(url)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_user_takes_the_server_along() -> None:
    """When its user dies without a word, the server ends by itself within seconds."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        url = holder.stdout.readline().strip()
        served = models(url)
        holder.kill()

    assert served == [EmbeddedEngine.model]
    for _ in range(100):
        try:
            models(url)
        except OSError:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"{url} still answers")


def test_a_server_that_cannot_start_says_why_and_keeps_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More slots than llama.cpp has: one error with its last words, and the place of its log."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def use() -> None:
        async with EmbeddedEngine(slots=900, context_tokens=256):
            pass

    with pytest.raises(ServerError, match="ended before it answered") as failure:
        asyncio.run(use())

    assert [str(log) in failure.value.hint for log in tmp_path.iterdir()] == [True]


def test_a_server_that_dies_in_use_is_an_error() -> None:
    """What was measured on a server that died is not passed off as an answer."""

    async def use() -> None:
        async with EmbeddedEngine(slots=1, context_tokens=256) as engine:
            os.kill(engine._process.pid, signal.SIGKILL)
            await engine._process.wait()

    with pytest.raises(ServerError, match="died while it was used") as failure:
        asyncio.run(use())

    Path(failure.value.hint.removeprefix("its log is ")).unlink()
