"""What to measure: one TOML file, or built from flags. Every message names the key and the nearest known one."""

from __future__ import annotations

import msgspec

__all__ = ["EngineOptions", "Scenario", "SearchOptions", "TelemetryOptions"]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[engine]``: which server, and how to reach it. The API key is never part of a scenario."""

    kind: str = "auto"
    """A key of ``ENGINES``, ``module:Class``, or ``auto``: by what the server answers."""
    url: str = ""
    """``http://host:port[/base]`` or ``unix:/path/to/socket``; empty for the simulated engine."""
    model: str | None = None
    headers: dict[str, str] = {}
    ca_file: str | None = None
    insecure: bool = False
    connect_timeout_s: float = 10.0
    first_token_timeout_s: float = 120.0
    idle_timeout_s: float = 60.0
    total_timeout_s: float = 600.0
    options: dict[str, object] = {}
    """Fields of the engine's own class: the simulated engine's speed, for instance."""


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[search]``."""

    levels: tuple[int, ...] = ()
    """Fixed numbers of people instead of a search."""
    max_users: int = 4096
    max_time_s: float = 3600.0
    level_time_s: float = 180.0
    resolution: float = 0.05
    confirmations: int = 3
    headroom: float = 0.25


class TelemetryOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[telemetry]``."""

    interval_s: float = 1.0
    gpu_metrics: str | None = None


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario file."""

    name: str = "find"
    seed: int = 1
    slo: tuple[str, ...] | str = "chat"
    processes: int = 1
    engine: EngineOptions = EngineOptions()
    workload: dict[str, object] = {}
    """``kind`` (a key of ``WORKLOADS``) and the fields of its class."""
    search: SearchOptions = SearchOptions()
    telemetry: TelemetryOptions = TelemetryOptions()
