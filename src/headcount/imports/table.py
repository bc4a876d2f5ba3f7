"""A CSV table of published figures: a row a level, columns by our own names. Knows nothing of run folders."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from headcount.analysis.conclusions import Quantiles
from headcount.analysis.imported import figures_of
from headcount.imports import Held
from headcount.stats.proportion import smallest_telling_n

__all__ = ["read"]

_RATES = (
    "output_tokens_per_s",
    "requests_per_s",
    "user_tokens_per_s",
    "in_flight_mean",
    "prompt_tokens_mean",
    "output_tokens_mean",
)
_LATENCIES = ("ttft", "tpot", "e2e")
_COLUMNS = {
    *("users", "n", "errors", "model", "engine"),
    *_RATES,
    *(f"{name}_{statistic}_s" for name in _LATENCIES for statistic in ("p50", "p95", "max")),
}
_LENGTH_S = 60.0


def read(_path: Path, raw: bytes) -> list[Held] | None:
    """A level for each row; None for a file without a column ``users``. Columns that begin with ``gpu_`` are samples.

    Raises ``ValueError`` for a column of another name.
    """
    if b"users" not in raw.split(b"\n", 1)[0].split(b",") and not raw.startswith(b"users"):
        return None
    rows = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig", "replace"))))
    unknown = [name for name in (rows[0] if rows else ()) if name not in _COLUMNS and not name.startswith("gpu_")]
    if unknown:
        raise ValueError(f"column {unknown[0]!r}; known: {', '.join(sorted(_COLUMNS))}, gpu_…")
    return [_held(row) for row in rows]


def _amount(cell: str, name: str) -> float:
    """A number from 0 on. Raises ``ValueError`` that names the column."""
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {cell!r}, no number from 0 on")
    return value


def _held(row: dict[str, str]) -> Held:
    def told(name: str) -> float | None:
        return _amount(row[name], name) if row.get(name) else None

    users, n = int(_amount(row["users"], "users")), int(told("n") or 0)
    known: dict[str, Any] = {name: told(name) for name in _RATES}
    for name in _LATENCIES:
        p50, p95, most = (told(f"{name}_{statistic}_s") for statistic in ("p50", "p95", "max"))
        if p50 is not None or p95 is not None:
            # That there were requests is known even where their number is not.
            known[f"{name}_s"] = Quantiles(max(n, 1), p50, p95, most, n >= smallest_telling_n(0.05))
    return Held(
        users=users,
        length_s=_LENGTH_S,
        figures=figures_of(0, users, n, 0.0, _LENGTH_S, n_errors=int(told("errors") or 0), **known),
        model=row.get("model") or None,
        engine=row.get("engine") or "",
        machine={name: _amount(cell, name) for name, cell in row.items() if name.startswith("gpu_") and cell},
    )
