"""Ctrl-C, a second Ctrl-C and ``kill -9``: real processes against a real socket; nothing measured is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headcount.preflight import PROBE_TOKENS
from headcount.review import review
from headcount.store import open_run
from tests.playback import DONE, FINISH, USAGE, Playback, Script, Seen, stream, token, whole
from tests.served import served

MODELS = Script([(0.0, whole(b'{"object":"list","data":[{"id":"mini","object":"model"}]}'))])
ANSWER = stream((0.1, token("H")), (0.12, token("i")), (0.3, FINISH + USAGE + DONE))
PATIENCE_S = 30.0


class Small(Playback):
    """A model server that writes two tokens in 0.3 s, for as many as like."""

    def script_for(self, seen: Seen) -> Script:
        """Models or an answer."""
        return (
            MODELS
            if seen.line.startswith("GET /v1/models")
            else ANSWER
            if "POST" in seen.line
            else Script([(0.0, whole(b"{}", status=404))])
        )


class Command:
    """``headcount find`` on its way."""

    def __init__(self, url: str, out: Path) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headcount", "find", url, "--yes", "--out", str(out), "--max-time", "2m"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def run(self) -> Path:
        """Its run folder."""
        [folder] = self.out.iterdir()
        return folder

    def requests(self) -> int:
        """Lines of requests on disk."""
        return sum(path.read_bytes().count(b"\n") for path in self.out.glob("*/requests*.jsonl"))


def until(holds: Callable[[], bool]) -> None:
    """Wait for it, with a bound."""
    for _ in range(int(PATIENCE_S / 0.1)):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("it did not come about")


@pytest.fixture
def server() -> Small:
    """A server, not yet started."""
    return Small()


@pytest.fixture
def command(server: Small, tmp_path: Path) -> Iterator[Command]:
    """A search that has facts on disk."""
    with served(server) as url:
        running = Command(url, tmp_path / "runs")
        try:
            until(lambda: running.process.poll() is not None or running.requests() >= 10)
            assert running.process.poll() is None, running.process.communicate()
            yield running
        finally:
            running.process.kill()
            running.process.communicate()


def test_one_ctrl_c_saves_and_reports(command: Command) -> None:
    """Exit 130; the report of what is known is printed; the level is marked interrupted."""
    command.process.send_signal(signal.SIGINT)
    out, err = command.process.communicate(timeout=PATIENCE_S)

    assert command.process.returncode == 130, err
    assert "Traceback" not in err
    assert "people" in out
    assert open_run(command.run).levels()[-1].ended == "interrupted"


def test_a_second_ctrl_c_ends_at_once(command: Command) -> None:
    """Exit 130, soon, and what was on disk can be read."""
    command.process.send_signal(signal.SIGINT)
    command.process.send_signal(signal.SIGINT)
    _, err = command.process.communicate(timeout=PATIENCE_S)

    assert command.process.returncode == 130, err
    assert "Traceback" not in err
    assert len(list(open_run(command.run).requests())) >= 10


def test_kill_9_loses_at_most_the_last_second(command: Command, server: Small) -> None:
    """The load process ends with its parent; every answer but those of the last second is on disk."""
    command.process.kill()
    command.process.wait(PATIENCE_S)
    answered = sum("POST" in seen.line and json.loads(seen.body)["max_tokens"] > PROBE_TOKENS for seen in server.seen)

    until(lambda: server.open_now == 0)
    run = open_run(command.run)
    stored = list(run.requests())
    assert len(stored) >= answered - 2 - 1.5 / 0.3 * max(level.users for level in run.levels())
    assert review(run).levels
