"""Ready experiments: scenarios with conditions as data, one TOML file each, and how they fit a server.

An experiment is that file, and a module of ``analysis.findings`` that says what its conditions show. Knows nothing of
arguments and of how anything is shown.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from headcount.errors import ScenarioError
from headcount.workload.table import nearest

__all__ = ["EXPERIMENTS", "ready_table", "summary_line"]

_HERE = Path(__file__).parent

EXPERIMENTS = [
    *("adapters", "streaming", "models", "interference", "burst", "context", "lengths", "cold-start", "power", "soak")
]
"""In the order in which they are listed; each is a file beside this one."""


def ready_table(name: str) -> dict[str, Any]:
    """The scenario of an experiment as a table. ``ScenarioError`` for a name that is none."""
    return tomllib.loads(_text(name))


def summary_line(name: str) -> str:
    """What an experiment is for, in a line: the first of its file."""
    return _text(name).partition("\n")[0].removeprefix("# ")


def _text(name: str) -> str:
    if name not in EXPERIMENTS:
        raise ScenarioError(f"there is no experiment {name!r}", nearest(name, list(EXPERIMENTS)))
    return (_HERE / f"{name}.toml").read_text(encoding="utf-8")
