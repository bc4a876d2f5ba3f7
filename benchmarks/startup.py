"""How much longer ``headcount --help`` takes than an empty Python: the median of interleaved runs.

Exits 1 above the bar.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

BAR_MS = 150
RUNS = 21

EMPTY = [sys.executable, "-c", "pass"]
HELP = [str(Path(sys.executable).with_name("headcount")), "--help"]


def milliseconds(command: list[str]) -> float:
    """Wall time of one run."""
    began_s = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began_s) * 1000


def main() -> int:
    """Warm the file cache, then alternate, so that a neighbour's load falls on both."""
    milliseconds(EMPTY)
    milliseconds(HELP)
    pairs = [(milliseconds(EMPTY), milliseconds(HELP)) for _ in range(RUNS)]
    empty_ms, help_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    extra_ms = help_ms - empty_ms
    passed = extra_ms < BAR_MS
    print(
        f"{'pass' if passed else 'FAIL'}: headcount --help takes {extra_ms:.0f} ms more than an empty Python "
        f"({help_ms:.0f} against {empty_ms:.0f}, medians of {RUNS}), bar {BAR_MS} ms"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
