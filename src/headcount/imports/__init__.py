"""Other tools' results as run folders, for the same reports and comparisons. An extension point: table ``IMPORTS``.

A reader turns one file into what was held. Its streams that ask again at once are people without pauses: nothing is
converted into anything else. Knows nothing of how runs are judged.
"""

from __future__ import annotations

import heapq
import importlib
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import LevelSummary
from headcount.codec import LATEST_AT_S, encode_request, read_request
from headcount.errors import ScenarioError
from headcount.records import FORMAT_VERSION, EngineFacts, Level, Request, RunFacts, Sample
from headcount.slo import parse_slo
from headcount.store import RunWriter
from headcount.workload.bounds import MOST_USERS

__all__ = ["IMPORTS", "Held", "import_files", "in_streams", "peak_in_flight"]

IMPORTS: dict[str, str] = {
    "guidellm": "headcount.imports.guidellm:read",
    "aiperf": "headcount.imports.aiperf:read",
    "vllm": "headcount.imports.bench:read_vllm",
    "sglang": "headcount.imports.bench:read_sglang",
    "table": "headcount.imports.table:read",
}
"""By name; each gives None for a file that is not its own. Asked in this order."""

TOOLS = {
    "guidellm": "guidellm",
    "aiperf": "aiperf",
    "vllm": "vllm bench serve",
    "sglang": "sglang.bench_serving",
    "table": "a table of figures",
}
_APART_S = 60.0
"""Between two levels, since they were never held after each other."""


class Held(msgspec.Struct, frozen=True):
    """One level as another tool held it. Its times count from its beginning."""

    users: int | None
    """Streams that asked again as soon as they were answered; None when the file does not tell."""
    length_s: float
    requests: tuple[Request, ...] = ()
    """Every one, where the tool kept them."""
    figures: LevelSummary | None = None
    """Else what it says of them."""
    rate_per_s: float | None = None
    """Requests a second, where the tool asked at a rate."""
    model: str | None = None
    engine: str = ""
    machine: dict[str, float] = {}
    """Samples of the whole level: ``gpu_temperature_c`` …"""
    started_utc: str = ""
    notes: tuple[str, ...] = ()


Reader = Callable[[Path, bytes], list[Held] | None]


def import_files(
    files: Sequence[Path],
    out: Path,
    *,
    kind: str = "",
    slo: tuple[str, ...] | str = "chat",
    users: int | None = None,
    name: str = "",
) -> Path:
    """Write what the files hold as one run folder in ``out``, a level each; where it is.

    ``users`` is for files that do not tell how many streams asked. Raises ``ScenarioError`` for a file that no reader
    knows, or that lacks what is needed.
    """
    parse_slo(slo)
    found = [_read(path, kind) for path in files]
    tools = {tool for tool, _ in found}
    levels_of = zip(found, files, strict=True)
    held = [_possible(_with_users(one, users, path), path) for (_, levels), path in levels_of for one in levels]
    held.sort(key=lambda one: (one.users or 0, one.rate_per_s or 0.0))
    facts = _facts(held, " and ".join(TOOLS.get(tool, tool) for tool in sorted(tools)), slo)
    levels = ", ".join(str(level) for level in dict.fromkeys(one.users or 1 for one in held))
    text = f"name = {_quoted(name or 'import')}\nslo = {_quoted(slo)}\n\n[search]\nlevels = [{levels}]\n"
    with RunWriter.create(out, name or f"import-{'-'.join(sorted(tools))}", facts, text) as writer:
        began_at_s = 0.0
        for index, one in enumerate(held):
            _write(writer, index, one, began_at_s)
            began_at_s = math.ceil(began_at_s + one.length_s + _APART_S)
    return writer.path


def in_streams(requests: Sequence[Request], streams: int | None = None) -> tuple[Request, ...]:
    """The requests in order of their beginnings, each given to the stream that has been free for longest; at least
    ``streams`` of them, more where more overlapped."""
    free: list[tuple[float, int]] = [(-1.0, person) for person in range(1, (streams or 1) + 1)]
    counts: dict[int, int] = {}
    found = []
    for request in sorted(requests, key=lambda one: one.scheduled_at_s):
        if free and free[0][0] <= request.scheduled_at_s + 1e-3:  # tools round
            person = heapq.heappop(free)[1]
        else:
            person = max([0, *counts, *(one for _, one in free)]) + 1
        heapq.heappush(free, (request.ended_at_s, person))
        conversation = counts.get(person, 0)
        counts[person] = conversation + 1
        found.append(msgspec.structs.replace(request, person=person, conversation=conversation))
    return tuple(found)


def peak_in_flight(requests: Sequence[Request]) -> int:
    """The most requests that ran at one time."""
    changes = sorted((at_s, step) for one in requests for at_s, step in ((one.scheduled_at_s, 1), (one.ended_at_s, -1)))
    running = most = 0
    for _, step in changes:
        running += step
        most = max(most, running)
    return most


def _read(path: Path, kind: str) -> tuple[str, list[Held]]:
    if kind and kind not in IMPORTS:
        raise ScenarioError(f"{kind!r} is no tool whose results can be imported", f"known: {', '.join(IMPORTS)}")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror or error}", "check the path") from error
    for tool in [kind] if kind else IMPORTS:
        module, _, function = IMPORTS[tool].partition(":")
        reader: Reader = getattr(importlib.import_module(module), function)
        try:
            held = reader(path, raw)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ScenarioError(
                f"{path} looks like a result of {TOOLS[tool]}, but cannot be understood: {_said(error)}",
                "its format may have changed: say so, with the tool's version",
            ) from error
        if held:
            return tool, held
    raise ScenarioError(
        f"{path} is no result of a tool that is known, or it holds nothing",
        f"known: {', '.join(TOOLS.values())}; name it with --from",
    )


def _said(error: Exception) -> str:
    """What is wrong, without the name of an exception: a reader's own sentence, or what it looked for in vain."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) if type(error) is ValueError else "something is not of the kind it should be"


def _possible(one: Held, path: Path) -> Held:
    """The level, when it and its requests can have been. Raises ``ScenarioError`` for what contradicts itself."""
    users = 1 if one.users is None else one.users
    if not 1 <= users <= MOST_USERS or not 0 < one.length_s < LATEST_AT_S:
        raise ScenarioError(
            f"{path}: a level of {one.users} people for {one.length_s:g} s cannot have been", "check the file"
        )
    for request in one.requests:
        try:
            read_request(encode_request(request))
        except (msgspec.DecodeError, ValueError) as error:
            raise ScenarioError(f"{path} tells of {error}", "check the file") from error
    return one


def _with_users(one: Held, users: int | None, path: Path) -> Held:
    if one.users is not None:
        return one
    if users is None:
        raise ScenarioError(f"{path} does not tell how many streams asked at once", "say it with --users")
    return msgspec.structs.replace(one, users=users)


def _facts(held: Sequence[Held], tool: str, slo: tuple[str, ...] | str) -> RunFacts:
    models = dict.fromkeys(one.model for one in held if one.model)
    engines = dict.fromkeys(one.engine for one in held if one.engine)
    started = min((one.started_utc for one in held if one.started_utc), default="")
    notes = dict.fromkeys(note for one in held for note in one.notes)
    return RunFacts(
        format_version=FORMAT_VERSION,
        headcount_version=version("headcount"),
        verb="import",
        started_utc=started or datetime.now(UTC).isoformat(timespec="seconds"),
        seed=0,
        engine=EngineFacts(engine=next(iter(engines), "unknown"), model=next(iter(models), None)),
        slo=tuple(clause.text for clause in parse_slo(slo)),
        client={"tool": tool},
        notes=tuple(notes),
    )


def _write(writer: RunWriter, index: int, one: Held, began_at_s: float) -> None:
    """A level, its requests or figures, and what was sampled."""
    ended_at_s = began_at_s + one.length_s
    users = one.users or 1
    requests = in_streams(one.requests, users)
    each = max((request.conversation + 1 for request in requests), default=1)
    writer.level(
        Level(
            index=index,
            users=users,
            began_at_s=began_at_s,
            condition=f"{one.rate_per_s:g}/s" if one.rate_per_s else "",
            purpose="fixed",
            rate_per_s=one.rate_per_s,
            conversations_each=each,
            started_at_s=began_at_s,
            stopped_at_s=ended_at_s,
            drained_at_s=ended_at_s,
            ended="finished",
        )
    )
    for request in sorted(requests, key=lambda request: request.ended_at_s):
        writer.request(_moved(request, index, began_at_s))
    if one.figures is not None:
        figures = msgspec.structs.replace(
            one.figures,
            index=index,
            users=users,
            began_at_s=began_at_s,
            steady_at_s=began_at_s,
            ended_at_s=ended_at_s,
            condition=f"{one.rate_per_s:g}/s" if one.rate_per_s else "",
        )
        writer.figures(msgspec.json.encode(figures))
    if one.machine:
        at_s = began_at_s + one.length_s / 2
        writer.samples([Sample(at_s, name, value) for name, value in one.machine.items()])


def _moved(request: Request, level: int, by_s: float) -> Request:
    return msgspec.structs.replace(
        request,
        level=level,
        scheduled_at_s=request.scheduled_at_s + by_s,
        ended_at_s=request.ended_at_s + by_s,
        chunk_at_s=[at_s + by_s for at_s in request.chunk_at_s],
    )


def _quoted(text: tuple[str, ...] | str) -> str:
    return msgspec.json.encode(text).decode()
