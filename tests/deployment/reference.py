"""The two published load tests as runs, and what a plan makes of them."""

from __future__ import annotations

from pathlib import Path

from headcount.deployment.capacity import Measured
from headcount.deployment.sources import measured_models
from headcount.imports import import_files
from headcount.store import Run

DATA = Path(__file__).parents[1] / "data" / "imports"
SMALL, LARGE = "Qwen3-8B-AWQ", "Qwen3-32B-AWQ"


def reference_paths(folder: Path) -> list[Path]:
    """The 8B's run folder and the 32B's."""
    files = [DATA / "load-test-8b.csv", DATA / "load-test-32b.csv"]
    return [import_files([file], folder, kind="table", slo="whole", users=None, name=file.stem) for file in files]


def reference_runs(folder: Path) -> list[tuple[Run, Measured]]:
    """The same, judged."""
    return measured_models(reference_paths(folder))
