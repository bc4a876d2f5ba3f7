"""``truthd``, a server on an exact schedule, and what it wrote down."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
Nanoseconds = npt.NDArray[np.int64]


class Tools(NamedTuple):
    """The C programs, built."""

    truthd: Path
    floorc: Path


def build(folder: Path) -> Tools:
    """Compile them into ``folder``; ends the program where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("no C compiler here: the server that knows the truth cannot be built, nothing is measured")
    for name in Tools._fields:
        flags = ["-O2", "-w", "-o", str(folder / name), str(HERE / f"{name}.c"), "-lm"]
        subprocess.run([compiler, *flags], check=True)
    return Tools(*(folder / name for name in Tools._fields))


class Record(NamedTuple):
    """Whole answers of the load, the probe left out; instants in nanoseconds of the monotonic clock."""

    received_ns: Nanoseconds
    first_ns: Nanoseconds
    last_ns: Nanoseconds
    done_ns: Nanoseconds
    event_ns: Nanoseconds
    """Every content event, unordered; empty when not recorded."""
    gaps_ns: Nanoseconds
    asked_ns: Nanoseconds
    """When each request of the load came, the cut ones included."""
    until_ns: Nanoseconds
    """When each of them was over; far in the future for the cut ones."""
    first_asked_ns: int
    """When the first request of all came, the probe's."""

    @property
    def ttft_s(self) -> npt.NDArray[np.float64]:
        """What a faultless client would measure."""
        return (self.first_ns - self.received_ns) / 1e9

    def in_flight(self, began_ns: int, ended_ns: int) -> float:
        """Mean number of answers under way."""
        overlap = np.minimum(self.until_ns, ended_ns) - np.maximum(self.asked_ns, began_ns)
        return float(np.maximum(overlap, 0).sum() / max(1, ended_ns - began_ns))


class Truthd:
    """The server, on a free port and on core 0 when pinned."""

    def __init__(self, tool: Path, folder: Path, *options: str, pinned: bool, events: bool, tokens: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._rows, self._events = folder / "truth.csv", folder / "truth.bin" if events else None
        self._tokens = tokens
        command = [str(tool), "--port", str(self.port), "--quiet", "--out", str(self._rows), *options]
        if self._events:
            command += ["--events", str(self._events)]
        self._command = ["taskset", "-c", "0", *command] if pinned else command

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self._command)
        for _ in range(500):
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.01)
        raise SystemExit("truthd does not listen")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def record(self) -> Record:
        """End it and read what it wrote."""
        self.__exit__(None, None, None)
        rows: Any = np.genfromtxt(self._rows, delimiter=",", names=True, dtype=None, encoding="ascii")
        rows = np.atleast_1d(rows)
        load = rows["n_tokens"] == self._tokens
        whole = rows[load & (rows["status"] == 200) & (rows["t_done"] > 0)]
        events, gaps = self._read_events(rows, whole)
        done = rows["t_done"][load].astype(np.int64)
        received, first, last, ended = (
            whole[name].astype(np.int64) for name in ("t_recv", "t_first", "t_last", "t_done")
        )
        return Record(
            received_ns=received,
            first_ns=first,
            last_ns=last,
            done_ns=ended,
            event_ns=events,
            gaps_ns=gaps,
            asked_ns=rows["t_recv"][load].astype(np.int64),
            until_ns=np.where(done > 0, done, np.iinfo(np.int64).max),
            first_asked_ns=int(rows["t_recv"].min()),
        )

    def _read_events(self, rows: Any, whole: Any) -> tuple[Nanoseconds, Nanoseconds]:
        """Times of all content events, and the gaps within whole answers."""
        nothing = np.empty(0, np.int64)
        if self._events is None:
            return nothing, nothing
        words = np.frombuffer(self._events.read_bytes()[8:], np.uint32)
        received = dict(zip(rows["seq"].tolist(), rows["t_recv"].tolist(), strict=True))
        counted = set(whole["seq"].tolist())
        times, gaps, place = [nothing], [nothing], 0
        while place < len(words):
            seq, n = int(words[place]), int(words[place + 1])
            offsets = words[place + 2 : place + 2 + n].astype(np.int64) * 100
            place += 2 + n
            times.append(offsets + int(received[seq]))
            if seq in counted:
                gaps.append(np.diff(offsets))
        return np.concatenate(times), np.concatenate(gaps)
