"""What one level showed: its facts in, a ``LevelSummary`` out. Knows nothing of other levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from headcount.analysis.after_search import BURST, SOAK, burst_of, of_burst
from headcount.analysis.cautions import cautions_of
from headcount.analysis.conclusions import AdapterFigures, Caution, Growth, LevelSummary, Quantiles, Soak
from headcount.analysis.lengths import Lengths, lengths_of, not_as_planned
from headcount.analysis.level_evidence import LevelEvidence
from headcount.analysis.level_test import Window, decide, steady_window, turn_cycle_s
from headcount.analysis.machine import Machine
from headcount.analysis.machine_cautions import machine_cautions
from headcount.analysis.rates import growth_of
from headcount.analysis.soak import late_part, soak_of
from headcount.analysis.table import Floats, RequestTable, Rows
from headcount.records import Level, RunFacts, Sample
from headcount.slo import Clause
from headcount.stats.proportion import smallest_telling_n
from headcount.stats.quantile import quantile

__all__ = ["summarize"]

_NOTHING = Quantiles(0, None, None, None)


def summarize(
    level: Level,
    table: RequestTable,
    samples: Sequence[Sample],
    slo: tuple[Clause, ...],
    *,
    ended_at_s: float | None = None,
    about: RunFacts | None = None,
) -> LevelSummary:
    """Summarise a level from its requests (``table`` holds no others) and the samples taken meanwhile; ``about`` tells
    which server and GPUs those are samples of.

    Works while the level runs: ``ended_at_s`` is then now. ``decision`` says whether it may stop. Counted are the
    requests that ended inside the steady window; those cut at its end count against a clause whose bound they
    had already passed, and never for one.
    """
    until_s = _until_s(level, table, ended_at_s)
    rows = table.rows()
    window, inside, steady = _steady(level, rows, until_s)
    window, inside, soak = _soaked(level, rows, inside, window, samples, about)
    decision, results = decide(level, inside, _cut_late(rows, window), window, slo)
    facts = _facts(level, rows, inside, window)
    machine = _machine(level, inside, window, samples, facts, about)
    lengths = lengths_of(rows, about.template_tokens if about is not None else None)
    evidence = LevelEvidence(level, rows, inside, window, tuple(samples), slo, table.first_error)
    cautions = (
        *cautions_of(evidence),
        *_of_level(not_as_planned(lengths), level),
        *machine_cautions(machine),
    )
    cautions = of_burst(cautions) if level.purpose == BURST else cautions
    if any(caution.fatal for caution in cautions):
        decision = "void"
    return LevelSummary(
        index=level.index,
        users=level.users,
        purpose=level.purpose,
        condition=level.condition,
        decision=decision,
        clauses=results,
        cautions=cautions,
        n_requests=len(inside),
        n_errors=int((~inside.good).sum()),
        error_kinds=_error_kinds(inside),
        first_error=table.first_error,
        began_at_s=level.began_at_s,
        steady_at_s=window.began_at_s if steady else None,
        ended_at_s=until_s,
        window_s=window.length_s,
        arrivals=level.arrivals,
        rate_per_s=level.rate_per_s,
        growth=_growth(level, rows, samples, until_s),
        **facts,
        **_server_facts(machine),
        **_length_facts(lengths),
        inside_users_mean=_mean(evidence.total("client_inside_users")),
        adapters=_by_adapter(table.adapters, inside),
        burst=burst_of(level, rows, until_s, cautions) if level.purpose == BURST else None,
        soak=soak,
    )


def _steady(level: Level, rows: Rows, until_s: float) -> tuple[Window, Rows, bool]:
    """The steady window, what ended in it, and whether there was one at all."""
    window = steady_window(level, rows, until_s)
    if window is None:
        nothing = rows.where(np.zeros(len(rows), bool))
        return Window(until_s, until_s, turn_cycle_s(rows) or 0.0), nothing, False
    ended = ~rows.cut & (rows.ended_at_s <= until_s)
    return window, rows.where(ended & (rows.ended_at_s > window.began_at_s)), True


def _growth(level: Level, rows: Rows, samples: Sequence[Sample], until_s: float) -> Growth | None:
    """Of the requests that are unanswered, in all load processes together; only of a search for a rate, whose levels
    say when they are full."""
    if level.rate_per_s is None or level.purpose == "fixed":
        return None
    full_at_s = level.started_at_s or level.began_at_s
    whole = Window(full_at_s, until_s, 0.0)
    seen = LevelEvidence(level, rows, rows, whole, tuple(samples), (), None)
    found = growth_of(level, rows, seen.total("client_in_flight_requests"), until_s)
    if level.ended != "decided" or (found is not None and found.decision == "grows"):
        return found
    # It was ended early all the same: more people were inside than may be.
    return Growth("grows", found.backlog_fraction if found else 0.0, found.chance_fraction if found else 1.0)


def _soaked(
    level: Level, rows: Rows, inside: Rows, window: Window, samples: Sequence[Sample], about: RunFacts | None
) -> tuple[Window, Rows, Soak | None]:
    """Of a soak: the part at its end that is judged, and how it came to that; other levels as they are.

    Looked at is all that came after one turn cycle: a server that slows down must not pass for one that settles.
    """
    if level.purpose != SOAK or len(inside) == 0:
        return window, inside, None
    full_at_s = (level.started_at_s or level.began_at_s) + window.cycle_s
    whole = msgspec.structs.replace(window, began_at_s=min(window.began_at_s, full_at_s))
    gpus = about.gpus if about is not None else ()
    machine = Machine(level.index, whole.began_at_s, whole.ended_at_s, tuple(samples), gpus=gpus)
    late, ended = late_part(whole, machine), rows.where(~rows.cut & (rows.ended_at_s <= window.ended_at_s))
    soak = soak_of(level, ended.where(ended.ended_at_s > whole.began_at_s), machine)
    return late, ended.where(ended.ended_at_s > late.began_at_s), soak


def _machine(
    level: Level,
    inside: Rows,
    window: Window,
    samples: Sequence[Sample],
    facts: dict[str, Any],
    about: RunFacts | None,
) -> Machine:
    """What was sampled of the server and its GPUs while the window was open."""
    ttft_s, told_ttft_s = _known(inside.ttft_s), _known(inside.told_ttft_s)
    return Machine(
        level.index,
        window.began_at_s,
        window.ended_at_s,
        tuple(samples),
        in_flight_mean=facts["in_flight_mean"],
        ttft_mean_s=_mean(ttft_s),
        told_ttft_mean_s=_mean(told_ttft_s),
        gpus=about.gpus if about is not None else (),
        engine=about.engine if about is not None else None,
    )


def _of_level(caution: Caution | None, level: Level) -> tuple[Caution, ...]:
    return () if caution is None else (msgspec.structs.replace(caution, level=level.index),)


def _until_s(level: Level, table: RequestTable, ended_at_s: float | None) -> float:
    """When the level stopped sending; now while it runs; its last fact when neither is known."""
    if level.stopped_at_s is not None:
        return level.stopped_at_s
    if ended_at_s is not None:
        return ended_at_s
    ends_at_s = table.rows().ended_at_s
    return float(ends_at_s[-1]) if len(ends_at_s) else level.began_at_s


def _cut_late(rows: Rows, window: Window) -> Rows:
    """Requests that were cut at the level's end: what is known of the slow ones."""
    return rows.where(rows.cut & (rows.ended_at_s > window.began_at_s))


def _facts(level: Level, rows: Rows, inside: Rows, window: Window) -> dict[str, Any]:
    """Everything that is a mean, a rate or a quantile over the steady window."""
    good = inside.where(inside.good)
    length_s, n = window.length_s, len(inside)
    rate = n / length_s if length_s > 0 and n else None
    cycle_s = turn_cycle_s(inside if n else rows)
    tokens = good.output_tokens[good.output_tokens >= 0]
    prompts = good.prompt_tokens[good.prompt_tokens >= 0]
    tpot_s = _known(good.tpot_s)
    delays_s = _known(inside.send_delay_s)
    before = rows.where(~rows.cut & (rows.scheduled_at_s < window.began_at_s))
    first = _known(before.ttft_s) if before.streamed.any() else _known(before.e2e_s)
    return {
        "ttft_s": _quantiles(_waits(inside, inside.ttft_s)),
        "tpot_s": _quantiles(tpot_s),
        "e2e_s": _quantiles(_waits(inside, inside.e2e_s)),
        "max_gap_s": _quantiles(_known(inside.max_gap_s)),
        "output_tokens_per_s": float(tokens.sum()) / length_s if length_s > 0 and len(tokens) else None,
        "requests_per_s": rate,
        "user_tokens_per_s": float(np.median(1.0 / tpot_s[tpot_s > 0])) if (tpot_s > 0).any() else None,
        "in_flight_mean": _in_flight(level, rows, inside, window),
        "prompt_tokens_mean": _mean(prompts),
        "output_tokens_mean": _mean(tokens),
        "tokens_estimated": bool(inside.estimated.any()),
        "goodput_per_s": _goodput(inside, window),
        "littles_users": rate * cycle_s if rate is not None and cycle_s is not None else None,
        "send_delay_p99_s": quantile(delays_s, 0.99),
        "ttft_by_turn_s": _ttft_by_turn(inside),
        "turn_cycle_s": cycle_s,
        "first_requests": _quantiles(first) if len(first) else None,
    }


def _length_facts(lengths: Lengths) -> dict[str, Any]:
    return {
        "prompt_of_plan_fraction": lengths.prompt_of_plan_fraction,
        "output_of_asked_fraction": lengths.output_of_asked_fraction,
    }


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _waits(inside: Rows, values: Floats) -> Floats:
    """Known values; a request that ran into a time-out waited longer than anybody: it enters as infinite."""
    timed_out = inside.of_kind("timeout") & np.isnan(values)
    return np.concatenate([_known(values), np.full(int(timed_out.sum()), np.inf, values.dtype)])


def _quantiles(values: Floats) -> Quantiles:
    n = len(values)
    if n == 0:
        return _NOTHING
    return Quantiles(
        n, quantile(values, 0.5), quantile(values, 0.95), quantile(values, 1.0), n >= smallest_telling_n(0.05)
    )


def _in_flight(level: Level, rows: Rows, inside: Rows, window: Window) -> float | None:
    """Mean number in flight: from the overlap of every request with the window once the level is over; before,
    when the unfinished ones are not known yet, by Little's law."""
    if window.length_s <= 0.0 or len(inside) == 0:
        return None
    if level.stopped_at_s is None:
        return float(inside.age_s.sum()) / window.length_s
    overlap_s = np.minimum(rows.ended_at_s, window.ended_at_s) - np.maximum(rows.scheduled_at_s, window.began_at_s)
    return float(np.maximum(overlap_s, 0.0).sum()) / window.length_s


def _goodput(inside: Rows, window: Window) -> float | None:
    if window.length_s <= 0.0 or len(inside) == 0:
        return None
    bad = ~inside.good
    for place in range(inside.clauses):
        bad |= inside.missed(place)
    return float((~bad).sum()) / window.length_s


def _ttft_by_turn(inside: Rows) -> dict[int, float]:
    known = inside.where(~np.isnan(inside.ttft_s))
    return {int(turn): float(np.median(known.ttft_s[known.turn == turn])) for turn in np.unique(known.turn)}


def _by_adapter(names: Sequence[str], inside: Rows) -> tuple[AdapterFigures, ...]:
    """Apart by adapter; nothing where all requests went to the bare model."""
    if len(names) < 2:
        return ()
    found = []
    for place, name in enumerate(names):
        ttft_s = inside.ttft_s[inside.adapter == place]
        known = _known(ttft_s)
        if len(ttft_s):
            found.append(AdapterFigures(name, len(ttft_s), quantile(known, 0.5), quantile(known, 0.95)))
    return tuple(found)


def _error_kinds(inside: Rows) -> dict[str, int]:
    counts = np.bincount(inside.error, minlength=len(inside.kinds))
    return {kind: int(count) for kind, count in zip(inside.kinds, counts, strict=True) if kind and count}


def _server_facts(machine: Machine) -> dict[str, Any]:
    """What was sampled of the server, its GPUs and our own loop."""
    waiting = machine.values("server_waiting_requests")
    return {
        "server_running_max": max(machine.values("server_running_requests"), default=None),
        "server_waiting_mean": float(np.mean(waiting)) if waiting else None,
        "kv_used_max_fraction": max(machine.values("server_kv_used_fraction"), default=None),
        "adapters_in_use_max": max(machine.values("server_adapters_in_use"), default=None),
        "cache_hit_fraction": machine.share("server_cache_hit_tokens_total", "server_cache_query_tokens_total"),
        "ttft_mean_s": machine.ttft_mean_s,
        "server_ttft_mean_s": machine.server_ttft_mean_s,
        "loop_lag_p99_s": quantile(np.asarray(machine.values("client_loop_lag_s")), 0.99),
        "gpus": machine.gpu_figures(),
    }
