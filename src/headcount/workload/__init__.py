"""What people say: endless conversations of turns. An extension point, table ``WORKLOADS``.

Everything random comes from one seed by named streams, so that the same person of the same run says the
same words whatever the others do. Knows nothing of engines, HTTP and clocks.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from headcount.errors import ScenarioError
from headcount.records import Conversation
from headcount.workload.presets import PRESETS

__all__ = [
    "PRESETS",
    "WORKLOADS",
    "Expected",
    "Workload",
    "make_persona",
    "make_workload",
    "settle",
    "without_stages",
    "workload_class",
]

WORKLOADS: dict[str, str] = {
    "chat": "headcount.workload.chat:Chat",
    "mix": "headcount.workload.mix:Mix",
    "data": "headcount.workload.recorded:Recorded",
    "trace": "headcount.workload.trace:Trace",
}


class Expected(msgspec.Struct, frozen=True):
    """The means of what one person asks, for estimates before anything was measured."""

    turns: float
    """Turns a conversation."""
    think_s: float
    """Pause after one answer, reading and typing included; stages apart."""
    prompt_tokens: float
    """Text of one turn, without history."""
    output_tokens: float
    """The most asked for in one answer."""
    stage_s: float = 0.0
    """Time of all stages of one turn with a given delay."""


class Workload(Protocol):
    """Conversations for each person."""

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The endless conversations of one person. ``stream`` names the random stream (level and repeat),
        so that a repeated level says new words while a repeated run says the same."""

    def expected(self) -> Expected:
        """The means of what one person asks."""


def make_workload(table: Mapping[str, object], seed: int) -> Workload:
    """The workload that a scenario's ``[workload]`` table describes: ``kind``, the options of its class, and those
    of ``People``.

    ``kind`` is a preset, a key of ``WORKLOADS`` or ``module:Class``; ``chat`` where it is missing.
    Opens no file. Raises ``ScenarioError``.
    """
    return _make(dict(table), seed, "workload")


def make_persona(name: str, table: Mapping[str, object], common: Mapping[str, object], seed: int) -> Workload:
    """The workload of one persona of a mix; ``common`` are options for those kinds that have them."""
    options = {"kind": _kind_of(name)} | {key: value for key, value in table.items() if key != "weight"}
    return _make(options, seed, f"workload.personas.{name}", dict(common) | {"persona": name})


def settle(
    table: Mapping[str, object], adapters: Sequence[str] = (), tokens_per_word: Mapping[str, float] | None = None
) -> dict[str, object]:
    """A ``[workload]`` table with what the server told before measuring: its adapters in place of ``"all"``, and
    what a word costs (by language, or ``language@model``) unless the table says so itself."""
    settled = _with_adapters(dict(table), list(adapters))
    if tokens_per_word and settled.get("kind") in (None, "mix", *PRESETS, *WORKLOADS):
        settled["tokens_per_word"] = dict(tokens_per_word) | cast("dict[str, float]", table.get("tokens_per_word", {}))
    return settled


def without_stages(table: Mapping[str, object]) -> dict[str, object]:
    """A ``[workload]`` table whose people take no steps outside the model, those of ready personas included."""
    kind = table.get("kind", "chat")
    if kind == "mix":
        personas = cast("Mapping[str, dict[str, object]]", table.get("personas", {}))
        bare = {name: without_stages({"kind": _kind_of(name)} | persona) for name, persona in personas.items()}
        return {**table, "personas": bare}
    return {**table, "stages": []} if kind == "chat" or kind in PRESETS else dict(table)


def _with_adapters(table: dict[str, object], adapters: list[str]) -> dict[str, object]:
    """The table and all tables in it with ``adapters = "all"`` spelled out."""
    if table.get("adapters") == "all":
        table = table | {"adapters": adapters}
    return {key: _with_adapters(value, adapters) if isinstance(value, dict) else value for key, value in table.items()}


def _make(options: dict[str, object], seed: int, at: str, defaults: Mapping[str, object] | None = None) -> Workload:
    """The workload of one table; people's own options are taken out of it and dealt over the rest."""
    from headcount.workload.people import Assigned, People
    from headcount.workload.table import fill

    keys = People.__struct_fields__
    people = {key: options.pop(key) for key in keys if key in options}
    _refuse_twice(people, options, at)
    made_for = functools.partial(_make_plain, options, seed, at, defaults or {}, keys)
    inner = made_for(None)
    return Assigned(fill(People, people, at), made_for, seed, at) if people else inner


def _make_plain(
    options: Mapping[str, object],
    seed: int,
    at: str,
    defaults: Mapping[str, object],
    others: tuple[str, ...],
    model: str | None,
) -> Workload:
    """The workload of one table without people's own options, with words that cost what they cost ``model``."""
    from headcount.workload.table import fill

    options = dict(options)
    kind = options.pop("kind", "chat")
    if not isinstance(kind, str):
        raise ScenarioError(f"{at}.kind must be a text, not {kind!r}", f"known: {', '.join(_kinds())}")
    if "seed" in options:
        raise ScenarioError(f"{at}.seed is not a known key", "seed stands at the top of the scenario")
    if kind in PRESETS:
        options = {"persona": kind} | dict(defaults) | PRESETS[kind] | options
        kind = "chat"
    cls = workload_class(kind, at)
    if not issubclass(cls, msgspec.Struct):
        try:
            made: Workload = cls(seed=seed, **options)
        except TypeError as error:
            raise ScenarioError(f"{at}: {error}", f"see the options of {kind}") from error
        return made
    own = {key: value for key, value in defaults.items() if key in cls.__struct_fields__}
    options = own | options | {"seed": seed}
    if model and isinstance(costs := options.get("tokens_per_word"), dict):
        options["tokens_per_word"] = _costs_for(model, costs)
    return cast("Workload", fill(cls, options, at, others))


def _costs_for(model: str, costs: Mapping[str, object]) -> dict[str, object]:
    """``english@MODEL`` in place of ``english`` where it is MODEL that is asked."""
    plain = {key: cost for key, cost in costs.items() if "@" not in key}
    return plain | {key.partition("@")[0]: cost for key, cost in costs.items() if key.partition("@")[2] == model}


def _refuse_twice(people: Mapping[str, object], options: Mapping[str, object], at: str) -> None:
    """``ScenarioError`` for an option of people that stands both in a mix and in one of its personas."""
    personas = options.get("personas")
    for name, table in personas.items() if isinstance(personas, dict) else ():
        for key in people if isinstance(table, dict) else ():
            if key in table:
                raise ScenarioError(f"{at}.{key} and {at}.personas.{name}.{key} are both given", "keep one of them")


def workload_class(name: str, at: str = "workload") -> type[Any]:
    """The class behind a name of ``WORKLOADS`` or ``module:Class``; ``ScenarioError`` for anything else."""
    from headcount.workload.table import nearest

    where = WORKLOADS.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise ScenarioError(f"{at}.kind {name!r} is not known", nearest(name, _kinds()))
    try:
        found: type[Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"{at}.kind {name!r} cannot be loaded: {error}", "check the module's path") from error
    return found


def _kind_of(persona: str) -> str:
    """The kind of a persona that does not say: its name where that is one, else ``chat``."""
    return persona if persona in PRESETS or persona in WORKLOADS else "chat"


def _kinds() -> list[str]:
    return [*WORKLOADS, *(name for name in PRESETS if name not in WORKLOADS)]
