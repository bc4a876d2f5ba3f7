"""The answer for programs: one JSON object with a published schema (docs/reference/report.schema.json).

Base units, names with their units, null for unknown; no NaN and no Infinity, ever.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from headcount.analysis.conclusions import Burst, Caution, ConditionResult, LevelSummary, RateLimit, SoakStep
from headcount.analysis.energy import Energy, energy_by_users
from headcount.records import EngineFacts, Gpu
from headcount.report import Report

__all__ = ["SCHEMA_VERSION", "JsonReport", "indented", "schema", "write"]

SCHEMA_VERSION = 1
"""Raised when a key goes or changes its meaning; new keys may come at any time."""


class JsonReport(msgspec.Struct, frozen=True, kw_only=True):
    """A headcount report."""

    schema_version: int
    headcount_version: str
    simulated: bool
    """Nothing was measured on a real server."""
    started_utc: str
    verb: str
    seed: int
    engine: EngineFacts
    gpus: tuple[Gpu, ...]
    slo: tuple[str, ...]
    sentence: str
    limit_users: int | None
    at_least: bool
    limit_interval_users: tuple[float, float] | None
    recommended_users: int | None
    fails_at_users: int | None
    confirmations: int
    cause: str
    cause_sentence: str
    advice: tuple[str, ...]
    trusted: bool
    complete: bool
    first_estimate_users: float | None
    estimate_sentence: str = ""
    knee_users: float | None
    rate: RateLimit | None = None
    """Of a search in the open loop; ``limit_users`` are then the people inside at ``rate.rate_per_s``."""
    burst: Burst | None = None
    """Everybody pressed enter at once at ``recommended_users``; null where that was not tried."""
    burst_sentence: str = ""
    soak: tuple[SoakStep, ...] = ()
    """``recommended_users`` held for long; empty where that was not tried."""
    soak_sentence: str = ""
    soak_changes: tuple[str, ...] = ()
    active_share: float | None = None
    accounts: int | None = None
    """The most registered accounts, of which ``active_share`` are active in the busy hour; null where none was said."""
    cautions: tuple[Caution, ...]
    conditions: tuple[ConditionResult, ...] = ()
    """Of a run that holds conditions against each other: its own limit is null, each has one where it was searched."""
    findings: tuple[str, ...] = ()
    """What that shows besides ``sentence``, a sentence each."""
    levels: tuple[LevelSummary, ...]
    """All that were held but the burst."""
    energy: tuple[Energy, ...] = ()
    """By number of people; empty where the power of a GPU was not seen."""


def write(report: Report) -> str:
    """The report as JSON."""
    verdict, facts = report.verdict, report.facts
    whole = JsonReport(
        schema_version=SCHEMA_VERSION,
        headcount_version=facts.headcount_version,
        simulated=facts.simulated,
        started_utc=facts.started_utc,
        verb=facts.verb,
        seed=facts.seed,
        engine=facts.engine,
        gpus=facts.gpus,
        slo=facts.slo,
        energy=energy_by_users(verdict.levels, report.prices),
        **{name: getattr(verdict, name) for name in verdict.__struct_fields__ if name in JsonReport.__struct_fields__},
    )
    return indented(whole)


def indented(whole: object) -> str:
    """Any object as indented JSON. A number that is not finite becomes null, and characters that could steer a terminal
    are written as escapes, since JSON is looked at there too."""
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"
    return re.sub(r"[^\n -~]", _escape_unprintable, text)


def _escape_unprintable(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of ``JsonReport``; keys that may come later are allowed."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(JsonReport)}
