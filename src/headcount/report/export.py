"""Levels and requests as flat tables for other tools: CSV files, one SQLite database, or Parquet files.

Columns have the names and units of the facts; what is felt (TTFT, TPOT …) is computed here. Streams: a million
requests need no memory.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles, Verdict
from headcount.errors import RunError, ScenarioError
from headcount.metrics import METRICS, send_delay_s
from headcount.records import Request
from headcount.report.format import clean
from headcount.store import Run

__all__ = ["EXPORTS", "Cell", "Row", "export", "in_spreadsheet", "level_row", "request_row"]

Cell = str | int | float | bool | None
"""What one column of one row holds."""

Row = dict[str, Cell]
"""Column → cell."""

_NESTED = {"chunk_at_s", "server", "stage_s", "clauses", "cautions", "error_kinds", "ttft_by_turn_s", "gpus"}
"""Fields that are no single value."""


def export(to: str, run: Run, verdict: Verdict, folder: Path) -> list[Path]:
    """Write the run's levels and requests into ``folder`` in the form ``to``, a key of ``EXPORTS``; what was written.
    Files of these names are replaced."""
    if to not in EXPORTS:
        raise ScenarioError(f"export to {to!r} is not known", f"known: {', '.join(EXPORTS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return EXPORTS[to](folder, map(level_row, verdict.levels), map(request_row, run.requests()))
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"cannot write to {folder}: {error}", "choose another place with --out") from error


def level_row(level: LevelSummary) -> Row:
    """One level, its quantiles spread over columns (``ttft_p95_s``)."""
    row: Row = {}
    for name in level.__struct_fields__:
        value = getattr(level, name)
        if isinstance(value, Quantiles):
            stem = name.removesuffix("_s")
            row |= {f"{stem}_p50_s": value.p50, f"{stem}_p95_s": value.p95, f"{stem}_max_s": value.max}
            row[f"{stem}_n"] = value.n
        elif name not in _NESTED and (value is None or isinstance(value, Cell)):
            row[name] = value
    for clause in level.clauses:
        stem = clause.clause.split(" <=")[0]
        row |= {f"{stem}_misses": clause.misses, f"{stem}_n": clause.n, f"{stem}_decision": clause.decision}
    return row


def request_row(request: Request) -> Row:
    """One request with what is felt of it; chunks as their number."""
    row: Row = {name: getattr(request, name) for name in request.__struct_fields__ if name not in _NESTED}
    row |= {f"{name}_s": function(request) for name, function in METRICS.items()}
    row["send_delay_s"] = send_delay_s(request)
    row["chunks"] = len(request.chunk_at_s)
    return row


def _write_csv(folder: Path, levels: Iterable[Row], requests: Iterable[Row]) -> list[Path]:
    written = []
    for name, rows in (("levels", levels), ("requests", requests)):
        path = folder / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            for number, row in enumerate(rows):
                if number == 0:
                    writer.writerow(row)
                writer.writerow(map(in_spreadsheet, row.values()))
        written.append(path)
    return written


def in_spreadsheet(cell: Cell) -> Cell:
    """A text that begins like a formula would be run by spreadsheets: an apostrophe keeps it text."""
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _write_sqlite(folder: Path, levels: Iterable[Row], requests: Iterable[Row]) -> list[Path]:
    path = folder / "run.sqlite"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    try:
        with database:
            for name, rows in (("levels", levels), ("requests", requests)):
                _fill(database, name, iter(rows))
    finally:
        database.close()
    return [path]


def _fill(database: sqlite3.Connection, name: str, rows: Iterator[Row]) -> None:
    first = next(rows, None)
    if first is None:
        return
    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in first)
    holes = ", ".join("?" * len(first))
    database.execute(f"CREATE TABLE {name} ({columns})")
    database.execute(f"INSERT INTO {name} VALUES ({holes})", tuple(first.values()))
    database.executemany(f"INSERT INTO {name} VALUES ({holes})", (tuple(row.values()) for row in rows))


def _write_parquet(folder: Path, levels: Iterable[Row], requests: Iterable[Row]) -> list[Path]:
    """By way of DuckDB, which reads a table of lines without having it in memory. A column has the narrowest type that
    holds all its cells."""
    try:
        import duckdb
    except ImportError:
        raise ScenarioError("writing Parquet needs DuckDB", "pip install 'headcount[parquet]'") from None

    written = []
    for name, rows in (("levels", levels), ("requests", requests)):
        path, lines = folder / f"{name}.parquet", folder / f".{name}.partial.jsonl"
        try:
            columns = _write_lines(lines, rows)
            if not columns:
                continue
            with duckdb.connect() as database:
                struct = ", ".join(f"{_sql(column)}: {_sql(kind)}" for column, kind in columns.items())
                database.execute(
                    f"COPY (SELECT * FROM read_json({_sql(str(lines))}, format='newline_delimited', "
                    f"columns={{{struct}}})) TO {_sql(str(path))} (FORMAT parquet)"
                )
        except duckdb.Error as error:
            raise RunError(f"cannot write {path}: {error}", "choose another place with --out") from error
        finally:
            lines.unlink(missing_ok=True)
        written.append(path)
    return written


_KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR")


def _write_lines(path: Path, rows: Iterable[Row]) -> dict[str, str]:
    """The rows as JSON lines; each column's type. One without any value is text."""
    kinds: dict[str, int] = {}
    with path.open("wb") as file:
        for row in rows:
            file.write(msgspec.json.encode(row) + b"\n")
            for column, cell in row.items():
                kind = -1 if cell is None else _kind(cell)
                kinds[column] = max(kinds.get(column, -1), kind)
    return {column: _KINDS[kind] for column, kind in kinds.items()}


def _kind(cell: Cell) -> int:
    return next(place for place, kind in enumerate((bool, int, float, str)) if isinstance(cell, kind))


def _sql(text: str) -> str:
    """A text constant."""
    return "'" + text.replace("'", "''") + "'"


EXPORTS: dict[str, Callable[[Path, Iterable[Row], Iterable[Row]], list[Path]]] = {
    "csv": _write_csv,
    "sqlite": _write_sqlite,
    "parquet": _write_parquet,
}
