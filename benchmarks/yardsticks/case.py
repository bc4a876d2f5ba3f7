"""What is asked of a load generator, and how one is run and read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from yardsticks.truth import HERE, Tools

TOKENS = 128


class Case(NamedTuple):
    """What is asked of a client."""

    name: str
    people: int
    seconds: float
    rate_per_s: float | None = None
    """New requests a second in the open loop; None in the closed one."""
    full_speed: bool = False
    """The server answers as fast as its socket takes it, ``coalesce`` events a write."""
    coalesce: int = 16
    processes: int = 1
    pinned: bool = True
    """The server has one core and the client another; else both run where they like."""
    in_step: bool = False
    """Every wait of the server is the same, instead of 2 % wide: streams that begin together stay together."""

    @property
    def answers(self) -> int:
        """For a client that counts answers instead of seconds."""
        if self.full_speed:
            return int(1200 * self.seconds)
        rate = self.rate_per_s if self.rate_per_s is not None else self.people / 2.64
        return max(self.people, int(rate * self.seconds))


def opened(streams: int, rate_per_s: float, seconds: float) -> Case:
    """Open loop with so many streams in the mean."""
    return Case(f"open {streams}", streams, seconds, rate_per_s)


def closed(people: int, seconds: float) -> Case:
    """Closed loop without think time."""
    return Case(f"closed {people}", people, seconds)


def peak(people: int, seconds: float) -> Case:
    """As fast as the client can."""
    return Case(f"peak {people}", people, seconds, full_speed=True)


class Report(NamedTuple):
    """What a client says it saw, one entry an answer."""

    ttft_s: Any
    gaps_s: Any
    achieved: float | None = None
    ttft_p95_s: float | None = None
    """For a client that tells nothing else."""


class Client(NamedTuple):
    """How one is run and read."""

    command: Callable[[Case, int, Tools, Path, str | None], list[str]]
    report: Callable[[Case, Path], Report]
    can: Callable[[Case], bool]


def script(name: str) -> Callable[[Case, int, Tools, Path, str | None], list[str]]:
    def command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
        counts = [str(port), str(case.people), str(case.answers), str(TOKENS), str(folder / "report.txt")]
        rate = [] if case.rate_per_s is None else [str(case.rate_per_s)]
        return [python or sys.executable, str(HERE / f"{name}.py"), *counts, *rate]

    return command


def script_report(case: Case, folder: Path) -> Report:
    answers = [json.loads(line) for line in (folder / "report.txt").read_text().splitlines()]
    ttft_s = np.array([answer[1] - answer[0] for answer in answers]) / 1e9
    return Report(ttft_s, np.concatenate([np.diff(answer[1:]) for answer in answers]) / 1e9)
