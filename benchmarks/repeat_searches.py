"""Do searches on one and the same server agree? Several of them, one after the other, with their limits and spread.

    python benchmarks/repeat_searches.py URL [--times 5] [flags of headcount find]

For instance ``repeat_searches.py http://127.0.0.1:8000 --workload short --slo home --max-time 10m``. They agree when no
two limits are further apart than one step of the search: the asked resolution (``--resolution``, 5 % unless given), or
one person. Exit 1 when they do not.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headcount.analysis.conclusions import Verdict
from headcount.review import review, scenario_of
from headcount.store import open_run


def searched(flags: list[str], seed: int, out: Path) -> tuple[Verdict, float, float]:
    """One search as anybody would start it: its verdict, how long it took, and the resolution it was asked for."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "headcount", "find", *flags, "--yes", "--seed", str(seed), "--out", str(out)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    took_s = time.monotonic() - began_s
    folders = sorted(folder for folder in out.glob("*") if (folder / "run.json").exists())
    if not folders:
        sys.exit("headcount find left no run behind")
    run = open_run(folders[-1])
    return review(run), took_s, scenario_of(run).search.resolution


def main() -> int:
    """One line a search, and the spread of their limits."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("url")
    arguments.add_argument("--times", type=int, default=5)
    arguments.add_argument("--keep", type=Path, help="where run folders stay (default: nowhere)")
    given, flags = arguments.parse_known_args()
    limits: list[int] = []
    resolution = 0.05
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, given.times + 1):
            out = (given.keep or Path(folder)) / f"search-{number}"
            verdict, took_s, resolution = searched([given.url, *flags], number, out)
            low, high = verdict.limit_interval_users or (float("nan"), float("nan"))
            at_least = "at least " if verdict.at_least else ""
            print(
                f"search {number}: {at_least}{verdict.limit_users} people ({low:.0f} to {high:.0f}), held "
                f"{verdict.confirmations} times, plan for {verdict.recommended_users}; {verdict.cause}; {took_s:.0f} s",
                flush=True,
            )
            if verdict.burst_sentence:
                print(f"          {verdict.burst_sentence}", flush=True)
            if verdict.trusted and verdict.limit_users is not None:
                limits.append(verdict.limit_users)
    if len(limits) < given.times:
        print(f"{given.times - len(limits)} of {given.times} gave no answer that can be trusted")
        return 1
    middle, spread = statistics.median(limits), max(limits) - min(limits)
    step = max(1.0, resolution * middle)
    agree = spread <= step
    print(
        f"limits {sorted(limits)}: median {middle:g}, spread {spread}; one step is {step:.1f} people: "
        f"{'they agree' if agree else 'they do not agree'} within one step"
    )
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
