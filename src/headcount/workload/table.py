"""A TOML table becomes a Struct; every message names the key, what was given and the nearest known key.

Knows nothing of what the keys mean: ranges and choices come from the Struct's own annotations.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from headcount.errors import ScenarioError

__all__ = ["fill", "key_paths", "nearest"]

T = TypeVar("T")

_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_KIND_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def fill(kind: type[T], table: Mapping[str, object], at: str = "", others: Iterable[str] = ()) -> T:
    """``table`` as a ``kind``. ``at`` is the key path of the table itself, for messages; ``others`` are keys that
    could stand there too.

    Raises ``ScenarioError`` for an unknown or missing key, a wrong type and a value out of range. A Struct's own
    check raises ``ValueError("sentence; hint")``.
    """
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind, table, at, list(others)) from error


def nearest(given: str, known: list[str]) -> str:
    """``did you mean ...`` for the most similar known name, or the known names when none resembles it."""
    if close := difflib.get_close_matches(given, known, n=1, cutoff=0.6):
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(known)}" if known else "leave it out"


def key_paths(kind: Any, at: str = "") -> Iterator[str]:
    """Every key of a Struct and of the Structs in it, as ``table.key``."""
    for field in msgspec.structs.fields(kind):
        path = f"{at}.{field.encode_name}" if at else field.encode_name
        yield path
        for part in _structs(field.type):
            yield from key_paths(part, path)


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """The Structs an annotation allows, alone or in a list; those in dicts have no fixed key path."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple, list):
        for part in typing.get_args(annotation):
            yield from _structs(part)


def _explained(text: str, kind: Any, table: Mapping[str, object], at: str, others: list[str]) -> ScenarioError:
    """msgspec's message in the words of someone who edits a TOML file."""
    found = _WHERE.match(text)
    what, inner = (found["what"], found["path"] or "") if found else (text, "")
    path = ".".join(part for part in (at, inner) if part)
    if key := re.search(r"unknown field `(.*)`", what):
        full = f"{path}.{key[1]}" if path else key[1]
        return ScenarioError(
            f"{full} is not a known key", _nearest_key(key[1], kind, inner, at, [] if inner else others)
        )
    if key := re.search(r"missing required field `(.*)`", what):
        full = f"{path}.{key[1]}" if path else key[1]
        return ScenarioError(f"{full} is missing", f"add {key[1]} to {path or 'the file'}")
    given = _value_at(table, inner)
    got = "" if given is None else f", not {_shown(given)}"
    if re.match(r"Invalid (enum )?value", what):
        choices = _choices(kind, inner)
        hint = nearest(str(given), choices)
        options = f" must be one of {', '.join(choices)}" if choices else " is not understood"
        return ScenarioError(f"{path}{options}{got}", hint if hint.startswith("did") else f"change {path}")
    if length := re.match(r"Expected `array` of length(?: (..))? (\d+)", what):
        there = len(given) if isinstance(given, list | tuple) else 0
        limit = _limit(f"{length[1] or ''} {length[2]}")
        return ScenarioError(f"{path} must have{limit} values, not {there}", f"change {path}")
    if expected := re.match(r"Expected `(.*?)`(.*?)(, got .*)?$", what):
        wanted = " or ".join(_KIND_WORDS.get(part, part) for part in expected[1].split(" | "))
        limit = _limit(expected[2])
        return ScenarioError(f"{path} must be {wanted}{limit}{got}", f"change {path}")
    sentence, _, hint = what.partition("; ")
    return ScenarioError(f"{path}: {sentence}" if path else sentence, hint or f"change {path or 'it'}")


def _limit(text: str) -> str:
    """``>= 1`` and its kin in words."""
    sign, _, number = text.strip().partition(" ")
    words = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}.get(sign)
    if words is None:
        return f" {text.strip()}" if text.strip() else ""
    return f" {words} {float(number):.15g}"


def _nearest_key(given: str, kind: Any, inner: str, at: str, others: list[str]) -> str:
    """The nearest key of the same table, else of any table, else the table's keys."""
    here = _structs_at(kind, inner)
    own = list(dict.fromkeys(f.encode_name for struct in here for f in msgspec.structs.fields(struct))) + others
    prefix = ".".join(part for part in (at, inner) if part)
    if close := difflib.get_close_matches(given, own, n=1, cutoff=0.6):
        return f"did you mean {prefix}.{close[0]}?" if prefix else f"did you mean {close[0]}?"
    everywhere = {path.rpartition(".")[2]: path for path in reversed(list(key_paths(kind, at)))}
    if close := difflib.get_close_matches(given, list(everywhere), n=1, cutoff=0.6):
        return f"did you mean {everywhere[close[0]]}?"
    return f"known: {', '.join(own)}" if own else "leave it out"


def _structs_at(kind: Any, path: str) -> list[type[msgspec.Struct]]:
    """The Structs that may stand at a key path of a Struct; list indices in the path count as their list."""
    found = [kind]
    for step in _steps(path):
        types_there = [f.type for struct in found for f in msgspec.structs.fields(struct) if f.encode_name == step]
        found = [inner for there in types_there for inner in _structs(there)]
    return found


def _choices(kind: Any, path: str) -> list[str]:
    """The texts a ``Literal`` or the tags of a union at a key path allow; empty when there are none."""
    above, _, last = path.rpartition(".")
    holders = _structs_at(kind, above)
    for holder in holders:
        for field in msgspec.structs.fields(holder):
            if field.encode_name == last and typing.get_origin(field.type) is Literal:
                return [str(value) for value in typing.get_args(field.type)]
    return [str(holder.__struct_config__.tag) for holder in holders if holder.__struct_config__.tag_field == last]


def _steps(path: str) -> list[str]:
    return [step for step in re.sub(r"\[[^\]]*\]", "", path).split(".") if step]


def _value_at(table: object, path: str) -> object | None:
    """What was given at a msgspec path; None where the path cannot be followed (``[...]``)."""
    for step in re.findall(r"[^.\[\]]+", path.replace("[...]", ".\0")):
        if isinstance(table, Mapping) and step in table:
            table = table[step]
        elif isinstance(table, list | tuple) and step.isdigit() and int(step) < len(table):
            table = table[int(step)]
        else:
            return None
    return table


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
