"""How faithful and how cheap headcount's load is, against a server that knows the truth.

``truthd`` answers on an exact schedule and records what it really did. headcount, the whole command with facts,
telemetry and progress, runs against it side by side with the least that Python and C can do, and with other load
generators where their Pythons are given. Runs are interleaved and medians are judged. The server has one core and the
client another; ``--unpinned`` leaves both where they like.

    python benchmarks/fidelity.py --quick                 under a minute: what ``make bench`` runs
    python benchmarks/fidelity.py                         the table of docs/explanation/fidelity.md, about half an hour
    python benchmarks/fidelity.py --aiohttp PYTHON --vllm PYTHON     peers, each in an environment of its own

Exits 1 when a bar is missed on a machine that was quiet enough to judge.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from yardsticks.clients import CLIENTS, Case, Outcome, closed, opened, peak, run_client
from yardsticks.truth import build

BUSY_FRACTION = 0.02
"""Whoever had to wait for its core for a larger share of the time cannot be judged."""
BUSY_AT_FULL_SPEED_FRACTION = 0.15
"""The same where the core is full in any case, and a command's own processes stand in each other's way."""
STREAM_S = 0.1 + 127 * 0.02
"""One answer: 100 ms to the first of 128 tokens, 20 ms between them."""


class Line(NamedTuple):
    """One row of the table."""

    what: str
    found: str
    bar: str
    passed: bool | None
    """None: there is no bar, or nothing could be judged."""


class Bench:
    """Interleaved runs of several clients on one case, and their medians."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.busy = 0
        self.runs = 0
        self.tools = build(folder)
        self.clients = [name for name in CLIENTS if name in ("headcount", "floor", "floorc") or self.python(name)]

    def python(self, peer: str) -> str | None:
        """The interpreter of a peer's environment."""
        given: str | None = getattr(self.options, peer, None)
        return given

    def medians(self, case: Case, clients: list[str] | None = None, runs: int | None = None) -> dict[str, Outcome]:
        """Of every client that can do the case; quiet runs only, where there are any."""
        busy_fraction = BUSY_AT_FULL_SPEED_FRACTION if case.full_speed else BUSY_FRACTION
        found: dict[str, list[tuple[bool, Outcome]]] = {}
        for _ in range(runs or self.options.runs):
            for name in clients or self.clients:
                if not CLIENTS[name].can(case):
                    continue
                outcome = run_client(name, case, self.tools, self.folder, self.python(name), not self.options.unpinned)
                self.runs += 1
                quiet = outcome.waited_fraction <= busy_fraction
                self.busy += not quiet
                found.setdefault(name, []).append((quiet, outcome))
                print(f"  {case.name:<24} {name:<10} {outcome.told()}", file=sys.stderr, flush=True)
        return {name: _median(outcomes) for name, outcomes in found.items()}


def _median(outcomes: list[tuple[bool, Outcome]]) -> Outcome:
    """Of the quiet ones, where there are any."""
    chosen = [outcome for quiet, outcome in outcomes if quiet] or [outcome for _, outcome in outcomes]
    columns = ([value for value in column if value is not None] for column in zip(*chosen, strict=True))
    return Outcome._make(median(known) if known else None for known in columns)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _within(what: str, value: float | None, bar: float, shown: Callable[[float], str], most: bool = True) -> Line:
    """A row with a bar that must not be exceeded, or must be reached."""
    if value is None:
        return Line(what, "not measured", f"{'≤' if most else '≥'} {shown(bar)}", None)
    return Line(what, shown(value), f"{'≤' if most else '≥'} {shown(bar)}", value <= bar if most else value >= bar)


def percent(value: float) -> str:
    """Of errors and shares."""
    return f"{value * 100:+.1f} %" if abs(value) < 0.9 else f"{value * 100:.1f} %"


def times(value: float) -> str:
    """Of ratios."""
    return f"{value:.2f} x"


def open_lines(bench: Bench, streams: int, bar: float, seconds: float) -> list[Line]:
    """Open loop: so many streams in the mean."""
    found = bench.medians(opened(streams, streams / STREAM_S, seconds))
    ours = found["headcount"]
    lines = [
        _within(f"open loop, {streams} streams: p95 TTFT against the truth", ours.ttft_error, bar, percent),
        _within(f"open loop, {streams} streams: share of the offered rate", ours.achieved, 0.999, percent, most=False),
    ]
    return lines + _beside(f"open loop, {streams} streams", found, "ttft_error", percent) + _cpu(found, streams)


def _cpu(found: dict[str, Outcome], streams: int) -> list[Line]:
    ratio = _ratio(found["headcount"].cpu_us_per_event, found["floor"].cpu_us_per_event)
    bar = 1.5 if streams == 500 else float("inf")
    line = _within(f"CPU per paced event, {streams} streams, against the floor", ratio, bar, times)
    if bar == float("inf"):
        line = line._replace(bar="", passed=None)
    return [line, *_beside(f"CPU per event, {streams} streams", found, "cpu_us_per_event", lambda us: f"{us:.1f} µs")]


def _beside(what: str, found: dict[str, Outcome], field: str, shown: Callable[[float], str]) -> list[Line]:
    """The same figure of everybody, for comparison."""
    values = {name: getattr(outcome, field) for name, outcome in found.items()}
    told = ", ".join(f"{name} {shown(value)}" for name, value in values.items() if value is not None)
    return [Line(f"  {what}", told, "", None)]


def closed_lines(bench: Bench, seconds: float) -> list[Line]:
    """Closed loop of 500 people without think time."""
    found = bench.medians(closed(500, seconds))
    ours = found["headcount"]
    return [
        _within("closed loop, 500 people: p95 TTFT against the truth", ours.ttft_error, 0.05, percent),
        _within("closed loop, 500 people: in flight", _ratio(ours.in_flight, 500.0), 0.98, percent, most=False),
        _within("closed loop, 500 people: mean ITL against the truth", ours.itl_mean_error, 0.01, percent),
        _within("closed loop, 500 people: p95 ITL against the truth", ours.itl_p95_error, 0.10, percent),
        *_beside("closed loop, 500 people", found, "ttft_error", percent),
    ]


def peak_lines(bench: Bench, seconds: float) -> list[Line]:
    """As fast as it goes, 128 tokens an answer."""
    found = bench.medians(peak(64, seconds))
    ratio = _ratio(found["headcount"].answers_per_s, found["floor"].answers_per_s)
    lines = [_within("peak answers/s against the floor, one core", ratio, 0.85, times, most=False)]
    for peer, bar in (("vllm", 2.0), ("aiperf", 20.0)):
        if peer in found:
            against = _ratio(found["headcount"].answers_per_s, found[peer].answers_per_s)
            lines.append(_within(f"peak answers/s against {peer}", against, bar, times, most=False))
    return lines + _beside("peak answers/s", found, "answers_per_s", lambda value: f"{value:.0f}")


def two_process_lines(bench: Bench, seconds: float) -> list[Line]:
    """What a second load process adds, where there are cores for it."""
    one = bench.medians(peak(64, seconds), ["headcount"])["headcount"]
    two = bench.medians(peak(64, seconds)._replace(name="peak, 2 processes", processes=2), ["headcount"])["headcount"]
    ratio = _ratio(two.answers_per_s, one.answers_per_s)
    return [_within("peak of two processes against one", ratio, 1.7, times, most=False)]


def start_and_memory_lines(bench: Bench, few: int, many: int) -> list[Line]:
    """Start to the first request, and memory after few and many answers."""
    start = bench.medians(closed(1, 4.0)._replace(name="start"), ["headcount"])["headcount"]
    lines = [_within("start of the command to the first request", start.start_s, 1.0, lambda s: f"{s:.2f} s")]
    if many:
        rate = bench.medians(peak(64, 4.0), ["headcount"], 1)["headcount"].answers_per_s or 1000.0
        rate *= 2  # at full speed no level is trusted, and each is held a second time
        small, large = (
            bench.medians(peak(64, answers / rate)._replace(name=f"memory, {answers:,}"), ["headcount"], 1)["headcount"]
            for answers in (few, many)
        )
        for part in ("parent", "worker"):
            before, after = getattr(small, f"{part}_rss_mb"), getattr(large, f"{part}_rss_mb")
            lines.append(
                _within(f"memory of the {part}, growth from {few:,} to {many:,} answers", after - before, 10.0, _mb)
            )
            lines.append(_within(f"memory of the {part} after {many:,} answers", after, 120.0, _mb))
    return lines


def _mb(value: float) -> str:
    return f"{value:.0f} MB"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of the main cases; without peers")
    parser.add_argument("--full", action="store_true", help="also 1,000 streams, two processes, memory")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--unpinned", action="store_true")
    for peer in ("aiohttp", "locust", "vllm"):
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"an interpreter that has {peer}")
    return parser.parse_args()


def main() -> int:
    """The table."""
    options = _options()
    if options.quick:
        options.runs, options.seconds = 1, 6.0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        lines = open_lines(bench, 200, 0.02, options.seconds)
        lines += closed_lines(bench, options.seconds) + peak_lines(bench, options.seconds / 2)
        if not options.quick:
            lines += open_lines(bench, 500, 0.02, options.seconds)
        lines += start_and_memory_lines(bench, 20_000, 200_000 if options.full else 0)
        if options.full:
            lines += open_lines(bench, 1000, 0.10, options.seconds) + two_process_lines(bench, options.seconds / 2)
    return _print(bench, lines)


def _print(bench: Bench, lines: list[Line]) -> int:
    quiet = bench.busy * 2 < bench.runs
    for line in lines:
        mark = "" if line.passed is None else "pass" if line.passed else "FAIL" if quiet else "busy"
        print(f"{mark:<5}{line.what:<66} {line.found:<12} {line.bar}".rstrip())
    if not quiet:
        busy = f"in {bench.busy} of {bench.runs} runs others held a core for more than {BUSY_FRACTION:.0%} of the time"
        print(f"too busy to judge: {busy}")
    failed = quiet and any(line.passed is False for line in lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
