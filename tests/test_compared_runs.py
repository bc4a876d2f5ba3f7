"""Whole runs compared: an unchanged simulated server is no different, a tenth slower is worse, whatever the seed."""

from __future__ import annotations

from pathlib import Path

import pytest

import headcount
from headcount.cli import main

SCENARIO = """
name = "pair"
seed = {seed}
[engine]
kind = "simulated"
[engine.options]
speed = {speed}
seed = {server}
[workload]
kind = "chat"
[search]
levels = [4, 12]
level_time_s = 120
"""


def held(folder: Path, seed: int, server: int, speed: float = 1.0) -> headcount.StoredRun:
    """Two levels of two minutes of people from ``seed``, on a server whose chance comes from ``server``."""
    folder.mkdir()
    scenario = folder / "pair.toml"
    scenario.write_text(SCENARIO.format(seed=seed, server=server, speed=speed))
    assert main(["run", str(scenario), "--out", str(folder / "runs")]) == 0
    return headcount.open_run(next((folder / "runs").iterdir()))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_runs_tell_the_server_from_chance(seed: int, tmp_path: Path) -> None:
    """The same people on the same server, on one slower by 10 %, and other people on the same server."""
    first = held(tmp_path / "first", seed, server=seed)
    again = held(tmp_path / "again", seed, server=seed + 100)
    others = held(tmp_path / "others", seed + 50, server=seed + 100)
    slower = held(tmp_path / "slower", seed, server=seed + 100, speed=0.9)

    assert headcount.compare(first, again).statement == "no-difference"
    assert headcount.compare(first, others).statement == "no-difference"
    assert headcount.compare(first, slower).statement == "worse"
    ratio = next(one for one in headcount.compare(first, slower).ratios if (one.measure, one.users) == ("e2e_p50_s", 0))
    assert 1.05 < ratio.ratio < 1.2
