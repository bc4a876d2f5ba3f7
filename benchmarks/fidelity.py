"""How faithful and how cheap headcount's load is, against a server that knows the truth.

``truthd`` answers on an exact schedule and records what it really did. headcount, the whole command with facts,
telemetry and progress, runs against it by turns with the least that Python and C can do, and with rivals where they
are installed; medians are judged. The server has one core and the client another, and both run where they like where
a line says "unpinned".

    python benchmarks/fidelity.py --quick           a minute and a half: what ``make bench`` runs
    python benchmarks/fidelity.py                   a quarter of an hour: the table of docs/explanation/fidelity.md
    python benchmarks/fidelity.py --rivals FOLDER   as long again: beside others, each in an environment of its own

FOLDER holds one virtual environment for each rival, by its name; those that are not there are told and left out.
``tokenizer`` in it is a link to the folder of any Hugging Face tokenizer, from which vllm, sglang, aiperf and guidellm
make their prompts.

    for name in aiohttp locust aiperf guidellm vllm; do python -m venv $name && $name/bin/pip install $name; done
    python -m venv sglang && sglang/bin/pip install --no-deps sglang          its client in Rust needs nothing else

Exits 1 when a bar is missed on a machine that was quiet enough to judge.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from yardsticks.case import Case, closed, opened, peak
from yardsticks.clients import CLIENTS, Outcome, run_client
from yardsticks.rivals import RIVALS
from yardsticks.truth import build

BUSY_FRACTION = 0.02
"""Whoever had to wait for its core for a larger share of the time cannot be judged."""
BUSY_AT_FULL_SPEED_FRACTION = 0.15
"""The same where the core is full in any case, and a command's own processes stand in each other's way."""
BUSY_AT_START_FRACTION = 0.1
STREAM_S = 0.1 + 127 * 0.02
"""One answer: 100 ms to the first of 128 tokens, 20 ms between them."""
OURS = ("headcount", "floor")
WORKERS_TWICE = "two processes against one, by the processor time of an answer"


class Line(NamedTuple):
    """One row of the table."""

    what: str
    found: str
    bar: str = ""
    passed: bool | None = None
    """None: there is no bar, or nothing could be judged."""
    quiet: bool = True
    """Whether the runs behind it could be judged."""


class Found(dict[str, Outcome]):
    """Of each client on one case, the medians."""

    quiet = True
    """Whether most of its runs found the machine free."""


class Bench:
    """Interleaved runs of several clients on one case, and their medians."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.runs: int = options.runs
        self.seconds: float = options.seconds
        self._rivals: Path | None = options.rivals
        self._folder = folder
        self._tools = build(folder)
        self.rivals = [name for name in RIVALS if self._python(name)]

    def _python(self, name: str) -> str | None:
        """The interpreter of a rival's environment; None where it is not installed."""
        if name not in RIVALS or self._rivals is None:
            return None
        python = self._rivals.expanduser().absolute() / name / "bin" / "python"
        return str(python) if python.exists() else None

    def medians(self, case: Case, clients: Sequence[str] = OURS, runs: int | None = None) -> Found:
        """Of every client that can do the case; quiet runs only, where there are any."""
        busy_fraction = BUSY_AT_FULL_SPEED_FRACTION if case.full_speed else BUSY_FRACTION
        runs_of: dict[str, list[tuple[bool, Outcome]]] = {}
        for _ in range(runs or self.runs):
            for name in clients:
                if not CLIENTS[name].can(case):
                    continue
                try:
                    outcome = run_client(name, case, self._tools, self._folder, self._python(name), pinned=True)
                except SystemExit as failed:
                    if name not in RIVALS:
                        raise
                    print(f"  {case.name:<24} {name:<10} {failed}", file=sys.stderr, flush=True)
                    continue
                runs_of.setdefault(name, []).append((outcome.waited_fraction <= busy_fraction, outcome))
                print(f"  {case.name:<24} {name:<10} {outcome.told()}", file=sys.stderr, flush=True)
        found = Found({name: _median(outcomes) for name, outcomes in runs_of.items()})
        quiet = [quiet for outcomes in runs_of.values() for quiet, _ in outcomes]
        found.quiet = 2 * sum(quiet) > len(quiet)
        return found


def _median(outcomes: list[tuple[bool, Outcome]]) -> Outcome:
    """Of the quiet ones, where there are any."""
    chosen = [outcome for quiet, outcome in outcomes if quiet] or [outcome for _, outcome in outcomes]
    columns = ([value for value in column if value is not None] for column in zip(*chosen, strict=True))
    return Outcome._make(median(known) if known else None for known in columns)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _within(
    what: str, value: float | None, bar: float, shown: Callable[[float], str], found: Found, most: bool = True
) -> Line:
    """A row with a bar that must not be exceeded, or must be reached."""
    told = f"{'≤' if most else '≥'} {shown(bar)}"
    if value is None:
        return Line(what, "not measured", told)
    return Line(what, shown(value), told, value <= bar if most else value >= bar, found.quiet)


def percent(value: float) -> str:
    """Of errors and shares."""
    return f"{value * 100:+.1f} %" if abs(value) < 0.9 else f"{value * 100:.1f} %"


def times(value: float) -> str:
    """Of ratios."""
    return f"{value:.2f} x"


def microseconds(value: float) -> str:
    """Of processor time."""
    return f"{value:.1f} µs"


def megabytes(value: float) -> str:
    """Of memory."""
    return f"{value:.0f} MB"


def _beside(what: str, found: Found, field: str, shown: Callable[[float], str]) -> Line:
    """The same figure of everybody, for comparison."""
    values = {name: getattr(outcome, field) for name, outcome in found.items()}
    told = ", ".join(f"{name} {shown(value)}" for name, value in values.items() if value is not None)
    return Line(f"  {what}", told)


# --- the rows --------------------------------------------------------------------------------


def open_lines(bench: Bench, streams: int, bar: float, pinned: bool = True, in_step: bool = False) -> list[Line]:
    """Open loop: so many streams in the mean."""
    what = f"open loop, {streams} streams" + ("" if pinned else ", unpinned") + (", in step" if in_step else "")
    case = opened(streams, streams / STREAM_S, bench.seconds)._replace(name=what, pinned=pinned, in_step=in_step)
    found = bench.medians(case)
    ours = found["headcount"]
    lines = [
        _within(f"{what}: p95 TTFT against the truth", ours.ttft_error, bar, percent, found),
        _within(f"{what}: share of the offered rate", ours.achieved, 0.999, percent, found, most=False),
        _beside(what, found, "ttft_error", percent),
    ]
    ratio = _ratio(ours.cpu_us_per_event, found["floor"].cpu_us_per_event)
    if streams == 500 and pinned:
        lines.append(_within("CPU per paced event, 500 streams, against the floor", ratio, 1.5, times, found))
    return [*lines, _beside(f"CPU per event, {what}", found, "cpu_us_per_event", microseconds)]


def closed_lines(bench: Bench, pinned: bool = True) -> list[Line]:
    """Closed loop of 500 people without think time."""
    what = "closed loop, 500 people" + ("" if pinned else ", unpinned")
    case = closed(500, bench.seconds)._replace(name=what, pinned=pinned)
    found = bench.medians(case, (*OURS, "floorc") if pinned else OURS)
    ours = found["headcount"]
    return [
        _within(f"{what}: p95 TTFT against the truth", ours.ttft_error, 0.05, percent, found),
        _within(f"{what}: in flight", _ratio(ours.in_flight, 500.0), 0.98, percent, found, most=False),
        _within(f"{what}: mean ITL against the truth", ours.itl_mean_error, 0.01, percent, found),
        _within(f"{what}: p95 ITL against the truth", ours.itl_p95_error, 0.10, percent, found),
        _beside(what, found, "ttft_error", percent),
    ]


def peak_lines(bench: Bench) -> list[Line]:
    """As fast as it goes, 128 tokens an answer."""
    found = bench.medians(peak(64, bench.seconds / 2))
    ratio = _ratio(found["headcount"].answers_per_s, found["floor"].answers_per_s)
    return [
        _within("peak answers/s against the floor, one core", ratio, 0.85, times, found, most=False),
        _beside("peak answers/s", found, "answers_per_s", lambda value: f"{value:.0f}"),
    ]


def two_process_lines(bench: Bench) -> list[Line]:
    """What a second load process adds: judged by answers/s where there are cores for both, the server and the command,
    else by what an answer costs, which would double the answers on twice the cores."""
    case = peak(128, bench.seconds)._replace(name="peak, unpinned", coalesce=128, pinned=False)
    one = bench.medians(case, ["headcount"])
    two = bench.medians(case._replace(name="peak, 2 processes", processes=2), ["headcount"])
    speeds = [found["headcount"].answers_per_s for found in (two, one)]
    costs = [found["headcount"].cpu_us_per_answer for found in (one, two)]
    told, cheaper = _ratio(*speeds), _ratio(*costs)
    if (os.cpu_count() or 1) >= 4:
        return [_within("two processes against one, answers/s", told, 1.7, times, two, most=False)]
    cheaper = _ratio(*costs)
    return [
        _within(WORKERS_TWICE, None if cheaper is None else 2.0 * cheaper, 1.7, times, two, most=False),
        Line(
            "  two processes against one, answers/s on too few cores", "not measured" if told is None else times(told)
        ),
    ]


def start_and_memory_lines(bench: Bench, few: int, many: int) -> list[Line]:
    """Start to the first request, and memory after few and many answers."""
    start = bench.medians(closed(1, 4.0)._replace(name="start"), ["headcount"])
    start.quiet = (start["headcount"].start_waited_fraction or 0.0) <= BUSY_AT_START_FRACTION
    lines = [_within("command to first request", start["headcount"].start_s, 1.0, lambda s: f"{s:.2f} s", start)]
    if not many:
        return lines
    rate_per_s = bench.medians(peak(64, 4.0), ["headcount"], 1)["headcount"].answers_per_s or 1000.0
    rate_per_s *= 2  # at full speed no level is trusted, and each is held a second time
    small, large = (
        bench.medians(peak(64, answers / rate_per_s)._replace(name=f"memory, {answers:,}"), ["headcount"], 1)
        for answers in (few, many)
    )
    for part, what in (("parent_rss_mb", "the command"), ("worker_rss_mb", "the load process")):
        before, after = getattr(small["headcount"], part), getattr(large["headcount"], part)
        told = f"memory of {what}, {few:,} to {many:,} answers: growth"
        lines.append(_within(told, after - before, 10.0, megabytes, Found()))  # a busy machine needs no more of it
        lines.append(_within(f"memory of {what} after {many:,} answers", after, 120.0, megabytes, Found()))
    return lines


def rival_lines(bench: Bench) -> list[Line]:
    """One run each beside everybody else who is there."""
    lines = [Line(f"  {name}", "not installed") for name in RIVALS if name not in bench.rivals]
    if not bench.rivals:
        return lines
    everybody = ("headcount", *bench.rivals, "floor")
    paced = bench.medians(opened(500, 500 / STREAM_S, bench.seconds), everybody, 1)
    people = bench.medians(closed(500, bench.seconds), everybody, 1)
    fast = bench.medians(peak(64, bench.seconds / 2), everybody, 1)
    if "sglang" in paced:
        ratio = _ratio(paced["headcount"].cpu_us_per_event, paced["sglang"].cpu_us_per_event)
        lines.append(_within("CPU per paced event, 500 streams, against sglang's in Rust", ratio, 1.0, times, paced))
    for rival, bar in (("vllm", 2.0), ("aiperf", 20.0)):
        if rival in fast:
            against = _ratio(fast["headcount"].answers_per_s, fast[rival].answers_per_s)
            lines.append(_within(f"peak answers/s against {rival}", against, bar, times, fast, most=False))
    return [
        *lines,
        _beside("open loop, 500 streams: p95 TTFT", paced, "ttft_error", percent),
        _beside("open loop, 500 streams: CPU per event", paced, "cpu_us_per_event", microseconds),
        _beside("closed loop, 500 people: p95 TTFT", people, "ttft_error", percent),
        _beside("closed loop, 500 people: in flight", people, "in_flight", lambda value: f"{value:.0f}"),
        _beside("peak answers/s", fast, "answers_per_s", lambda value: f"{value:.0f}"),
        _beside("start of the command to its first request", fast, "start_s", lambda s: f"{s:.1f} s"),
    ]


def whole_table(bench: Bench) -> list[Line]:
    """Everything but the rivals."""
    lines = open_lines(bench, 200, 0.02) + open_lines(bench, 500, 0.02) + open_lines(bench, 1000, 0.10)
    lines += open_lines(bench, 1000, 0.10, in_step=True)
    lines += closed_lines(bench) + peak_lines(bench) + two_process_lines(bench)
    lines += open_lines(bench, 500, 0.02, pinned=False) + closed_lines(bench, pinned=False)
    return lines + start_and_memory_lines(bench, 20_000, 200_000)


def quick_table(bench: Bench) -> list[Line]:
    """The main cases, one short run each."""
    lines = open_lines(bench, 200, 0.02) + closed_lines(bench) + peak_lines(bench)
    return lines + start_and_memory_lines(bench, 0, 0)


# --- the program -----------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of the main cases")
    parser.add_argument("--runs", type=int, default=3, help="of each client on each case (default 3)")
    parser.add_argument("--seconds", type=float, default=7.0, help="that each holds its load (default 7)")
    parser.add_argument("--rivals", type=Path, metavar="FOLDER", help="their environments; leaves the other rows out")
    return parser.parse_args()


def main() -> int:
    """The table."""
    options = _options()
    if options.quick:
        options.runs = 1
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        if options.rivals is not None:
            return _print(rival_lines(bench))
        return _print(quick_table(bench) if options.quick else whole_table(bench))


def _print(lines: list[Line]) -> int:
    for line in lines:
        mark = "" if line.passed is None else "busy" if not line.quiet else "pass" if line.passed else "FAIL"
        print(f"{mark:<5}{line.what:<68} {line.found:<12} {line.bar}".rstrip())
    busy = sum(not line.quiet for line in lines)
    if busy:
        why = "others held a core in most of their runs"
        print(f"too busy to judge {busy} of {sum(line.passed is not None for line in lines)} lines: {why};")
        print("run it again when nothing else runs, or with a core to spare")
    return int(any(line.passed is False and line.quiet for line in lines))


if __name__ == "__main__":
    sys.exit(main())
