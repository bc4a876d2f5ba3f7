"""headcount, the floors and the rivals on one case: each runs as its own command, its report is held to the truth."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np

from yardsticks.case import TOKENS, Case, Client, Report, script, script_report
from yardsticks.rivals import RIVALS
from yardsticks.truth import Nanoseconds, Record, Tools, Truthd

UNLIKE = ["--jitter", "lognormal", "--sigma", "0.02"]
"""Every wait of the server differs by 2 % or so. In step to the millisecond, as clients start them, streams would come
in batches, and the client that starts them most coarsely would look cheapest."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PATIENCE_S = 600.0
"""Whoever has not ended by then never will."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Outcome(NamedTuple):
    """What one run showed. None where a client does not tell."""

    waited_fraction: float
    """The share of the time in which the server, or a client process, was ready to run but another ran instead."""
    ttft_p95_s: float | None
    ttft_error: float | None
    """Reported p95 TTFT over the true one, less one."""
    itl_mean_error: float | None
    itl_p95_error: float | None
    achieved: float | None
    """Requests sent over requests planned."""
    in_flight: float | None
    """Mean, as the server saw it."""
    cpu_us_per_event: float | None
    """Of the client's processes together, while the load was steady."""
    answers_per_s: float | None
    cpu_us_per_answer: float | None
    """Of its load processes alone, at full speed."""
    start_s: float | None
    """From the command to the first request."""
    start_waited_fraction: float | None
    """The share of that time in which the command was ready to run but another ran instead."""
    parent_rss_mb: float | None
    worker_rss_mb: float | None

    def told(self) -> str:
        """In one line."""
        named = zip(self._fields, self, strict=True)
        return "  ".join(f"{name}={value:.4g}" for name, value in named if value is not None)


# --- headcount -------------------------------------------------------------------------------


def _headcount_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    arrivals = "" if case.rate_per_s is None else f'[arrivals]\nkind = "open"\nrates_per_s = [{case.rate_per_s}]\n'
    (folder / "scenario.toml").write_text(f"""
processes = {case.processes}
slo = ["ttft_p95 <= 2 s"]
[engine]
kind = "openai"
url = "http://127.0.0.1:{port}"
[workload]
turns = 1
think_s = 0
prompt_tokens = 20
output_tokens = {TOKENS}
{arrivals}
[search]
levels = [{case.people}]
level_time_s = {case.seconds}
""")
    tool = Path(sys.executable).with_name("headcount")
    return [str(tool), "run", str(folder / "scenario.toml"), "--yes", "--out", str(folder / "runs")]


def _headcount_report(case: Case, folder: Path) -> Report:
    from headcount.store import open_run
    from headcount.workload.arrivals import Open, arrival_instants

    run = open_run(max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime))
    level = run.levels()[0]
    waits_s, gaps_s, n = array("d"), [np.empty(0)], 0
    for request in run.requests():
        n += 1
        if request.error is None and request.chunk_at_s:
            waits_s.append(request.chunk_at_s[0] - request.scheduled_at_s)
            if not case.full_speed:
                gaps_s.append(np.diff(request.chunk_at_s))
    achieved = None
    if case.rate_per_s is not None:
        held_s = (level.stopped_at_s or 0.0) - level.began_at_s
        instants = arrival_instants(Open(), case.rate_per_s, 1, f"level {level.index}")
        achieved = n / sum(1 for _ in itertools.takewhile(lambda instant_s: instant_s <= held_s, instants))
    return Report(np.array(waits_s), np.concatenate(gaps_s), achieved)


# --- floors ------------------------------------------------------------------------


def _floorc_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    counts = [str(port), str(case.people), str(case.answers), str(TOKENS), str(folder / "report.txt")]
    return [str(tools.floorc), *counts]


def _floorc_report(case: Case, folder: Path) -> Report:
    said = json.loads((folder / "report.txt").read_text())
    return Report(None, None, None, said["ttft_p95"] / 1000)


CLIENTS: dict[str, Client] = {
    "headcount": Client(_headcount_command, _headcount_report, lambda case: True),
    "floor": Client(script("floor"), script_report, lambda case: case.processes == 1),
    "floorc": Client(_floorc_command, _floorc_report, lambda case: case.rate_per_s is None and not case.full_speed),
    **RIVALS,
}


# --- one run ---------------------------------------------------------------------------------


class Spent(NamedTuple):
    """Processor time between two instants."""

    began_ns: int
    ended_ns: int
    cpu_s: float
    children_cpu_s: float

    def holds(self, at_ns: Nanoseconds) -> int:
        """How many of these lie between them."""
        return int(((at_ns >= self.began_ns) & (at_ns < self.ended_ns)).sum())


class Meter(threading.Thread):
    """Processor time and memory of a command and its children, ten times a second, and how long they waited for a core.

    The server's waits are looked at too: a late server makes a good client look bad.
    """

    def __init__(self, pid: int, server_pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._server_pid = server_pid
        self._waits: list[tuple[int, dict[int, int]]] = []
        """Instants, and how long each process had waited until then, in nanoseconds."""
        self._own_waits: list[tuple[int, int]] = []
        """The same of the command itself."""
        self._cpu_s: dict[int, float] = {}
        """Of each process."""
        self._over = threading.Event()
        self.seen: list[tuple[int, float, float]] = []
        """Instants in nanoseconds, and processor time until then: of all processes, and of the children alone."""
        self.rss_bytes: dict[int, int] = {}
        """The most of each process."""

    def run(self) -> None:
        while not self._over.wait(0.1):
            for pid in (self._pid, *self._children()):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                self._cpu_s[pid] = (int(fields[11]) + int(fields[12])) * TICK_S
                self.rss_bytes[pid] = max(self.rss_bytes.get(pid, 0), int(fields[21]) * PAGE_BYTES)
            cpu_s = sum(self._cpu_s.values())
            self.seen.append((time.monotonic_ns(), cpu_s, cpu_s - self._cpu_s.get(self._pid, 0.0)))
            self._waits.append((time.monotonic_ns(), self._waited_ns()))
            self._own_waits.append((time.monotonic_ns(), waited_ns(self._pid)))

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join()

    def between(self, began_ns: int, ended_ns: int) -> Spent | None:
        """Processor time within; None when it was looked at too seldom."""
        inside = [reading for reading in self.seen if began_ns <= reading[0] <= ended_ns]
        if len(inside) < 3:
            return None
        first, last = inside[0], inside[-1]
        return Spent(first[0], last[0], last[1] - first[1], last[2] - first[2])

    def waited_fraction(self, began_ns: int, ended_ns: int) -> float:
        """Of the process that waited most; 0 where the system does not tell."""
        inside = [reading for reading in self._waits if began_ns <= reading[0] <= ended_ns]
        if len(inside) < 2:
            return 0.0
        (from_ns, before), (until_ns, after) = inside[0], inside[-1]
        longest_ns = max((waited - before.get(pid, waited) for pid, waited in after.items()), default=0)
        return longest_ns / max(1, until_ns - from_ns)

    def own_waited_fraction(self, began_ns: int, ended_ns: int) -> float:
        """Of the command itself."""
        waits_ns = [wait_ns for at_ns, wait_ns in self._own_waits if at_ns <= ended_ns]
        return waits_ns[-1] / max(1, ended_ns - began_ns) if waits_ns else 0.0

    def _waited_ns(self) -> dict[int, int]:
        return {pid: waited_ns(pid) for pid in (self._server_pid, *(self._children() or [self._pid]))}

    def _children(self) -> list[int]:
        """Those of its children too."""
        found: list[int] = []
        parents = [self._pid]
        while parents:
            tasks = Path(f"/proc/{parents.pop()}/task")
            with contextlib.suppress(OSError):
                for said in tasks.glob("*/children"):
                    parents += (children := [int(pid) for pid in said.read_text().split()])
                    found += children
        return found


def waited_ns(pid: int) -> int:
    """How long a process has been ready to run without running; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def run_client(name: str, case: Case, tools: Tools, folder: Path, python: str | None, pinned: bool) -> Outcome:
    """One run against a fresh server, in a folder of its own within ``folder``."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return _run(name, case, tools, Path(own), python, pinned)


def _run(name: str, case: Case, tools: Tools, folder: Path, python: str | None, pinned: bool) -> Outcome:
    client = CLIENTS[name]
    pinned = pinned and case.pinned and (os.cpu_count() or 1) > 1 and case.processes == 1
    options = ["--max-rate", "--coalesce", str(case.coalesce)] if case.full_speed else [] if case.in_step else UNLIKE
    server = Truthd(tools.truthd, folder, *options, pinned=pinned, events=not case.full_speed, tokens=TOKENS)
    with server, (folder / "said.txt").open("w") as said:
        command = client.command(case, server.port, tools, folder, python)
        asked_ns = time.monotonic_ns()
        process = subprocess.Popen(["taskset", "-c", "1", *command] if pinned else command, stdout=said, stderr=said)
        meter = Meter(process.pid, server.process.pid)
        meter.start()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        meter.stop()
        if process.returncode not in (0, 5):
            raise SystemExit(f"{name} failed: {(folder / 'said.txt').read_text()[-2000:]}")
        record = server.record()
    if not len(record.received_ns):
        raise SystemExit(f"{name} got no whole answer: {(folder / 'said.txt').read_text()[-2000:]}")
    return _outcome(case, client.report(case, folder), record, meter, process.pid, asked_ns)


def _outcome(case: Case, report: Report, record: Record, meter: Meter, pid: int, asked_ns: int) -> Outcome:
    began_ns, ended_ns = int(record.asked_ns.min()), int(record.asked_ns.max())
    warm_ns = min(began_ns + int(3e9), (began_ns + ended_ns) // 2)
    p95 = report.ttft_p95_s if report.ttft_s is None else float(np.quantile(report.ttft_s, 0.95))
    gaps = report.gaps_s if report.gaps_s is not None and len(record.gaps_ns) else None
    spent = meter.between(warm_ns, ended_ns)
    events, answers = (spent.holds(record.event_ns), spent.holds(record.done_ns)) if spent else (0, 0)
    done_inside = (record.done_ns > warm_ns) & (record.done_ns <= ended_ns)
    workers = [rss for process, rss in meter.rss_bytes.items() if process != pid]
    return Outcome(
        waited_fraction=meter.waited_fraction(warm_ns, ended_ns),
        ttft_p95_s=p95,
        ttft_error=None if p95 is None or case.full_speed else p95 / float(np.quantile(record.ttft_s, 0.95)) - 1.0,
        itl_mean_error=None if gaps is None else abs(float(gaps.mean() / (record.gaps_ns.mean() / 1e9)) - 1.0),
        itl_p95_error=None
        if gaps is None
        else abs(float(np.quantile(gaps, 0.95) / (np.quantile(record.gaps_ns, 0.95) / 1e9)) - 1.0),
        achieved=report.achieved,
        in_flight=None if case.full_speed else record.in_flight(warm_ns, ended_ns),
        cpu_us_per_event=spent.cpu_s / events * 1e6 if spent and events else None,
        answers_per_s=int(done_inside.sum()) / max(1e-9, (ended_ns - warm_ns) / 1e9),
        cpu_us_per_answer=spent.children_cpu_s / answers * 1e6 if spent and answers and case.full_speed else None,
        start_s=(record.first_asked_ns - asked_ns) / 1e9,
        start_waited_fraction=meter.own_waited_fraction(asked_ns, record.first_asked_ns),
        parent_rss_mb=meter.rss_bytes.get(pid, 0) / 1e6,
        worker_rss_mb=max(workers, default=0) / 1e6,
    )
