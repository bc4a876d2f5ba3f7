"""``headcount experiment power`` on a server over HTTP, with NVIDIA's library played by the C stand-in."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headcount.cli import main
from headcount.power.boards import boards as driver_boards
from headcount.store import open_run
from tests.nvml.fixtures import boards, nvml_library

__all__ = ["boards", "nvml_library"]

Say = Callable[[str], None]

ONE = """\
- count 1
- driver 580.65.06
- GPU-aaaa 0
0 uuid GPU-aaaa
0 name RTX PRO 6000
0 power_mw 300000
0 temperature 60
0 limit_mw 600000
0 least_limit_mw 150000
0 most_limit_mw 600000
"""


@contextmanager
def mock_server() -> Iterator[str]:
    """The simulator over HTTP, in a process of its own, at a port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "headcount", "mock", "--for", "90s", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def driver(boards: Say, nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """The stand-in, for the guard's process too."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library.parent))
    return boards


def experiment(url: str, out: Path, *more: str) -> int:
    """The verb, as short as it can be."""
    flags = ("--users", "1", "--visits", "1", "--level-time", "3s", "--yes", "--out", str(out))
    return main(["experiment", "power", url, *flags, *more])


def test_each_limit_is_set_held_and_put_back(driver: Say, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The levels carry their condition, the samples the limit that was set; afterwards all is as before."""
    driver(ONE)
    with mock_server() as url:
        experiment(url, tmp_path / "runs", "--limits", "600,350")

    run = open_run(next((tmp_path / "runs").iterdir()))
    conditions = [level.condition for level in run.levels()]  # a level this machine was too busy for is held again
    assert list(dict.fromkeys(conditions)) == ["600 W", "350 W"]
    assert {one.value for one in run.samples() if one.name == "gpu_power_limit_w"} == {600.0, 350.0}
    assert "600 W" in capsys.readouterr().out
    assert driver_boards()[0].limit_w == 600.0


@pytest.mark.parametrize(
    ("extra", "limits", "message", "hint"),
    [
        ("0 set_refused 4\n", "600,350", "only an administrator", "--power-command"),
        ("", "600,100", "takes no power limit of 100 W", "from 150 to 600 W"),
        ("", "600", "two limits", "--limits 600,450"),
        ("- init 9\n", "600,350", "no NVIDIA driver", "--power-by-hand"),
    ],
)
def test_what_cannot_be_set_is_one_sentence(
    driver: Say,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: str,
    limits: str,
    message: str,
    hint: str,
) -> None:
    """No permission, outside the range, too few, no driver; nothing is left changed."""
    driver(ONE + extra)
    with mock_server() as url:
        assert experiment(url, tmp_path, "--limits", limits) == 2

    said = capsys.readouterr().err
    assert message in said
    assert hint in said
    assert "Traceback" not in said


def test_its_flags_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Another experiment does not silently ignore them."""
    assert main(["experiment", "streaming", "--engine", "simulated", "--limits", "600,350"]) == 2
    assert "--limits is for power" in capsys.readouterr().err


def test_without_numbers_of_people_the_limit_is_searched_under_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The simulated engine has no power limit: no difference is found, and each has its own number of people."""
    flags = ("--engine", "simulated", "--limits", "600,350", "--max-time", "10m", "--out", str(tmp_path))
    assert main(["experiment", "power", *flags, "--lang", "en"]) == 0

    shown = capsys.readouterr().out
    assert "No difference seen down to 350 W" in " ".join(shown.split())
    assert "too close to rank" in shown
    run = open_run(next(tmp_path.iterdir()))
    assert {level.purpose for level in run.levels()} >= {"bracket", "confirm"}
    assert {level.condition for level in run.levels()} == {"600 W", "350 W"}
