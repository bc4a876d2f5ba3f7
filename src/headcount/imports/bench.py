"""Results of ``vllm bench serve`` (a JSON file) and ``sglang.bench_serving`` (JSON lines, a run a line).

Both tell lists of lengths, first-token times and gaps when asked for details, else medians and percentiles in
milliseconds. Knows nothing of run folders.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles
from headcount.analysis.imported import figures_of
from headcount.imports import Held, peak_in_flight
from headcount.records import Request
from headcount.stats.proportion import smallest_telling_n

__all__ = ["read_sglang", "read_vllm"]

_ALL_AT_ONCE = "starts were not saved: each request is taken to begin when one before it had ended"


def read_vllm(_path: Path, raw: bytes) -> list[Held] | None:
    """One level; None for another file."""
    plain = _object(raw)
    if plain is None or "request_throughput" not in plain or "model_id" not in plain:
        return None
    return [_held(plain, plain.get("model_id"), str(plain.get("backend", "vllm")))]


def read_sglang(_path: Path, raw: bytes) -> list[Held] | None:
    """A level for each line; None for another file."""
    lines = [_object(line) for line in raw.splitlines() if line.strip()]
    if not lines or any(line is None or "output_throughput" not in line or "backend" not in line for line in lines):
        return None
    return [
        _held(line, line.get("model_id") or line.get("model"), str(line["backend"]))
        for line in lines
        if line is not None
    ]


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        plain = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return plain if isinstance(plain, dict) else None


def _held(plain: dict[str, Any], model: str | None, engine: str) -> Held:
    duration_s = float(plain["duration"])
    rate = plain.get("request_rate")
    rate_per_s = float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else None
    streams = plain.get("max_concurrency")
    streams = int(streams) if isinstance(streams, int) and streams > 0 else None
    requests, notes = _requests(plain, streams, rate_per_s)
    if requests and streams is None:
        streams = peak_in_flight(requests)
    if streams is None:
        most = plain.get("max_concurrent_requests")
        streams = int(most) if most else None
    return Held(
        users=streams,
        length_s=max([duration_s, *(request.ended_at_s for request in requests)]),
        requests=requests,
        figures=None if requests else _figures(plain, streams or 1, duration_s),
        rate_per_s=rate_per_s,
        model=model,
        engine=engine,
        started_utc=_moment(plain.get("date")),
        notes=notes,
    )


def _requests(
    plain: dict[str, Any], streams: int | None, rate_per_s: float | None
) -> tuple[tuple[Request, ...], tuple[str, ...]]:
    """Every request where lists were saved, else none."""
    waits, gaps = plain.get("ttfts"), plain.get("itls")
    if not waits or not gaps:
        return (), ()
    n = len(waits)
    errors = plain.get("errors") or [""] * n
    prompts, outputs = plain.get("input_lens") or [None] * n, plain.get("output_lens") or [None] * n
    times = [(float(wait), [float(gap) for gap in ones]) for wait, ones in zip(waits, gaps, strict=True)]
    starts, notes = _starts(plain.get("start_times"), [wait + sum(ones) for wait, ones in times], streams, rate_per_s)
    made = []
    for start_s, (wait_s, ones), error, prompt, output in zip(starts, times, errors, prompts, outputs, strict=True):
        chunks = list(itertools.accumulate(ones, initial=start_s + wait_s)) if not error else []
        made.append(
            Request(
                level=0,
                person=1,
                conversation=0,
                turn=1,
                scheduled_at_s=start_s,
                ended_at_s=chunks[-1] if chunks else start_s + wait_s + sum(ones),
                chunk_at_s=chunks,
                prompt_tokens=prompt,
                output_tokens=None if error else output,
                token_source="unknown" if error else "server",
                error="server_error" if error else None,
                error_text=str(error)[-300:] if error else None,
            )
        )
    return tuple(made), notes


def _starts(
    told: Sequence[float] | None, lengths_s: Sequence[float], streams: int | None, rate_per_s: float | None
) -> tuple[list[float], tuple[str, ...]]:
    """When each request began, from the first one on; made up from the streams or the rate where it was not saved."""
    if told and len(told) == len(lengths_s):
        return [float(at_s) - min(map(float, told)) for at_s in told], ()
    if rate_per_s is not None and streams is None:
        return [n / rate_per_s for n in range(len(lengths_s))], ("starts were not saved: evenly spaced ones are taken",)
    free = [0.0] * (streams or len(lengths_s))
    starts = []
    for length_s in lengths_s:
        start_s = heapq.heappop(free)
        starts.append(start_s)
        heapq.heappush(free, start_s + length_s)
    return starts, (_ALL_AT_ONCE,)


def _figures(plain: dict[str, Any], users: int, duration_s: float) -> LevelSummary:
    completed, failed = int(plain.get("completed", 0)), int(plain.get("failed") or 0)
    tokens = plain.get("total_output_tokens")
    whole = _quantiles(plain, ("e2el", "e2e_latency"), completed)
    per_token = _quantiles(plain, ("tpot",), completed)
    return figures_of(
        0,
        users,
        completed + failed,
        0.0,
        duration_s,
        n_errors=failed,
        ttft_s=_quantiles(plain, ("ttft",), completed),
        tpot_s=per_token,
        e2e_s=whole,
        output_tokens_per_s=plain.get("output_throughput"),
        requests_per_s=plain.get("request_throughput"),
        user_tokens_per_s=1.0 / per_token.p50 if per_token.p50 else None,
        in_flight_mean=plain.get("concurrency"),
        prompt_tokens_mean=plain["total_input_tokens"] / completed
        if completed and "total_input_tokens" in plain
        else None,
        output_tokens_mean=tokens / completed if completed and tokens else None,
    )


def _quantiles(plain: dict[str, Any], names: Sequence[str], n: int) -> Quantiles:
    """Milliseconds to seconds; the tools write ``median_``, and the percentiles they were asked for."""

    def told(statistic: str) -> float | None:
        found = (plain.get(f"{statistic}_{name}_ms") for name in names)
        return next((float(value) / 1000.0 for value in found if value is not None), None)

    p50 = told("median") if told("median") is not None else told("p50")
    if p50 is None or n == 0:
        return Quantiles(0, None, None, None)
    return Quantiles(n, p50, told("p95"), told("max"), n >= smallest_telling_n(0.05))


def _moment(date: object) -> str:
    """``20251130-101010``, in the zone of whoever ran it, which is not told: taken for UTC."""
    try:
        return datetime.strptime(str(date), "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return ""
