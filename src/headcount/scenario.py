"""What to measure: one TOML file, or built from flags. Every message names the key and the nearest known one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from headcount.engine import ENGINES
from headcount.errors import ScenarioError
from headcount.prices import Prices
from headcount.slo import Comfort, parse_slo
from headcount.workload import make_workload
from headcount.workload.arrivals import ArrivalPlan, Closed, Replayed
from headcount.workload.bounds import MOST_USERS, MOST_WAIT_S
from headcount.workload.table import fill, nearest

__all__ = [
    "Condition",
    "EngineOptions",
    "PowerOptions",
    "Scenario",
    "SearchOptions",
    "TelemetryOptions",
    "encode_scenario",
    "encode_table",
    "load_scenario",
    "make_scenario",
    "parse_scenario",
    "under",
]

AtLeastOne = Annotated[int, Meta(ge=1, le=1000)]
People = Annotated[int, Meta(ge=1, le=MOST_USERS)]
Seconds = Annotated[float, Meta(gt=0, le=MOST_WAIT_S)]
SearchTime = Annotated[float, Meta(gt=0, le=30 * MOST_WAIT_S)]
Share = Annotated[float, Meta(ge=0, lt=1)]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[engine]``: which server, and how to reach it. The API key is never part of a scenario."""

    kind: str = "auto"
    """A key of ``ENGINES``, ``module:Class``, or ``auto``: by what the server answers."""
    url: str = ""
    """``http://host:port[/base]`` or ``unix:/path/to/socket``; empty for the simulated engine."""
    model: str | None = None
    """The model to ask; the server's first when missing."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    ca_file: str | None = None
    """Certificates to trust besides the system's."""
    insecure: bool = False
    """Accept any TLS certificate."""
    connect_timeout_s: Seconds = 10.0
    first_token_timeout_s: Seconds = 120.0
    """The longest wait for the first output of an answer."""
    idle_timeout_s: Seconds = 60.0
    """The longest silence within an answer."""
    total_timeout_s: Seconds = 600.0
    """The longest whole answer."""
    tokenizer_file: str | None = None
    """The model's ``tokenizer.json``: what words cost is counted by it instead of by the server's usage. For servers
    that tell no counts; needs the extra ``headcount[tokenizer]``."""
    options: dict[str, object] = {}
    """Fields of the engine's own class: the simulated engine's speed, for instance."""


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[search]``."""

    levels: tuple[People, ...] = ()
    """Fixed numbers of people instead of a search."""
    max_users: People = 4096
    """No level has more people."""
    max_time_s: SearchTime = 3600.0
    """The whole search takes no longer."""
    level_time_s: SearchTime = 180.0
    """One level takes no longer."""
    resolution: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    """The limit is narrowed down to this share of itself, or to one person."""
    confirmations: AtLeastOne = 3
    """How many separate times the limit must hold."""
    headroom: Share = 0.25
    """The share of the people at the limit that the recommendation stays below it."""
    burst: bool = True
    """Whether everybody presses enter at once at the recommended number, when a search has found it."""
    soak_s: Annotated[float, Meta(ge=0, le=604800)] = 0.0
    """How long the recommended number is held after the search, on top of ``max_time_s``; 0: not at all."""
    active_share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """The share of registered accounts in use in the busy hour: the answer is told in accounts as well."""
    visits: AtLeastOne = 2
    """How often each of ``levels`` is held under each condition, in the order A B B A; once where there are none."""


class TelemetryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[telemetry]``."""

    interval_s: Annotated[float, Meta(ge=0.1, le=3600)] = 1.0
    """Time between two samples."""
    gpu_metrics: str | None = None
    """Address of a Prometheus exporter that tells of the server's GPUs."""


class PowerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[power]``: how conditions with a ``power_limit_w`` set it. Limits return to what they were afterwards."""

    command: str | None = None
    """A command such as ``sudo nvidia-smi -i {gpu} -pl {watts}``; None: through the driver."""
    by_hand: bool = False
    """A person sets each limit, at a prompt."""
    loss_allowed_fraction: Share = 0.05
    """Of the tokens per second at the highest limit: the best limit costs no more."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of ``[[condition]]``: a variation held against the others in one run. Whatever it does not say is as in the
    rest of the file."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    engine: dict[str, object] = {}
    """Keys of ``[engine]`` with other values: ``model``, ``url`` …"""
    workload: dict[str, object] = {}
    """Keys of ``[workload]`` with other values: ``streamed``, ``adapters``, ``stages``, ``think_s`` …; with a ``kind``
    in it, it takes the whole table's place."""
    arrivals: ArrivalPlan | None = None
    """In place of ``[arrivals]``."""
    slo: tuple[str, ...] | str | None = None
    """In place of ``slo``: whole answers cannot be judged by their first token."""
    levels: tuple[People, ...] = ()
    """In place of ``search.levels``."""
    idle_s: Annotated[float, Meta(ge=0, le=MOST_WAIT_S)] = 0.0
    """The server is left alone for so long before each level."""
    before: str = ""
    """A shell command that is run before each level, to bring the server into this condition; the level begins when
    the server answers again."""
    power_limit_w: Annotated[float, Meta(gt=0)] | None = None
    """The GPUs' power limit; see ``[power]``. The simulated engine has none."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario file."""

    name: str = "find"
    """Part of the run folder's name."""
    experiment: str = ""
    """Which ready experiment this is, for the sentence its report begins with."""
    seed: int = 1
    """Everything random comes from it."""
    slo: tuple[str, ...] | str = "chat"
    """A preset, or clauses such as ``ttft_p95 <= 2 s``."""
    processes: AtLeastOne = 1
    """Load processes."""
    engine: EngineOptions = EngineOptions()
    workload: dict[str, object] = {}
    """``kind`` (a preset or a key of ``WORKLOADS``) and the fields of its class."""
    arrivals: ArrivalPlan = Closed()
    """When people come: ``closed`` (until the level ends), ``finite``, ``open``, ``synchronised`` or ``trace``."""
    search: SearchOptions = SearchOptions()
    comfort: Comfort = Comfort()
    """How waits are felt, told beside each level."""
    telemetry: TelemetryOptions = TelemetryOptions()
    prices: Prices | None = None
    """What the owner pays, for the report's cost."""
    power: PowerOptions = PowerOptions()
    condition: tuple[Condition, ...] = ()
    """``[[condition]]``, each held in turn."""


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in a TOML file, checked with all the files it names; those lie beside it unless absolute.

    Raises ``ScenarioError`` that names the file, the key and the remedy.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ScenarioError(f"{path}: there is no such file", "check the path") from error
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}", "check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is not UTF-8 text", "save it as UTF-8") from error
    scenario = parse_scenario(text, str(path), path.resolve().parent)
    for effective in [under(scenario, condition) for condition in scenario.condition] or [scenario]:
        make_workload(effective.workload, effective.seed).expected()
    return scenario


def parse_scenario(text: str, source: str = "scenario", folder: Path | None = None) -> Scenario:
    """The scenario in TOML text. ``source`` names it in messages, ``folder`` is where files named in it lie.

    Opens none of those files. Raises ``ScenarioError``.
    """
    try:
        table = tomllib.loads(text)
        return make_scenario(table if folder is None else _beside(table, folder))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{source} is not TOML: {error}", "texts stand in quotes, tables in [brackets]") from error
    except ScenarioError as error:
        raise ScenarioError(f"{source}: {error.message}", error.hint) from error


def make_scenario(table: Mapping[str, object]) -> Scenario:
    """The scenario a table describes, every part of it checked. Raises ``ScenarioError``."""
    scenario = fill(Scenario, table)
    names = [condition.name for condition in scenario.condition]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ScenarioError(f"two conditions are called {twice[0]!r}", "give each a name of its own")
    _check(scenario)
    for condition in scenario.condition:
        try:
            _check(under(scenario, condition))
        except ScenarioError as error:
            raise ScenarioError(f"condition {condition.name!r}: {error.message}", error.hint) from error
    return scenario


def under(scenario: Scenario, condition: Condition) -> Scenario:
    """The scenario as it is under one of its conditions, without any others. Raises ``ScenarioError``."""
    engine = msgspec.to_builtins(scenario.engine) | condition.engine
    workload = condition.workload if "kind" in condition.workload else scenario.workload | condition.workload
    search = scenario.search
    return msgspec.structs.replace(
        scenario,
        engine=fill(EngineOptions, engine, "engine"),
        workload=workload,
        arrivals=condition.arrivals or scenario.arrivals,
        slo=scenario.slo if condition.slo is None else condition.slo,
        search=msgspec.structs.replace(search, levels=condition.levels or search.levels),
        condition=(),
    )


def _check(scenario: Scenario) -> None:
    """``ScenarioError`` for what a table's form alone does not show to be wrong."""
    engine = scenario.engine
    if engine.kind != "auto" and ":" not in engine.kind and engine.kind not in ENGINES:
        raise ScenarioError(f"engine.kind {engine.kind!r} is not known", nearest(engine.kind, ["auto", *ENGINES]))
    parse_slo(scenario.slo)
    make_workload(scenario.workload, scenario.seed)
    if isinstance(scenario.arrivals, Replayed) and scenario.workload.get("kind") != "trace":
        raise ScenarioError("arrivals.kind is 'trace', but workload.kind is not", "give the trace in [workload]")


def encode_scenario(scenario: Scenario) -> str:
    """The scenario as TOML text, defaults written out; reading it gives an equal scenario.

    Raises ``ScenarioError`` for a value TOML has no form for.
    """
    table = msgspec.to_builtins(scenario)
    conditions = table.pop("condition")
    lines = _table_lines(table, ())
    for condition in conditions:
        said = {key: value for key, value in condition.items() if value not in (None, {}, [], "", 0.0)}
        lines += ["\n[[condition]]\n", *(f"{_key(key)} = {_value(value, key)}\n" for key, value in said.items())]
    return "".join(lines).lstrip("\n")


def encode_table(table: Mapping[str, object]) -> str:
    """Any table as TOML text; what is None is left out. Raises ``ScenarioError`` for a value TOML has no form for."""
    return "".join(_table_lines(table, ())).lstrip("\n")


def _beside(table: dict[str, object], folder: Path) -> dict[str, object]:
    """The table with every ``file`` and ``..._file`` as an absolute path."""
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found[key] = _beside(value, folder)
        elif key == "condition" and isinstance(value, list):
            found[key] = [_beside(one, folder) if isinstance(one, dict) else one for one in value]
        elif isinstance(value, str) and value and (key == "file" or key.endswith("_file")):
            found[key] = str(folder / value)
        else:
            found[key] = value
    return found


def _table_lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    """Plain keys first, then a section for each table in it."""
    lines = [f"\n[{'.'.join(map(_key, path))}]\n"] if path else []
    sections = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            sections += _table_lines(value, (*path, key))
        elif value is not None:
            lines.append(f"{_key(key)} = {_value(value, '.'.join((*path, key)))}\n")
    return lines + sections


def _key(text: str) -> str:
    bare = text.isascii() and text.replace("_", "").replace("-", "").isalnum()
    return text if bare else _quoted(text)


def _quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes, plus DEL, which JSON lets stand."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


def _value(value: object, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(_value(part, path) for part in value)}]"
        case Mapping():
            inner = ", ".join(f"{_key(k)} = {_value(v, f'{path}.{k}')}" for k, v in value.items() if v is not None)
            return f"{{ {inner} }}" if inner else "{}"
    raise ScenarioError(f"{path}: {value!r} cannot stand in a scenario file", "use texts, numbers, lists and tables")
