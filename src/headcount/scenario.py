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
from headcount.slo import Comfort, parse_slo
from headcount.workload import make_workload
from headcount.workload.arrivals import ArrivalPlan, Closed, Open, Replayed
from headcount.workload.bounds import MOST_USERS, MOST_WAIT_S
from headcount.workload.table import fill, nearest

__all__ = [
    "EngineOptions",
    "Scenario",
    "SearchOptions",
    "TelemetryOptions",
    "encode_scenario",
    "load_scenario",
    "make_scenario",
    "parse_scenario",
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


class TelemetryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[telemetry]``."""

    interval_s: Annotated[float, Meta(ge=0.1, le=3600)] = 1.0
    """Time between two samples."""
    gpu_metrics: str | None = None
    """Address of a Prometheus exporter that tells of the server's GPUs."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario file."""

    name: str = "find"
    """Part of the run folder's name."""
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
    make_workload(scenario.workload, scenario.seed).expected()
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
    engine = scenario.engine
    if engine.kind != "auto" and ":" not in engine.kind and engine.kind not in ENGINES:
        raise ScenarioError(f"engine.kind {engine.kind!r} is not known", nearest(engine.kind, ["auto", *ENGINES]))
    parse_slo(scenario.slo)
    make_workload(scenario.workload, scenario.seed)
    if isinstance(scenario.arrivals, Replayed) and scenario.workload.get("kind") != "trace":
        raise ScenarioError("arrivals.kind is 'trace', but workload.kind is not", "give the trace in [workload]")
    if isinstance(scenario.arrivals, Open) and not scenario.arrivals.rates_per_s:
        raise ScenarioError(
            "arrivals.rates_per_s is missing",
            "give the new conversations per second of each level, e.g. rates_per_s = [0.5, 1, 2]",
        )
    return scenario


def encode_scenario(scenario: Scenario) -> str:
    """The scenario as TOML text, defaults written out; reading it gives an equal scenario.

    Raises ``ScenarioError`` for a value TOML has no form for.
    """
    return "".join(_table_lines(msgspec.to_builtins(scenario), ())).lstrip("\n")


def _beside(table: dict[str, object], folder: Path) -> dict[str, object]:
    """The table with every ``file`` and ``..._file`` as an absolute path."""
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found[key] = _beside(value, folder)
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
