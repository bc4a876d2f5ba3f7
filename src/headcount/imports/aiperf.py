"""Results of aiperf: ``profile_export_aiperf.json`` or ``.csv`` (figures), ``profile_export.jsonl`` (every request).

Knows nothing of run folders.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles
from headcount.analysis.imported import figures_of
from headcount.imports import Held, peak_in_flight
from headcount.records import Request
from headcount.stats.proportion import smallest_telling_n

__all__ = ["read"]

Metrics = Mapping[str, Mapping[str, Any]]
"""Name → ``unit``, ``avg``, ``p50`` …"""

_IN_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def read(path: Path, raw: bytes) -> list[Held] | None:
    """One level; None for another file."""
    if raw.startswith(b"Metric,"):
        return [_of_figures(_from_csv(raw), None, None)]
    lines = raw.splitlines()
    first = _decoded(lines[0]) if lines else None
    if isinstance(first, dict) and "metadata" in first and "metrics" in first:
        return [_of_records([record for line in lines if isinstance(record := _decoded(line), dict)], path)]
    plain = _decoded(raw)
    if not isinstance(plain, dict) or not isinstance(plain.get("request_latency"), dict):
        return None
    return [_of_figures(plain, _streams(plain.get("input_config")), _model(plain.get("input_config")))]


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _from_csv(raw: bytes) -> dict[str, dict[str, Any]]:
    """Two tables after each other: metrics with percentiles, and single values."""
    found: dict[str, dict[str, Any]] = {}
    heading: list[str] = []
    for row in csv.reader(io.StringIO(raw.decode("utf-8", "replace"))):
        if not row or row[0] in ("Metric", "Endpoint"):
            heading = row
            continue
        if not heading or heading[0] != "Metric":
            continue
        named = re.match(r"(.*?)(?: \(([^)]*)\))?$", row[0])
        name = (named[1] if named else row[0]).lower().replace(" ", "_")
        values = {
            "avg" if key == "Value" else key: float(cell)
            for key, cell in zip(heading[1:], row[1:], strict=False)
            if cell
        }
        found[name] = {"unit": named[2] if named else "", **values}
    return found


def _of_figures(metrics: Metrics, streams: int | None, model: str | None) -> Held:
    length_s = _seconds(metrics, "benchmark_duration", "avg") or 60.0
    return Held(
        users=streams,
        length_s=length_s,
        figures=_figures(metrics, streams or 1, length_s),
        model=model,
        engine="openai",
    )


def _figures(metrics: Metrics, users: int, length_s: float) -> LevelSummary:
    good, failed = int(_figure(metrics, "request_count") or 0), int(_figure(metrics, "error_request_count") or 0)
    speed = _quantiles(metrics, "inter_token_latency", good)
    return figures_of(
        0,
        users,
        good + failed,
        0.0,
        length_s,
        n_errors=failed,
        ttft_s=_quantiles(metrics, "time_to_first_token", good),
        tpot_s=speed,
        e2e_s=_quantiles(metrics, "request_latency", good),
        output_tokens_per_s=_figure(metrics, "output_token_throughput"),
        requests_per_s=_figure(metrics, "request_throughput"),
        user_tokens_per_s=_figure(metrics, "output_token_throughput_per_user", "p50")
        or (1.0 / speed.p50 if speed.p50 else None),
        prompt_tokens_mean=_figure(metrics, "input_sequence_length"),
        output_tokens_mean=_figure(metrics, "output_sequence_length"),
    )


def _figure(metrics: Metrics, name: str, statistic: str = "avg") -> float | None:
    value = (metrics.get(name) or {}).get(statistic)
    return float(value) if value is not None else None


def _seconds(metrics: Metrics, name: str, statistic: str) -> float | None:
    value = _figure(metrics, name, statistic)
    return None if value is None else value * _IN_SECONDS[str(metrics[name].get("unit", "ms")).lower()]


def _quantiles(metrics: Metrics, name: str, n: int) -> Quantiles:
    p50, p95, most = (_seconds(metrics, name, statistic) for statistic in ("p50", "p95", "max"))
    if p50 is None or not n:
        return Quantiles(0, None, None, None)
    return Quantiles(n, p50, p95, most, n >= smallest_telling_n(0.05))


# --- every request ----------------------------------------------------------------------------


def _of_records(records: list[dict[str, Any]], path: Path) -> Held:
    """The streams and the model stand in the summary beside it."""
    profiled = [one for one in records if one["metadata"].get("benchmark_phase", "profiling") == "profiling"]
    if not profiled:
        raise ValueError("no record of the profiling phase")
    began_at_s = min(_at_s(one, "start") for one in profiled)
    requests = tuple(_request(one, began_at_s) for one in profiled)
    beside = path.with_name(path.stem + "_aiperf.json")
    config = (_decoded(beside.read_bytes()) or {}).get("input_config") if beside.is_file() else None
    return Held(
        users=_streams(config) or peak_in_flight(requests),
        length_s=max(request.ended_at_s for request in requests),
        requests=requests,
        model=_model(config),
        engine="openai",
        started_utc=datetime.fromtimestamp(began_at_s, UTC).isoformat(timespec="seconds"),
    )


def _at_s(one: dict[str, Any], what: str) -> float:
    """An instant of the epoch, told in nanoseconds."""
    return float(one["metadata"][f"request_{what}_ns"]) / 1e9


def _request(one: dict[str, Any], began_at_s: float) -> Request:
    about, metrics, error = one["metadata"], one.get("metrics") or {}, one.get("error")
    start_s, end_s = _at_s(one, "start") - began_at_s, _at_s(one, "end") - began_at_s

    def told(name: str) -> Any:
        return (metrics.get(name) or {}).get("value")

    scale = _IN_SECONDS.get(str((metrics.get("time_to_first_token") or {}).get("unit", "ms")), 1e-3)
    wait, gaps, output = told("time_to_first_token"), told("inter_chunk_latency"), told("output_sequence_length")
    chunks: list[float] = []
    if wait is not None and error is None:
        first_s = start_s + float(wait) * scale
        chunks = list(itertools.accumulate((float(gap) * scale for gap in gaps or ()), initial=first_s))
        if len(chunks) == 1 and end_s > first_s:
            chunks.append(end_s)
    return Request(
        level=0,
        person=1,
        conversation=0,
        turn=int(about.get("turn_index") or 0) + 1,
        scheduled_at_s=start_s,
        ended_at_s=max([end_s, *chunks[-1:]]),
        streamed=wait is not None or error is not None,
        chunk_at_s=chunks,
        prompt_tokens=_whole(told("input_sequence_length")),
        output_tokens=_whole(output),
        token_source="client" if output is not None else "unknown",
        coalesced=not gaps,
        status=error.get("code") if error else None,
        error=_error(error, bool(about.get("was_cancelled"))),
        error_text=str(error.get("message", ""))[:300] if error else None,
    )


def _error(error: Mapping[str, Any] | None, cancelled: bool) -> str | None:
    if error is None:
        return None
    if cancelled:
        return "cut"
    code = error.get("code")
    return f"http_{code}" if isinstance(code, int) and 400 <= code < 600 else "server_error"


def _whole(value: Any) -> int | None:
    return int(value) if value is not None else None


def _streams(config: Any) -> int | None:
    """The concurrency, wherever this version of the tool writes it down."""
    found = next(_named(config, "concurrency"), None)
    return found if isinstance(found, int) and found > 0 else None


def _model(config: Any) -> str | None:
    names = next(_named(config, "model_names"), None)
    return str(names[0]) if isinstance(names, list) and names else None


def _named(tree: Any, key: str) -> Iterator[Any]:
    """Values of a key anywhere in a tree, the outermost first; unknown ones left out."""
    level = [tree]
    while level:
        for node in level:
            if isinstance(node, dict) and node.get(key) is not None:
                yield node[key]
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
