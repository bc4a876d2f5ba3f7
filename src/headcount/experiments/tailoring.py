"""What a ready experiment takes from the server it is held on: its adapters, its context, the models named.

Tables in, tables out. Knows nothing of how the server was asked.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from headcount.errors import ScenarioError
from headcount.records import EngineFacts

__all__ = ["after_each", "between_models", "mixed_adapters", "of_people", "tailored", "under_power_limits"]

MOST_CONDITIONS = 7
"""Of the experiment with adapters: with more of them some numbers are left out."""
ROOM_TOKENS = 1200
"""What a conversation needs beside a pasted document: template, questions, answers."""
LEAST_DOCUMENT_TOKENS = 300


def tailored(name: str, table: dict[str, Any], facts: EngineFacts, adapters: Sequence[str] = ()) -> dict[str, Any]:
    """The table of experiment ``name`` as it can be held on a server; ``adapters`` in place of all that it has.

    ``ScenarioError`` when the server has not what it takes.
    """
    table = copy.deepcopy(table)
    if name == "adapters":
        table["condition"] = mixed_adapters(adapters or facts.adapters, _slots(facts))
    elif name == "context":
        table["condition"] = _fitting_contexts(table["condition"], facts.context_tokens)
    elif name == "interference":
        persona = table["condition"][1]["workload"]["personas"]["document"]
        persona["first_prompt_tokens"] = _fitting_document(persona["first_prompt_tokens"], facts.context_tokens)
    return table


def mixed_adapters(adapters: Sequence[str], slots: int | None = None) -> list[dict[str, Any]]:
    """The base model, then one adapter, two, and so on up to all; of very many some numbers, but always those around
    ``slots``, how many the server holds at once."""
    if not adapters:
        raise ScenarioError(
            "this server has no LoRA adapters",
            "start it with some, or name them: --adapters sql,law (as the server calls them)",
        )
    most = len(adapters)
    numbers = set(range(1, most + 1))
    if most > MOST_CONDITIONS:
        numbers = {n for n in (1, 2, 4, 8, 16, 32, 64, most, slots or 1, (slots or 0) + 1) if n <= most}
    conditions: list[dict[str, Any]] = [{"name": "base", "workload": {"adapters": []}}]
    for n in sorted(numbers):
        name = "1 adapter" if n == 1 else f"{n} adapters"
        conditions.append({"name": name, "workload": {"adapters": list(adapters[:n])}})
    return conditions


def between_models(table: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    """The table with two conditions: two addresses, or two models of one server."""
    if first == second:
        raise ScenarioError(f"{first} cannot be held against itself", "give two addresses, or two models")
    urls = [one.startswith(("http://", "https://", "unix:")) for one in (first, second)]
    if any(urls) and not all(urls):
        raise ScenarioError(
            f"{first} and {second} are an address and a model",
            "give two addresses, or two models of one server (its address with --url)",
        )
    key = "url" if all(urls) else "model"
    conditions = [{"name": _short(one), "engine": {key: one}} for one in (first, second)]
    return {**table, "condition": conditions}


def of_people(table: dict[str, Any], users: Sequence[int]) -> dict[str, Any]:
    """The table with other numbers of people. ``ScenarioError`` where conditions have their own."""
    if any("levels" in condition for condition in table.get("condition", ())):
        raise ScenarioError(
            f"the numbers of people of {table['name']} are its own", "write a scenario of your own: see --show"
        )
    return {**table, "search": {**table.get("search", {}), "levels": list(users)}}


def under_power_limits(
    table: dict[str, Any], limits_w: Sequence[float], command: str | None, by_hand: bool, loss_fraction: float | None
) -> dict[str, Any]:
    """The table with one condition a power limit, and how limits are set."""
    if len({*limits_w}) < 2:
        raise ScenarioError("power needs two limits to hold against each other", "give them in watts: --limits 600,450")
    ways = {"command": command, "by_hand": by_hand or None, "loss_allowed_fraction": loss_fraction}
    conditions = [{"name": f"{watts:g} W", "power_limit_w": watts} for watts in dict.fromkeys(limits_w)]
    return {**table, "power": {k: v for k, v in ways.items() if v is not None}, "condition": conditions}


def after_each(table: dict[str, Any], command: str, idle_s: float | None) -> dict[str, Any]:
    """The table of cold-start with a command that starts the server anew, or another time to leave it alone."""
    condition = dict(table["condition"][0])
    if command:
        condition |= {"name": "started anew", "before": command, "idle_s": idle_s or 0.0}
    elif idle_s is not None:
        condition["idle_s"] = idle_s
    return {**table, "condition": [condition]}


def _slots(facts: EngineFacts) -> int | None:
    """How many adapters the server holds at once, where it tells."""
    value = facts.details.get("max_loras", facts.details.get("max_lora"))
    return int(value) if isinstance(value, int | float | str) and str(value).isdigit() else None


def _fitting_contexts(conditions: list[dict[str, Any]], context_tokens: int | None) -> list[dict[str, Any]]:
    if context_tokens is None:
        return conditions
    fit = [one for one in conditions if one["workload"]["first_prompt_tokens"] + ROOM_TOKENS <= context_tokens]
    if len(fit) < 2:
        raise ScenarioError(
            f"a context of {context_tokens} tokens holds only {len(fit)} of the lengths to compare",
            "start the server with a longer context, at least 8,192 tokens",
        )
    return fit


def _fitting_document(tokens: Sequence[int], context_tokens: int | None) -> list[int]:
    if context_tokens is None or tokens[1] + ROOM_TOKENS <= context_tokens:
        return list(tokens)
    most = context_tokens - ROOM_TOKENS
    if most < LEAST_DOCUMENT_TOKENS:
        raise ScenarioError(
            f"a context of {context_tokens} tokens is too short for a pasted document",
            f"start the server with a context of at least {ROOM_TOKENS + LEAST_DOCUMENT_TOKENS} tokens",
        )
    return [max(LEAST_DOCUMENT_TOKENS, most // 2), most]


def _short(name: str) -> str:
    """An address without its scheme, or the end of a model's long name."""
    return name.split("://")[-1].rstrip("/")[-60:]
