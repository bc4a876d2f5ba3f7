"""Questions to a server whose answers may be missing: JSON or nothing. Knows no kind of server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headcount.errors import ServerError
from headcount.http import Client, Response

__all__ = ["entries", "fields", "get", "get_json", "picked", "post_json", "text", "whole"]

TIMEOUT_S = 10.0


async def get(client: Client, path: str, timeout_s: float = TIMEOUT_S) -> Response | None:
    """Whatever comes, of any status; None when nothing does."""
    try:
        return await client.get(path, timeout_s)
    except ServerError:
        return None


async def get_json(client: Client, path: str) -> Any:
    """The JSON at ``path``; None when there is none."""
    return _json(await get(client, path))


async def post_json(client: Client, path: str, body: dict[str, Any], timeout_s: float) -> Any:
    """The JSON that answers ``body``; None when there is none."""
    try:
        return _json(await client.post(path, msgspec.json.encode(body), timeout_s))
    except ServerError:
        return None


def _json(response: Response | None) -> Any:
    if response is None or response.status != 200:
        return None
    try:
        return msgspec.json.decode(response.body)
    except (msgspec.MsgspecError, RecursionError):
        return None


def fields(value: Any, *path: str) -> dict[str, Any]:
    """The JSON object at ``path`` inside ``value``; empty for anything that is none.

    >>> fields({"a": {"b": {"c": 1}}}, "a", "b"), fields(None), fields({"a": 1}, "a")
    ({'c': 1}, {}, {})
    """
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list; empty for anything that is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def whole(value: Any) -> int | None:
    """A count above 0, also when written as text ("2097152", "16.0"); None for anything else.

    >>> whole("16.0"), whole(0), whole("None"), whole(True)
    (16, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if 0 < number < 1e18 else None


def text(value: Any) -> str | None:
    """Text that says something; None for anything else."""
    return value if isinstance(value, str) and value and value.lower() not in ("none", "null", "unknown") else None


def picked(said: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The plain values of ``said`` under ``names``, for ``EngineFacts.details``: only what is asked for by name,
    because configurations hold tokens and keys."""
    return {name: said[name] for name in names if isinstance(said.get(name), str | int | float | bool)}
