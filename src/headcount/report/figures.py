"""The data of the plots: what stands on which axis, from levels and samples. One function a plot.

Gives plain JSON for the page's script, a few hundred points a line however long the run was. Knows nothing of
HTML and of how a line is drawn.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

import numpy as np

from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.records import Gpu, RunFacts, Sample
from headcount.report.format import clean
from headcount.report.outline import promise
from headcount.report.rows import Row, level_rows
from headcount.report.words import Words, people
from headcount.slo import Clause, parse_slo

__all__ = ["Figure", "Line", "Rule", "Span", "people_figures", "time_figures"]

_MOST_POINTS = 400
"""Of one line over time; a sample a second for an hour would be nine times as many."""


class Line(TypedDict):
    """One line of a plot."""

    label: str
    values: list[float | None]
    unit: str
    """``s``, ``fraction``, or what stands after the number."""
    colour: str
    """A colour variable of the page's style sheet, without its dashes."""
    right: bool
    """On the right axis, which has its own unit."""
    points_only: bool


class Rule(TypedDict):
    """A straight line that marks a bound."""

    across: bool
    """True: horizontal, on the left axis; False: vertical."""
    at: float
    label: str
    right: bool


class Span(TypedDict):
    """A stretch of the x axis that is shaded."""

    begin: float
    end: float
    label: str


class Figure(TypedDict):
    """One plot."""

    key: str
    title: str
    caption: str
    """What to see in it."""
    x_label: str
    x_unit: str
    x: list[float]
    lines: list[Line]
    rules: list[Rule]
    spans: list[Span]
    band: list[int]
    """Numbers of the two lines between which the plot is shaded; empty for none."""
    names: list[str]
    """What each point is called; empty where x says it."""
    can_log: bool
    view_until: float
    """Where the x axis ends at first; what lies beyond is seen on a double click. 0 for all."""


def people_figures(verdict: Verdict, facts: RunFacts, _: Words) -> list[Figure]:
    """The plots against people: latency, misses, throughput, latency over throughput, TTFT by turn."""
    rows = [row for row in level_rows(verdict) if row.decision != "void"] or level_rows(verdict)
    slo = parse_slo(facts.slo)
    made = (
        _latency(rows, verdict, slo, _),
        _misses(rows, verdict, _),
        _throughput(rows, verdict, _),
        _balance(rows, slo, _),
        _turns(rows, verdict, _),
    )
    return [figure for figure in made if figure is not None]


def time_figures(verdict: Verdict, facts: RunFacts, samples: Callable[[], Iterable[Sample]], _: Words) -> list[Figure]:
    """The plots over the run's time: the server's queue and memory, and each GPU."""
    wanted = {name for names in _OVER_TIME for name in names}
    series: dict[tuple[str, str], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for sample in samples():
        if sample.name in wanted:
            at_s, values = series[sample.name, sample.of]
            at_s.append(sample.at_s)
            values.append(sample.value)
    thinned = {key: _thin(*points) for key, points in series.items()}
    figures = [_server(thinned, verdict, _)]
    for number, gpu in enumerate(facts.gpus):
        figures.append(_heat(f"heat-{number}", thinned, verdict, gpu, _))
        figures.append(_clocks(f"clocks-{number}", thinned, verdict, gpu, _))
    return [figure for figure in figures if figure is not None]


_SERVER = ("server_running_requests", "server_waiting_requests", "server_kv_used_fraction")
_HEAT = ("gpu_temperature_c", "gpu_power_w")
_CLOCKS = ("gpu_sm_clock_hz", "gpu_utilization_fraction")
_OVER_TIME = (_SERVER, _HEAT, _CLOCKS)

_Thinned = dict[tuple[str, str], dict[float, float]]
"""(sample's name, of what) → instant → value."""


def _figure(key: str, title: str, caption: str, x_label: str, x_unit: str, x: Sequence[float]) -> Figure:
    return Figure(
        key=key, title=title, caption=caption, x_label=x_label, x_unit=x_unit, x=list(x),
        lines=[], rules=[], spans=[], band=[], names=[], can_log=False, view_until=0.0,
    )  # fmt: skip


def _line(label: str, values: Iterable[float | None], unit: str, colour: str, *, right: bool = False) -> Line:
    rounded = [None if value is None or not np.isfinite(value) else float(f"{value:.5g}") for value in values]
    return Line(label=label, values=rounded, unit=unit, colour=colour, right=right, points_only=False)


def _by_people(key: str, title: str, caption: str, rows: list[Row], verdict: Verdict, _: Words) -> Figure:
    """A plot against people, the limit marked and its interval shaded."""
    figure = _figure(key, title, caption, _("people"), "", sorted({float(row.users) for row in rows}))
    if verdict.limit_users:
        label = _("limit {n}").format(n=verdict.limit_users)
        figure["rules"].append(Rule(across=False, at=verdict.limit_users, label=label, right=False))
        # A search tries numbers far beyond the limit; what matters lies around it.
        figure["view_until"] = 2.0 * max(verdict.limit_users, verdict.fails_at_users or 0)
    if verdict.limit_interval_users is not None:
        low, high = verdict.limit_interval_users
        figure["spans"].append(Span(begin=low, end=high, label=_("95 % interval")))
    return figure


def _conditions(rows: list[Row]) -> list[str]:
    return sorted({row.condition for row in rows})


def _values(
    figure: Figure, rows: list[Row], condition: str, value: Callable[[Row], float | None]
) -> list[float | None]:
    """One value for each x, None where the condition was not held with so many people."""
    found = {float(row.users): value(row) for row in rows if row.condition == condition}
    return [found.get(users) for users in figure["x"]]


def _latency(rows: list[Row], verdict: Verdict, slo: tuple[Clause, ...], _: Words) -> Figure | None:
    if not any(row.latency_s.n for row in rows):
        return None
    whole = all(row.whole for row in rows)
    title = _("Wait for the whole answer") if whole else _("Wait for the first token (TTFT)")
    caption = _(
        "How long people wait after pressing enter. The dashed line is the promise: "
        "the limit lies where p95 crosses it."
    )
    figure = _by_people("latency", title, caption, rows, verdict, _)
    conditions = _conditions(rows)
    for number, condition in enumerate(conditions):
        several = len(conditions) > 1
        name = f" {clean(condition, 40)}" if several else ""
        colours = [f"c{number % 6 + 1}"] * 3 if several else ["c1", "c2", "c3"]
        shown = ("p95",) if several else ("p50", "p95", "max")
        for quantile, colour in zip(shown, colours, strict=False):
            values = _values(figure, rows, condition, lambda row, q=quantile: getattr(row.latency_s, q))  # type: ignore[misc]
            figure["lines"].append(_line(f"{_('max') if quantile == 'max' else quantile}{name}", values, "s", colour))
    metric = "e2e" if whole else "ttft"
    figure["rules"] += [
        Rule(across=True, at=clause.bound, label=promise(clause.text, _), right=False)
        for clause in slo
        if clause.metric == metric
    ]
    figure["can_log"] = True
    return figure


def _misses(rows: list[Row], verdict: Verdict, _: Words) -> Figure | None:
    """Of the clause that fails first; without a failure of the one nearest to its bound."""
    decisive = next((row.worst for row in rows if row.decision == "fails" and row.worst), None)
    decisive = decisive or next((row.worst for row in reversed(rows) if row.worst), None)
    if decisive is None or len(_conditions(rows)) > 1:
        return None
    title = _("Share of requests that miss {clause}").format(clause=promise(decisive.clause, _))
    caption = _(
        "The shaded band is how far the true share may lie from the measured one. The dashed line is what is allowed."
    )
    figure = _by_people("misses", title, caption, rows, verdict, _)
    results = {row.users: next((c for c in row.level.clauses if c.clause == decisive.clause), None) for row in rows}
    results_in_order = [results[int(users)] for users in figure["x"]]
    for label, name, colour in (
        (_("upper end"), "high_fraction", "c2faint"),
        (_("measured"), "miss_fraction", "c2"),
        (_("lower end"), "low_fraction", "c2faint"),
    ):
        values = [getattr(one, name) if one is not None and one.n else None for one in results_in_order]
        figure["lines"].append(_line(label, values, "fraction", colour))
    figure["band"] = [0, 2]
    label = _("allowed")
    figure["rules"].append(Rule(across=True, at=decisive.allowed_fraction, label=label, right=False))
    return figure


def _throughput(rows: list[Row], verdict: Verdict, _: Words) -> Figure | None:
    if not any(row.throughput_tokens_per_s for row in rows):
        return None
    title = _("Throughput, and speed for each person")
    caption = _(
        "More people share the same server: the sum rises until it is full, each one's speed falls. "
        "People read about 5 tokens a second."
    )
    figure = _by_people("throughput", title, caption, rows, verdict, _)
    conditions = _conditions(rows)
    for number, condition in enumerate(conditions):
        name = f" {clean(condition, 40)}" if len(conditions) > 1 else ""
        throughput = _values(figure, rows, condition, lambda row: row.throughput_tokens_per_s)
        figure["lines"].append(_line(_("all") + name, throughput, _("tokens/s"), f"c{2 * number % 6 + 1}"))
        speed = _values(figure, rows, condition, lambda row: row.level.user_tokens_per_s)
        colour = f"c{(2 * number + 1) % 6 + 1}"
        figure["lines"].append(_line(_("per person") + name, speed, _("tokens/s"), colour, right=True))
    return figure


def _balance(rows: list[Row], slo: tuple[Clause, ...], _: Words) -> Figure | None:
    """x need not grow with people, so points are not joined."""
    chosen = [row for row in rows if row.throughput_tokens_per_s and row.latency_s.p95 is not None]
    if len(chosen) < 2:
        return None
    chosen.sort(key=lambda row: (row.throughput_tokens_per_s or 0.0, row.users))
    title = _("Latency against throughput")
    caption = _("Each point is a number of people. Good servers go to the right before they go up.")
    throughput = [float(f"{row.throughput_tokens_per_s or 0.0:.5g}") for row in chosen]
    figure = _figure("balance", title, caption, _("tokens/s"), "", throughput)
    whole = all(row.whole for row in chosen)
    conditions = _conditions(chosen)
    for number, condition in enumerate(conditions):
        name = f"p95 {clean(condition, 40)}" if len(conditions) > 1 else "p95"
        points = [row.latency_s.p95 if row.condition == condition else None for row in chosen]
        line = _line(name, points, "s", f"c{number % 6 + 1}" if len(conditions) > 1 else "c2")
        line["points_only"] = True
        figure["lines"].append(line)
    figure["names"] = [str(row.users) for row in chosen]
    figure["rules"] += [
        Rule(across=True, at=clause.bound, label=promise(clause.text, _), right=False)
        for clause in slo
        if clause.metric == ("e2e" if whole else "ttft")
    ]
    figure["can_log"] = True
    return figure


def _turns(rows: list[Row], verdict: Verdict, _: Words) -> Figure | None:
    """The single person, the limit, and the first failure: long histories cost more on each."""
    with_turns = [row for row in rows if len(row.level.ttft_by_turn_s) > 1]
    if not with_turns:
        return None
    wanted = {with_turns[0].users, verdict.limit_users, verdict.fails_at_users}
    chosen = [row for row in with_turns if row.users in wanted][:6]
    turns = sorted({turn for row in chosen for turn in row.level.ttft_by_turn_s})
    title = _("Median wait by turn of the conversation")
    caption = _("Later turns carry a longer history. A steep rise means that the history is computed anew each time.")
    figure = _figure("turns", title, caption, _("turn"), "", [float(turn) for turn in turns])
    for number, row in enumerate(chosen):
        label = f"{people(row.users, _)} {clean(row.condition, 40)}".strip()
        values = [row.level.ttft_by_turn_s.get(turn) for turn in turns]
        figure["lines"].append(_line(label, values, "s", f"c{number % 6 + 1}"))
    return figure


# --- over time -------------------------------------------------------------------------------


def _thin(at_s: list[float], values: list[float]) -> dict[float, float]:
    """At most ``_MOST_POINTS`` points: the mean of each stretch of time, at its middle."""
    if len(at_s) <= _MOST_POINTS:
        return dict(zip(at_s, values, strict=True))
    times, numbers = np.array(at_s), np.array(values)
    edges = np.linspace(times[0], times[-1], _MOST_POINTS + 1)
    cell = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _MOST_POINTS - 1)
    count = np.bincount(cell, minlength=_MOST_POINTS)
    filled = count > 0
    mean_at_s = np.bincount(cell, times, _MOST_POINTS)[filled] / count[filled]
    mean = np.bincount(cell, numbers, _MOST_POINTS)[filled] / count[filled]
    return dict(zip(mean_at_s.round(2).tolist(), mean.tolist(), strict=True))


def _over_time(
    key: str, title: str, caption: str, verdict: Verdict, chosen: list[tuple[Line, dict[float, float]]], _: Words
) -> Figure | None:
    """Lines over one common time axis; every level is a stretch labelled with its people."""
    chosen = [(line, points) for line, points in chosen if points]
    if not chosen:
        return None
    at_s = sorted(set(itertools.chain.from_iterable(points for line, points in chosen)))
    figure = _figure(key, title, caption, _("time since the start"), "time", at_s)
    for line, points in chosen:
        values = [points.get(instant) for instant in at_s]
        figure["lines"].append({**line, "values": [None if v is None else float(f"{v:.5g}") for v in values]})
    figure["spans"] = [_level_span(level) for level in verdict.levels]
    return figure


def _level_span(level: LevelSummary) -> Span:
    return Span(begin=round(level.began_at_s, 1), end=round(level.ended_at_s, 1), label=str(level.users))


def _server(thinned: _Thinned, verdict: Verdict, _: Words) -> Figure | None:
    def points(name: str) -> dict[float, float]:
        """Load processes and data-parallel ranks have lines of their own; the first one stands for them."""
        return next((found for (known, _of), found in sorted(thinned.items()) if known == name), {})

    title = _("Inside the server: running, waiting, memory")
    caption = _(
        "A queue that grows while memory is free speaks for a cap on requests. "
        "Memory near 100 % speaks for the KV cache."
    )
    chosen = [
        (_line(_("running"), (), "", "c1"), points("server_running_requests")),
        (_line(_("waiting"), (), "", "c2"), points("server_waiting_requests")),
        (_line(_("KV cache in use"), (), "fraction", "c4", right=True), points("server_kv_used_fraction")),
    ]
    return _over_time("server", title, caption, verdict, chosen, _)


def _heat(key: str, thinned: _Thinned, verdict: Verdict, gpu: Gpu, _: Words) -> Figure | None:
    title = _("Temperature and power of {gpu}").format(gpu=clean(gpu.name, 60))
    caption = _("A GPU that reaches a dashed line slows itself down, and people wait longer.")
    chosen = [
        (_line(_("temperature"), (), "°C", "c2"), thinned.get(("gpu_temperature_c", gpu.uuid), {})),
        (_line(_("power"), (), "W", "c1", right=True), thinned.get(("gpu_power_w", gpu.uuid), {})),
    ]
    figure = _over_time(key, title, caption, verdict, chosen, _)
    if figure is None:
        return None
    if gpu.temperature_slowdown_c is not None:
        label = _("slows down at {n} °C").format(n=f"{gpu.temperature_slowdown_c:g}")
        figure["rules"].append(Rule(across=True, at=gpu.temperature_slowdown_c, label=label, right=False))
    if gpu.power_limit_w is not None and len(figure["lines"]) > 1:
        label = _("power limit {n} W").format(n=f"{gpu.power_limit_w:g}")
        figure["rules"].append(Rule(across=True, at=gpu.power_limit_w, label=label, right=True))
    return figure


def _clocks(key: str, thinned: _Thinned, verdict: Verdict, gpu: Gpu, _: Words) -> Figure | None:
    title = _("Clock and utilization of {gpu}").format(gpu=clean(gpu.name, 60))
    caption = _("A clock that falls under load speaks for heat or a power limit.")
    clocks = {at_s: value / 1e9 for at_s, value in thinned.get(("gpu_sm_clock_hz", gpu.uuid), {}).items()}
    busy = thinned.get(("gpu_utilization_fraction", gpu.uuid), {})
    chosen = [
        (_line(_("SM clock"), (), "GHz", "c1"), clocks),
        (_line(_("utilization"), (), "fraction", "c4", right=True), busy),
    ]
    return _over_time(key, title, caption, verdict, chosen, _)
