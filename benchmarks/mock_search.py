"""The same search twice: against the mock server over HTTP in real time, and under the virtual clock.

    python benchmarks/mock_search.py [--quick]

Both ask the same simulated server with the same people; only the clock and the way differ. Prints both limits and what
their levels felt. Exit 1 when the limits differ by more than one person; 2 when the run over HTTP says of a level that
this machine was too busy to measure it. ``--quick`` takes half a minute instead of half an hour.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headcount.analysis.conclusions import LevelSummary, Plan, Verdict
from headcount.measure import measure
from headcount.records import Level
from headcount.scenario import make_scenario

Table = Mapping[str, object]


class Quiet:
    """Watches in silence."""

    def level_began(self, level: Level, plan: Plan) -> None:
        """Nothing to do."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """Nothing to do."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """Nothing to do."""


@contextmanager
def mock(options: Table) -> Iterator[str]:
    """A mock server in a process of its own; gives its address."""
    pairs = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "headcount", "mock", "--port", "0", "--for", "2h", *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def both(options: Table, table: Table, out: Path) -> tuple[Verdict, Verdict]:
    """Over HTTP, and under the virtual clock, in which the way takes as long as over loopback: next to nothing."""
    with mock(options) as url:
        real = search({**table, "name": "http", "engine": {"kind": "vllm", "url": url}}, out)
    engine = {"kind": "simulated", "options": {**options, "round_trip_s": 0.0005}}
    return real, search({**table, "name": "virtual", "engine": engine}, out)


def search(table: Table, out: Path) -> Verdict:
    """One search."""
    outcome = measure(
        make_scenario(table), verb="find", out=out, api_key=None, watcher=Quiet(), agree=lambda intent: True
    )
    assert outcome is not None
    return outcome.verdict


FULL: tuple[Table, Table] = (
    {"slots": 6},
    {
        "slo": ["ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s"],
        "workload": {"kind": "chat", "output_tokens": [60, 140]},
        "search": {"max_users": 64, "max_time_s": 2400},
    },
)
QUICK: tuple[Table, Table] = (
    {"slots": 2, "overhead_s": 0.01, "jitter": 0, "weights_s": 0, "token_s": 0, "sequence_s": 0, "pair_s": 0},
    {
        "slo": ["ttft_p95 <= 0.25 s", "tpot_p95 <= 0.05 s"],
        "workload": {
            "kind": "chat",
            "turns": 1,
            "prompt_tokens": [10, 20],
            "output_tokens": [8, 16],
            "think_s": [0.1, 0.3],
        },
        "search": {"max_users": 32, "max_time_s": 30, "confirmations": 1},
    },
)
"""Nothing but steps of 10 ms, and quick people: a level is seen within seconds, seven hold and nine fail clearly."""


def main() -> int:
    """Print both; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options, table = QUICK if parser.parse_args().quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        real, virtual = both(options, table, Path(folder))
    for name, verdict in (("over HTTP", real), ("virtual clock", virtual)):
        low, high = verdict.limit_interval_users or (float("nan"), float("nan"))
        print(f"{name:14s} limit {verdict.limit_users} people (95 % {low:.1f} to {high:.1f})")
        for level in verdict.levels:
            felt = f"TTFT p95 {level.ttft_s.p95 or 0.0:6.3f} s, {level.output_tokens_per_s or 0.0:7.1f} tokens/s"
            print(f"    {level.users:4d} people  {level.decision:10s} {felt}, {level.n_requests} answers")
    apart = abs((real.limit_users or 0) - (virtual.limit_users or 0))
    if apart > 1 and any(level.decision == "void" for level in real.levels):
        print("no comparison: this machine was too busy while it was measured over HTTP")
        return 2
    print(f"{'pass' if apart <= 1 else 'FAIL'}: {apart} apart, 1 allowed")
    return 0 if apart <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
