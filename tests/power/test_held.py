"""Power limits through the real nvidia-ml-py against the C stand-in: set, refused, and put back however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headcount.errors import RunError, ScenarioError
from headcount.power.boards import Board, ByCommand, boards
from headcount.power.held import HeldLimits

FIRST, SECOND = "GPU-aaaa", "GPU-bbbb"

TWO = f"""\
- count 2
- {FIRST} 0
- {SECOND} 1
0 uuid {FIRST}
0 name RTX PRO 6000
0 limit_mw 600000
0 default_limit_mw 600000
0 least_limit_mw 150000
0 most_limit_mw 600000
1 uuid {SECOND}
1 name RTX 4090
1 limit_mw 420000
1 default_limit_mw 450000
1 least_limit_mw 150000
1 most_limit_mw 600000
"""

Say = Callable[[str], None]


def limits() -> dict[str, float]:
    """As the driver tells them now."""
    return {board.uuid: board.limit_w for board in boards()}


@pytest.fixture
def driver(boards: Say, nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """The stand-in, for child processes too."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library.parent))
    return boards


def test_a_board_tells_its_limit_and_what_it_may_be(driver: Say) -> None:
    """Watts; those asked for by UUID alone."""
    driver(TWO)
    assert boards([SECOND]) == (Board(SECOND, "RTX 4090", 420.0, 450.0, 150.0, 600.0),)


def test_limits_return_after_the_block_and_after_an_error_in_it(driver: Say) -> None:
    """Each GPU gets its own back, not its default."""
    driver(TWO)
    with HeldLimits(boards()) as held:
        held.set(350.0)
        assert limits() == {FIRST: 350.0, SECOND: 350.0}
    assert limits() == {FIRST: 600.0, SECOND: 420.0}
    with pytest.raises(ScenarioError, match="of 20 W"), HeldLimits(boards()) as held:
        held.set(20.0)
    assert limits() == {FIRST: 600.0, SECOND: 420.0}


@pytest.mark.parametrize("limit_w", [149.0, 601.0])
def test_a_limit_outside_the_range_is_refused_before_any_board_is_changed(driver: Say, limit_w: float) -> None:
    """The message names the range."""
    driver(TWO)
    with HeldLimits(boards()) as held, pytest.raises(ScenarioError, match="takes no power limit") as refused:
        held.set(limit_w)
    assert refused.value.hint == "give limits from 150 to 600 W"
    assert limits() == {FIRST: 600.0, SECOND: 420.0}


def test_without_permission_it_says_how_else(driver: Say) -> None:
    """Nothing was changed, so nothing has to be put back."""
    driver(TWO + "0 set_refused 4\n")
    only = boards([FIRST])
    with pytest.raises(ScenarioError, match="only an administrator") as refused, HeldLimits(only) as held:
        held.set(300.0)
    assert "--power-command" in refused.value.hint


def test_a_limit_that_could_not_be_put_back_is_told_with_what_it_was(driver: Say) -> None:
    """The driver may change its mind: then the person must know the watts."""
    driver(TWO)
    held = HeldLimits(boards([FIRST])).__enter__()
    held.set(300.0)
    driver(TWO.replace("0 limit_mw 600000", "0 limit_mw 300000") + "0 set_refused 4\n")
    with pytest.raises(RunError, match="not put back") as told:
        held.__exit__(None, None, None)
    assert told.value.hint == "set them yourself: RTX PRO 6000 600 W"


PARENT = f"""
import sys, time
from headcount.power.boards import boards
from headcount.power.held import HeldLimits
with HeldLimits(boards(["{FIRST}"])) as held:
    held.set(250.0)
    print("set", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_program_leaves_no_limit_behind(driver: Say, number: signal.Signals) -> None:
    """Also SIGKILL, which no program can answer: the guard outlives it."""
    driver(TWO)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"set\n"
    assert limits()[FIRST] == 250.0
    os.killpg(parent.pid, number)
    parent.wait(20)
    parent.stdout.close()
    until = time.monotonic() + 20
    while limits()[FIRST] != 600.0 and time.monotonic() < until:
        time.sleep(0.05)
    assert limits()[FIRST] == 600.0


def test_a_command_sets_and_puts_back(driver: Say, tmp_path: Path) -> None:
    """With the GPU and the watts in their places, and no shell."""
    driver(TWO)
    script = tmp_path / "set limit.sh"
    script.write_text(f'#!/bin/sh\necho "$1=$2" >> "{tmp_path}/said"\n')
    script.chmod(0o755)
    with HeldLimits(boards([FIRST]), f"'{script}' {{gpu}} {{watts}}") as held:
        held.set(350.0)
    assert (tmp_path / "said").read_text() == f"{FIRST}=350\n{FIRST}=600\n"


@pytest.mark.parametrize("command", ["", "nvidia-smi -pl 300", "a {watts} {card}", "a '{watts}", "{watts} {}"])
def test_a_command_without_watts_is_refused(command: str) -> None:
    """Before anything runs."""
    with pytest.raises(ScenarioError, match="--power-command"):
        ByCommand(command)


def test_a_command_that_fails_is_quoted() -> None:
    """Its last line, and what to do."""
    with pytest.raises(ScenarioError, match="ended with 3: no such card"):
        ByCommand("sh -c 'echo {watts}; echo no such card >&2; exit 3'").set(FIRST, 300.0)
    with pytest.raises(ScenarioError, match="did not run"):
        ByCommand("/no/such/program {watts}").set(FIRST, 300.0)


def test_without_a_driver_it_says_where_to_go(driver: Say) -> None:
    """As on a machine that is not the server's."""
    driver("- init 9\n")
    with pytest.raises(ScenarioError, match="no NVIDIA driver") as refused:
        boards()
    assert "--power-by-hand" in refused.value.hint
