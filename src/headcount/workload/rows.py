"""Other people's data, row by row: conversations and traces in the forms they are published in.

A bad row is named by its line and left out; ``strict`` makes it an error. Knows nothing of people and seeds.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from headcount.errors import ScenarioError

__all__ = ["BLOCK_TOKENS", "BadRowError", "Rows", "Spoken", "TraceRow", "read_conversations", "read_trace"]

T = TypeVar("T")


class BadRowError(Exception):
    """One row cannot be used; the text says why."""


BLOCK_TOKENS = 512
"""Prompt tokens that one of Mooncake's ``hash_ids`` stands for."""


class Spoken(msgspec.Struct, frozen=True):
    """What one person said in a recorded conversation, and how long the answers were."""

    system: str
    turns: tuple[tuple[str, int | None], ...]
    """(what the person said, characters of the recorded answer; None where none was recorded)"""


class TraceRow(msgspec.Struct, frozen=True):
    """One recorded request."""

    at_s: float
    """Since the trace's first request."""
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    """Names of the prompt's blocks of 512 tokens; equal names are equal text, so that a prefix cache can help."""


class Rows(msgspec.Struct, Generic[T], frozen=True):
    """What a file held, and what was wrong with the rest of it."""

    good: tuple[T, ...]
    bad: tuple[tuple[int, str], ...] = ()
    """(line, what is wrong with it)"""

    def note(self, path: str) -> str:
        """A sentence about the rows left out; empty when all were good."""
        if not self.bad:
            return ""
        shown = "; ".join(f"line {line}: {why}" for line, why in self.bad[:3])
        more = "; ..." if len(self.bad) > 3 else ""
        return f"{path}: {len(self.bad)} of {len(self.bad) + len(self.good)} rows left out ({shown}{more})"


def read_conversations(path: str, *, strict: bool = False, limit: int = 100_000) -> Rows[Spoken]:
    """Conversations from JSON lines or a JSON list (OpenAI ``messages``, ShareGPT ``conversations``, ``prompt``),
    or from any other file as one prompt a line.

    Raises ``ScenarioError`` when there is no good row, when it cannot be read, or for any bad row if ``strict``.
    """
    with _readable(path):
        if Path(path).suffix in (".json", ".jsonl", ".ndjson"):
            return _collected(path, _json_rows(path), lambda row: _spoken(row), strict, limit)
        with Path(path).open(encoding="utf-8-sig", errors="replace") as lines:
            filled = ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())
            return _collected(path, filled, lambda line: Spoken("", ((line, None),)), strict, limit)


def read_trace(path: str, *, strict: bool = False, limit: int = 100_000) -> Rows[TraceRow]:
    """A trace in the order of its instants, the first at 0. The form is told by the first line: Azure's LLM
    inference CSV, BurstGPT's CSV, Mooncake's JSON lines, or our own
    (``{"at_s": 0.5, "prompt_tokens": 100, "output_tokens": 50}``).

    Raises as ``read_conversations`` does.
    """
    with _readable(path):
        if Path(path).suffix == ".csv":
            with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as lines:
                reader = csv.DictReader(lines)
                parse = _csv_parser(path, reader.fieldnames or ())
                found = _collected(path, _csv_rows(reader), parse, strict, limit)
        else:
            found = _collected(path, _json_rows(path), _trace_json, strict, limit)
    ordered = sorted(found.good, key=lambda row: row.at_s)
    began_s = ordered[0].at_s
    return Rows(tuple(msgspec.structs.replace(row, at_s=row.at_s - began_s) for row in ordered), found.bad)


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turns the failure to read a file into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise ScenarioError(f"{path}: there is no such file", "paths count from the scenario's folder") from error
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}", "check the path and its permissions") from error
    except csv.Error as error:
        raise ScenarioError(f"{path} is no CSV: {error}", "check what kind of file it is") from error


def _collected(
    path: str, rows: Iterable[tuple[int, Any]], parse: Callable[[Any], T], strict: bool, limit: int
) -> Rows[T]:
    """Rows parsed one by one; a ``BadRowError`` of ``parse`` says what is wrong with one."""
    good: list[T] = []
    bad: list[tuple[int, str]] = []
    for number, row in itertools.islice(rows, limit):
        try:
            if isinstance(row, BadRowError):
                raise row
            good.append(parse(row))
        except BadRowError as error:
            if strict:
                raise ScenarioError(f"{path}, line {number}: {error}", "mend the row, or set strict = false") from error
            bad.append((number, str(error)))
    if not good:
        why = f": line {bad[0][0]}: {bad[0][1]}" if bad else ""
        raise ScenarioError(
            f"{path} holds no row that can be used{why}", "see docs/explanation/workloads.md for the forms"
        )
    return Rows(tuple(good), tuple(bad))


def _json_rows(path: str) -> Iterator[tuple[int, Any]]:
    """(line, value) of JSON lines, or (number of the item, value) of one JSON list; a ``BadRowError`` for a
    value that is no JSON."""
    with Path(path).open("rb") as lines:
        first = lines.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
        lines.seek(0)
        if first.startswith(b"[") and (whole := _whole_list(path)) is not None:
            yield from enumerate(whole, 1)
            return
        for number, line in enumerate(lines, 1):
            if text := line.removeprefix(b"\xef\xbb\xbf").strip():
                yield number, _decoded(text)


def _whole_list(path: str) -> list[Any] | None:
    """The list a whole file is; None when its lines are lists of their own."""
    try:
        whole = msgspec.json.decode(Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return whole if isinstance(whole, list) and not _is_message(whole[0] if whole else None) else None


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return BadRowError(f"no JSON ({error})")


# --- conversations ---------------------------------------------------------------------------


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "role" in value


_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant"}


def _spoken(row: object) -> Spoken:
    """What the person says in one row of any known form."""
    if isinstance(row, str):
        return _prompt_only(row)
    if isinstance(row, list):
        row = {"messages": row}
    if not isinstance(row, dict):
        raise BadRowError("neither a conversation nor a prompt")
    if isinstance(messages := row.get("messages"), list):
        return _dialogue((_field(m, "role"), _text(m.get("content"))) for m in _tables(messages))
    if isinstance(messages := row.get("conversations", row.get("conversation")), list):
        return _dialogue((_field(m, "from"), _text(m.get("value"))) for m in _tables(messages))
    for key in ("prompt", "text", "question", "instruction"):
        if isinstance(row.get(key), str):
            return _prompt_only(row[key])
    raise BadRowError("no messages, conversations or prompt in it")


def _prompt_only(text: str) -> Spoken:
    if not text.strip():
        raise BadRowError("an empty prompt")
    return Spoken("", ((text, None),))


def _tables(messages: list[Any]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if not isinstance(message, dict):
            raise BadRowError("a message that is no table")
        yield message


def _field(message: Mapping[str, Any], key: str) -> str:
    role = message.get(key, message.get("role"))
    if not isinstance(role, str):
        raise BadRowError(f"a message without {key}")
    return _ROLES.get(role, role)


def _text(content: object) -> str:
    """A message's text: a text, or OpenAI's list of parts."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _dialogue(messages: Iterable[tuple[str, str]]) -> Spoken:
    """The person's turns; an answer's length belongs to the turn before it. Tools and other roles are left out."""
    system: list[str] = []
    turns: list[tuple[str, int | None]] = []
    for role, text in messages:
        if role in ("system", "developer"):
            system.append(text)
        elif role == "user":
            if not text.strip():
                raise BadRowError("an empty user message")
            turns.append((text, None))
        elif role == "assistant" and turns:
            turns[-1] = (turns[-1][0], (turns[-1][1] or 0) + len(text))
    if not turns:
        raise BadRowError("nobody asks anything")
    return Spoken("\n".join(system), tuple(turns))


# --- traces ----------------------------------------------------------------------------------


def _csv_rows(reader: Any) -> Iterator[tuple[int, Any]]:
    """(line, row), and a ``BadRowError`` as a row where the CSV itself is broken."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRowError(f"no CSV ({error})")
        yield reader.line_num, row


def _csv_parser(path: str, columns: Iterable[str]) -> Callable[[dict[str, Any]], TraceRow]:
    """How to read this CSV, by its columns."""
    given = {column.strip().lower(): column for column in columns if column}
    for at, prompt, output, instant in (
        ("timestamp", "contexttokens", "generatedtokens", _date_s),  # Azure
        ("timestamp", "request tokens", "response tokens", _number),  # BurstGPT
        ("at_s", "prompt_tokens", "output_tokens", _number),  # ours
    ):
        if {at, prompt, output} <= given.keys():
            keys = given[at], given[prompt], given[output]
            return lambda row, keys=keys, instant=instant: _row(  # type: ignore[misc]
                instant(row[keys[0]]), row[keys[1]], row[keys[2]]
            )
    raise ScenarioError(
        f"{path} is no trace known here: its columns are {', '.join(given.values()) or 'missing'}",
        "known: TIMESTAMP,ContextTokens,GeneratedTokens (Azure); Timestamp,Request tokens,Response tokens (BurstGPT); "
        "at_s,prompt_tokens,output_tokens",
    )


def _trace_json(row: object) -> TraceRow:
    """Mooncake's form (milliseconds) or ours (seconds)."""
    if not isinstance(row, dict):
        raise BadRowError("no table")
    if "at_s" in row:
        return _row(_number(row["at_s"]), row.get("prompt_tokens"), row.get("output_tokens"))
    if "timestamp" in row:
        blocks = row.get("hash_ids", [])
        if not isinstance(blocks, list) or not all(isinstance(block, int) for block in blocks):
            raise BadRowError("hash_ids is no list of numbers")
        return _row(_number(row["timestamp"]) / 1000, row.get("input_length"), row.get("output_length"), tuple(blocks))
    raise BadRowError("no at_s and no timestamp")


def _row(at_s: float, prompt: object, output: object, blocks: tuple[int, ...] = ()) -> TraceRow:
    prompt_tokens, output_tokens = _number(prompt), _number(output)
    if prompt_tokens < 1 or output_tokens < 1:
        raise BadRowError(f"{prompt_tokens:g} prompt and {output_tokens:g} output tokens: both must be at least 1")
    return TraceRow(at_s, round(prompt_tokens), round(output_tokens), blocks)


def _number(value: object) -> float:
    """A finite number of any sensible size from a number or its text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadRowError(f"{value!r} is no number")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise BadRowError(f"{str(value)[:40]!r} is no number") from error
    if not math.isfinite(number) or abs(number) > 1e15:
        raise BadRowError(f"{number:g} is no sensible number")
    return number


def _date_s(value: object) -> float:
    """Seconds of a date such as ``2023-11-16 18:15:46.6805900``, UTC where it names no zone."""
    try:
        when = datetime.datetime.fromisoformat(str(value).strip())
    except ValueError as error:
        raise BadRowError(f"{str(value)[:40]!r} is no date") from error
    return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
