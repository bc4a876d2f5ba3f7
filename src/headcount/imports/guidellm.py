"""Results of guidellm: one JSON file, a benchmark for each strategy it tried. Knows nothing of run folders."""

from __future__ import annotations

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

_STATUSES = ("successful", "incomplete", "errored")


def read(_path: Path, raw: bytes) -> list[Held] | None:
    """A level for each benchmark; None for another file."""
    try:
        plain = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(plain, dict) or not isinstance(plain.get("benchmarks"), list):
        return None
    return [_held(benchmark, _model(plain, benchmark)) for benchmark in plain["benchmarks"]]


def _held(benchmark: dict[str, Any], model: str | None) -> Held:
    strategy = (benchmark.get("config") or benchmark.get("args") or {}).get("strategy") or {}
    began, ended = float(benchmark["start_time"]), float(benchmark["end_time"])
    requests = _requests(benchmark.get("requests") or {})
    rate = strategy.get("rate") if strategy.get("type_") in ("constant", "poisson", "async") else None
    streams = {"synchronous": 1}.get(strategy.get("type_", "")) or strategy.get("streams")
    if requests and streams is None:
        streams = peak_in_flight(requests)
    mean = _figure(benchmark, "request_concurrency", "mean")
    if streams is None and mean is not None:
        streams = max(1, round(mean))
    return Held(
        users=streams,
        length_s=max([ended - began, *(request.ended_at_s for request in requests)]),
        requests=requests,
        figures=None if requests else _figures(benchmark, streams or 1, ended - began),
        rate_per_s=float(rate) if rate else None,
        model=model,
        engine="openai",
        started_utc=datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
    )


def _model(plain: dict[str, Any], benchmark: dict[str, Any]) -> str | None:
    """Wherever this version of the tool says it."""
    args = plain.get("args") or {}
    backend = (benchmark.get("config") or {}).get("backend") or (benchmark.get("worker") or {})
    found = (args.get("model"), backend.get("model"), backend.get("backend_model"))
    return next((model for model in found if isinstance(model, str)), None)


def _requests(by_status: dict[str, Any]) -> tuple[Request, ...]:
    told = [(status, one) for status in _STATUSES for one in by_status.get(status) or []]
    began = min((start for _, one in told if (start := _start(one)) is not None), default=0.0)
    return tuple(made for status, one in told if (made := _request(status, one, began)) is not None)


def _timings(one: dict[str, Any]) -> dict[str, Any]:
    info = one.get("info") or one.get("scheduler_info") or {}
    timings: dict[str, Any] = info.get("timings") or info.get("request_timings") or {}
    return timings


def _start(one: dict[str, Any]) -> float | None:
    timings = _timings(one)
    found = (one.get("request_start_time"), one.get("start_time"), timings.get("request_start"))
    return next((float(at_s) for at_s in found if at_s is not None), None)


def _request(status: str, one: dict[str, Any], began: float) -> Request | None:
    """One request; None for one that never began."""
    start, timings = _start(one), _timings(one)
    if start is None:
        return None
    ends = (one.get("request_end_time"), one.get("end_time"), timings.get("request_end"), timings.get("resolve_end"))
    end = next((float(at_s) for at_s in ends if at_s is not None), start)
    first, last = timings.get("first_token_iteration"), timings.get("last_token_iteration")
    wait = one.get("time_to_first_token_ms")
    if first is None and wait is not None:
        first, last = start + wait / 1000.0, end
    chunks = [] if first is None or status != "successful" else _chunks(first, last or end, timings, one)
    error = {"successful": None, "incomplete": "cut", "errored": "server_error"}[status]
    output = one.get("output_tokens")
    return Request(
        level=0,
        person=1,
        conversation=0,
        turn=1,
        scheduled_at_s=start - began,
        ended_at_s=max(end, *chunks[-1:], start) - began,
        streamed=first is not None or status != "successful",
        chunk_at_s=[at_s - began for at_s in chunks],
        prompt_tokens=one.get("prompt_tokens"),
        output_tokens=int(output) if output is not None else None,
        token_source="server" if output is not None else "unknown",
        coalesced=True,
        error=error,
        error_text=str(one.get("error") or (one.get("info") or {}).get("error") or "")[:300] or None,
    )


def _chunks(first: float, last: float, timings: dict[str, Any], one: dict[str, Any]) -> list[float]:
    """First and last output are told, and how many there were: those between are taken to lie evenly."""
    n = int(timings.get("token_iterations") or one.get("output_tokens") or 2)
    if n < 2 or last <= first:
        return [first]
    return [first + (last - first) * place / (n - 1) for place in range(n)]


def _figure(benchmark: dict[str, Any], name: str, statistic: str) -> float | None:
    of_status = (benchmark.get("metrics") or {}).get(name) or {}
    told = of_status.get("successful") or of_status.get("total") or {}
    value = told.get(statistic, (told.get("percentiles") or {}).get(statistic))
    return float(value) if value is not None else None


def _quantiles(benchmark: dict[str, Any], name: str, n: int) -> Quantiles:
    scale = 0.001 if name.endswith("_ms") else 1.0
    p50, p95, most = (_figure(benchmark, name, statistic) for statistic in ("median", "p95", "max"))
    if p50 is None or not n:
        return Quantiles(0, None, None, None)
    p95, most = (None if value is None else value * scale for value in (p95, most))
    return Quantiles(n, p50 * scale, p95, most, n >= smallest_telling_n(0.05))


def _figures(benchmark: dict[str, Any], users: int, length_s: float) -> LevelSummary:
    totals = (benchmark.get("metrics") or {}).get("request_totals") or {}
    good, failed = int(totals.get("successful") or 0), int(totals.get("errored") or 0)
    good = good or int(_figure(benchmark, "request_latency", "count") or 0)
    speed = _quantiles(benchmark, "inter_token_latency_ms", good)
    return figures_of(
        0,
        users,
        good + failed,
        0.0,
        length_s,
        n_errors=failed,
        ttft_s=_quantiles(benchmark, "time_to_first_token_ms", good),
        tpot_s=speed,
        e2e_s=_quantiles(benchmark, "request_latency", good),
        output_tokens_per_s=_figure(benchmark, "output_tokens_per_second", "mean"),
        requests_per_s=_figure(benchmark, "requests_per_second", "mean"),
        user_tokens_per_s=1.0 / speed.p50 if speed.p50 else None,
        in_flight_mean=_figure(benchmark, "request_concurrency", "mean"),
        prompt_tokens_mean=_figure(benchmark, "prompt_token_count", "mean"),
        output_tokens_mean=_figure(benchmark, "output_token_count", "mean"),
    )
