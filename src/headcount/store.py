"""The run folder: append facts to it, open it, read it back. The whole interface between measuring and judging.

    2026-12-01T10-14-03-lunch-peak/
      scenario.toml   run.json
      levels.jsonl    requests.jsonl    requests-K.jsonl    samples.jsonl
      figures.jsonl   (imported runs alone: what another tool says of each level)

Only whole lines are appended, so that a killed run is just a shorter one. Nothing derived is stored. Knows nothing
of what the facts mean.
"""

from __future__ import annotations

import heapq
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from headcount.codec import encode_level, encode_request, encode_sample, read_level, read_request, read_sample
from headcount.errors import RunError
from headcount.records import FORMAT_VERSION, Level, Request, RunFacts, Sample

__all__ = ["Run", "RunWriter", "open_run"]

T = TypeVar("T")

_FLUSH_BYTES = 4 << 20
"""Pending lines are written without being asked beyond this, so that memory stays bounded."""
_LONGEST_LINE_BYTES = 16 << 20
"""No fact is that long: an end without a line break beyond it is no half-written line."""
_UNREADABLE = "check its permissions, and the disk"
_UNWRITABLE = "make room and check its permissions, then go on with --resume"
_GIVE_UP_LINES = 100
"""So many unreadable lines without a readable one: the file is not ours."""


class RunWriter:
    """Appends to one run folder. Lines wait in memory until ``flush``, which the caller calls every second or sooner.

    Every method raises ``RunError`` when the folder can no longer be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, _LineFile] = {}
        self._lock = _lock(path)

    @classmethod
    def create(cls, parent: Path, name: str, facts: RunFacts, scenario_text: str) -> RunWriter:
        """Make ``parent/<UTC start>-<name>`` and write the scenario and ``run.json``. An existing folder is never
        touched: a second run in the same second gets ``-2`` after its name."""
        try:
            path = _make_folder(parent, f"{_stamp(facts.started_utc)}-{_slug(name)}")
            _replace(path / "scenario.toml", scenario_text.encode())
            # run.json last: a folder that has it is whole.
            _replace(path / "run.json", msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")
        except OSError as error:
            raise RunError(
                f"cannot make a run folder in {parent}: {error.strerror or error}",
                "choose another place with --out",
            ) from error
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> tuple[RunWriter, Run]:
        """Go on with a stored run: half-written last lines are cut off, new ones follow the old."""
        run = open_run(path)
        writer = cls(run.path)
        try:
            for file in run.path.glob("*.jsonl"):
                _cut_half_line(file)
        except OSError as error:
            writer.close()
            raise RunError(f"cannot continue {path}: {error.strerror or error}", _UNWRITABLE) from error
        return writer, run

    def scenario(self, text: str) -> None:
        """The scenario as it was given anew to a run that goes on."""
        try:
            _replace(self.path / "scenario.toml", text.encode())
        except OSError as error:
            raise RunError(
                f"cannot write {self.path / 'scenario.toml'}: {error.strerror or error}", _UNWRITABLE
            ) from error

    def level(self, level: Level) -> None:
        """A level begins or goes on; written through at once, since there are few."""
        file = self._file("levels.jsonl")
        file.append(encode_level(level))
        file.flush()

    def request(self, request: Request) -> None:
        """One request has ended."""
        self._file("requests.jsonl").append(encode_request(request))

    def requests(self, raw: bytes, process: int) -> None:
        """Lines that load process ``process`` has encoded itself; half a line at the end waits for its rest."""
        self._file(f"requests-{process}.jsonl").append(raw)

    def samples(self, samples: list[Sample]) -> None:
        """Samples of any sources; numbers that are not finite are left out."""
        self._file("samples.jsonl").append(b"".join(map(encode_sample, samples)))

    def figures(self, encoded: bytes) -> None:
        """What another tool says of a level: one JSON object, for imported runs alone."""
        self._file("figures.jsonl").append(encoded + b"\n")

    def flush(self) -> None:
        """Hand all whole lines to the operating system. A killed process loses nothing after this."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Flush and close; closing twice is fine."""
        files, self._files = self._files, {}
        try:
            for file in files.values():
                file.flush()
        finally:
            for file in files.values():
                file.close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _file(self, name: str) -> _LineFile:
        if name not in self._files:
            self._files[name] = _LineFile(self.path / name)
        return self._files[name]


class _LineFile:
    """One append-only file of lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror or error}", _UNWRITABLE) from error
        self._pending = bytearray()

    def append(self, lines: bytes) -> None:
        self._pending += lines
        if len(self._pending) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all whole lines. What a full disk did not take stays pending, so that a later try goes on in
        mid-line where this one stopped."""
        whole = self._pending.rfind(b"\n") + 1
        try:
            while whole:
                taken = self._file.write(self._pending[:whole]) or 0
                del self._pending[:taken]
                whole -= taken
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error.strerror or error}",
                "what was written before stays readable; make room, then go on with --resume",
            ) from error

    def close(self) -> None:
        self._file.close()


class Run:
    """A run folder opened for reading. Requests and samples stream from the files and are never all in memory."""

    def __init__(self, path: Path, facts: RunFacts, scenario_text: str) -> None:
        self.path = path
        self.facts = facts
        self.scenario_text = scenario_text
        self.damaged: dict[str, set[int]] = {}
        """File name → numbers of the lines that could not be read, as far as was read until now."""

    def levels(self) -> list[Level]:
        """In order of index; of several lines of one level the last one holds."""
        last = {level.index: level for level in self._lines("levels.jsonl", read_level)}
        return [last[index] for index in sorted(last)]

    def requests(self, level: int | None = None) -> Iterator[Request]:
        """All requests, or those of one level, over all load processes in the order in which they ended."""
        begin = b"" if level is None else b'{"level":%d,' % level
        names = sorted(file.name for file in self.path.glob("requests*.jsonl"))
        streams = [self._lines(name, read_request, begin) for name in names]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda request: request.ended_at_s)
        return merged if level is None else (request for request in merged if request.level == level)

    def samples(self) -> Iterator[Sample]:
        """All samples, in the order in which they were taken."""
        return self._lines("samples.jsonl", read_sample)

    def figures(self, decode: Callable[[bytes], T]) -> list[T]:
        """What another tool said of each level, in the order of levels; empty for runs of our own."""
        return list(self._lines("figures.jsonl", decode))

    @property
    def damaged_places(self) -> list[str]:
        """Every line that could not be read until now, as ``samples.jsonl line 7``."""
        return [f"{name} line {n}" for name, numbers in sorted(self.damaged.items()) for n in sorted(numbers)]

    def damage_sentence(self) -> str | None:
        """What could not be read until now, with its places; None when everything could."""
        places = self.damaged_places
        if not places:
            return None
        named = ", ".join(places[:5]) + (" …" if len(places) > 5 else "")
        return f"{len(places)} damaged line{'s' if len(places) > 1 else ''} left out: {named}"

    def _lines(self, name: str, decode: Callable[[bytes], T], begin: bytes = b"") -> Iterator[T]:
        """Decoded lines of one file; none where there is no such file. With ``begin``, lines of ours that begin
        otherwise are passed over undecoded. Half a line at the end is a killed writer's and is no damage."""
        try:
            file = (self.path / name).open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunError(f"cannot read {self.path / name}: {error.strerror or error}", _UNREADABLE) from error
        any_good, field = False, begin[: begin.find(b":") + 1]
        with file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    if not line.startswith(b"{") or len(line) > _LONGEST_LINE_BYTES:
                        self.damaged.setdefault(name, set()).add(number)
                    break
                if begin and line.startswith(field) and not line.startswith(begin):
                    any_good = True
                    continue
                try:
                    record = decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    damaged = self.damaged.setdefault(name, set())
                    damaged.add(number)
                    if not any_good and len(damaged) >= _GIVE_UP_LINES:
                        break
                    continue
                any_good = True
                yield record
        # Samples explain an answer but do not make it: without them there is a caution, not an error.
        if not any_good and self.damaged.get(name) and name != "samples.jsonl":
            raise RunError(
                f"{self.path / name} is no file of a headcount run: not one line can be read",
                "take the file away, or bring back a whole copy of the run folder",
            )


def open_run(path: Path) -> Run:
    """Open a run folder of this or any older format. Raises ``RunError`` when it is none, or a newer one's."""
    try:
        raw = (path / "run.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{path} is not a run folder: it has no run.json", _nearby(path)) from None
    except OSError as error:
        raise RunError(f"cannot read {path / 'run.json'}: {error.strerror or error}", _UNREADABLE) from error
    facts = _decode_facts(path, raw)
    try:
        scenario_text = (path / "scenario.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        scenario_text = ""
    return Run(path, facts, scenario_text)


def _decode_facts(path: Path, raw: bytes) -> RunFacts:
    """Looks at the version first: a newer format may have changed anything else."""
    try:
        plain: Any = msgspec.json.decode(raw)
        version = plain["format_version"] if isinstance(plain, dict) else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise RunError(
                f"{path} has run format {version}; this headcount reads up to {FORMAT_VERSION}",
                "open it with a newer headcount: pip install -U headcount",
            )
        facts = msgspec.convert(plain, RunFacts)
        _stamp(facts.started_utc)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, ValueError, OverflowError) as error:
        raise RunError(
            f"{path / 'run.json'} is damaged or not of headcount: {error}",
            "the facts beside it (requests.jsonl …) are plain JSON lines and still there",
        ) from error
    return facts


def _nearby(path: Path) -> str:
    """A hint for someone who named the folder of runs instead of a run."""
    try:
        runs = sorted(child.name for child in path.iterdir() if (child / "run.json").is_file())
    except OSError:
        runs = []
    return f"the newest run in there is {path / runs[-1]}" if runs else "give the folder that headcount named"


def _make_folder(parent: Path, name: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 1000):
        path = parent / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise RunError(f"{parent} already holds 999 runs named {name}", "choose another place with --out")


def _replace(file: Path, content: bytes) -> None:
    """The whole file at once, or not at all."""
    partial = file.with_name(f"{file.name}.partial")
    partial.write_bytes(content)
    partial.replace(file)


def _stamp(started_utc: str) -> str:
    return datetime.fromisoformat(started_utc).astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")


def _slug(name: str) -> str:
    """A name that is one harmless path component everywhere."""
    return re.sub(r"[^\w.]+", "-", name).strip("-.")[:60] or "run"


def _cut_half_line(file: Path) -> None:
    """Truncate after the last newline, looked for from the end."""
    with file.open("r+b") as lines:
        end = lines.seek(0, os.SEEK_END)
        keep = end
        while keep > 0:
            begin = max(0, keep - 65536)
            lines.seek(begin)
            found = lines.read(keep - begin).rfind(b"\n")
            if found >= 0:
                keep = begin + found + 1
                break
            keep = begin
        if keep < end:
            lines.truncate(keep)


def _lock(path: Path) -> int | None:
    """A lock on the folder for as long as its writer lives: two writers would mix their lines. None on Windows.
    A file system without locks gives a descriptor that locks nothing."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise RunError(f"cannot open {path}: {error.strerror or error}", _UNREADABLE) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise RunError(f"another headcount still writes to {path}", "wait for it, or end it first") from error
    except OSError:
        return folder
    return folder
