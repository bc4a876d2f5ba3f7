"""Two runs side by side, for people and programs: what was compared, the ratios, a plain statement.

A small extension point of its own, table ``COMPARISONS``. Knows nothing of how ratios are made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from headcount.analysis.compare import COMPARED, Comparison, Ratio, compare, unlike
from headcount.analysis.fingerprint import changes
from headcount.errors import ScenarioError
from headcount.report import Report, outline
from headcount.report.as_json import indented
from headcount.report.figures import people_figures
from headcount.report.format import clean, moment, number, seconds, tokens_per_s
from headcount.report.markdown import escape
from headcount.report.page import page
from headcount.report.words import Words, people, words

__all__ = ["COMPARISONS", "Versus", "versus", "write_comparison"]

_FURTHER = ("gpu_temperature_c", "gpu_power_w", "gpu_memory_used_bytes")
"""Means over each level, compared without an interval."""

_NEARLY_SAID = ("ttft_p50_s", "e2e_p95_s", "tpot_p50_s")


class Versus(msgspec.Struct, frozen=True):
    """A run, another one, and what their comparison gave."""

    first: Report
    second: Report
    names: tuple[str, str]
    comparison: Comparison
    differing: tuple[str, ...]
    """What makes the two unlike: another engine, other lengths …"""


def versus(first: Report, second: Report, names: tuple[str, str] = ("A", "B")) -> Versus:
    """Compare two runs; ``names`` stand for them in every text."""
    levels, levels_second = first.verdict.levels, second.verdict.levels
    comparison = compare(levels, levels_second, _further(first), _further(second))
    differing = changes(first.facts, second.facts)
    for what, before, after in unlike(levels, levels_second):
        differing.append(f"{what} was {number(before)}, is {number(after)}")
    clean_names = clean(names[0], 40) or "A", clean(names[1], 40) or "B"
    return Versus(first, second, clean_names, comparison, tuple(differing))


def write_comparison(name: str, both: Versus) -> str:
    """The comparison as text in the format ``name``, a key of ``COMPARISONS``."""
    if name not in COMPARISONS:
        raise ScenarioError(f"format {name!r} is not known for comparisons", f"known: {', '.join(COMPARISONS)}")
    return COMPARISONS[name](both)


def _further(report: Report) -> dict[int, dict[str, float]]:
    """Means of machine figures in each level's steady window; over all GPUs together."""
    if report.run is None:
        return {}
    sums: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    windows = [
        (level.index, level.steady_at_s, level.ended_at_s)
        for level in report.verdict.levels
        if level.steady_at_s is not None
    ]
    for sample in report.run.samples():
        if sample.name in _FURTHER:
            for index, began_at_s, ended_at_s in windows:
                if began_at_s <= sample.at_s <= ended_at_s:
                    sums[index][sample.name].append(sample.value)
    return {index: {name: sum(values) / len(values) for name, values in named.items()} for index, named in sums.items()}


# --- words -----------------------------------------------------------------------------------


def _sentence(both: Versus, _: Words) -> str:
    """The plain statement."""
    first, second = both.names
    said = {
        "worse": _("{second} is slower than {first}."),
        "better": _("{second} is faster than {first}."),
        "mixed": _("{second} is better than {first} in some ways and worse in others."),
        "no-difference": _("No difference seen between {first} and {second}."),
        "cannot-tell": _("What was measured cannot tell {first} and {second} apart."),
        "nothing-common": _("{first} and {second} were never held with the same number of people."),
    }
    sentence = said[both.comparison.statement].format(first=first, second=second)
    answers = next((ratio for ratio in both.comparison.overall if ratio.measure == "e2e_p50_s"), None)
    if answers is not None and answers.statement in ("better", "worse"):
        sentence += " " + _("Answers take {times} times as long.").format(times=_times(answers))
    return sentence


def _times(ratio: Ratio) -> str:
    """``3.07 (3.0–3.1)``."""
    if ratio.low_ratio is None or ratio.high_ratio is None:
        return f"{ratio.ratio:.2f}"
    return f"{ratio.ratio:.2f} ({ratio.low_ratio:.2f}–{ratio.high_ratio:.2f})"


def _measure(name: str, _: Words) -> str:
    names = {
        "ttft_p50_s": _("TTFT") + " p50",
        "ttft_p95_s": _("TTFT") + " p95",
        "e2e_p50_s": _("answer p50"),
        "e2e_p95_s": _("answer p95"),
        "tpot_p50_s": _("TPOT") + " p50",
        "output_tokens_per_s": _("tokens/s"),
        "gpu_temperature_c": _("temperature"),
        "gpu_power_w": _("power"),
        "gpu_memory_used_bytes": _("GPU memory"),
    }
    return names.get(name, name)


def _shown(name: str, value: float | None) -> str:
    """One value with its unit."""
    if value is None:
        return "–"
    if name == "gpu_memory_used_bytes":
        return f"{value / 2**30:.1f} GiB"
    if name.endswith("_tokens_per_s"):
        return tokens_per_s(value)
    if name.endswith("_s"):
        return seconds(value)
    return f"{value:.0f} " + {"gpu_temperature_c": "°C", "gpu_power_w": "W"}.get(name, "")


def _statement(ratio: Ratio, _: Words) -> str:
    if ratio.measure in _FURTHER:
        return ""
    return {
        "better": _("better"),
        "worse": _("worse"),
        "no-difference": _("no difference"),
        "cannot-tell": _("cannot tell"),
    }[ratio.statement]


def _answers(both: Versus, _: Words) -> list[tuple[str, str, str]]:
    """Limit and recommendation of both."""
    first, second = both.first.verdict, both.second.verdict

    def told(users: int | None, at_least: bool = False) -> str:
        return "–" if users is None else ("≥ " if at_least else "") + people(users, _)

    return [
        (_("Limit"), told(first.limit_users, first.at_least), told(second.limit_users, second.at_least)),
        (_("Recommended"), told(first.recommended_users), told(second.recommended_users)),
        (_("What gives out first"), outline.cause_name(first.cause, _), outline.cause_name(second.cause, _)),
    ]


def _headings(both: Versus, _: Words) -> list[str]:
    return [
        _("people"),
        _("figure"),
        *both.names,
        _("ratio"),
        _("95 % interval"),
        _("{name} is").format(name=both.names[1]),
    ]


def _rows(both: Versus, _: Words, *, few: bool = False) -> list[list[str]]:
    """Level by level, then all levels together. ``few`` leaves out of single levels what the others nearly say."""
    order = {name: place for place, name in enumerate([measure.name for measure in COMPARED] + list(_FURTHER))}
    levels = sorted(both.comparison.levels, key=lambda ratio: (ratio.users, ratio.condition, order[ratio.measure]))
    if few:
        levels = [ratio for ratio in levels if ratio.measure not in _NEARLY_SAID]
    rows = []
    for ratio in (*levels, *both.comparison.overall):
        interval = "–"
        if ratio.low_ratio is not None and ratio.high_ratio is not None:
            interval = f"{ratio.low_ratio:.2f}–{ratio.high_ratio:.2f}"
        who = f"{ratio.users} {clean(ratio.condition, 30)}".strip() if ratio.users else _("all")
        values = [_shown(ratio.measure, ratio.first), _shown(ratio.measure, ratio.second)]
        named = [who, _measure(ratio.measure, _), *values]
        rows.append([*named, f"×{ratio.ratio:.2f}", interval, _statement(ratio, _)])
    return rows


# --- formats ---------------------------------------------------------------------------------


def _terminal(both: Versus) -> str:
    _ = words(both.first.language)
    lines = [_sentence(both, _), ""]
    answers = _answers(both, _)
    lines += _columns([["", *both.names], *map(list, answers)])
    lines += ["", *_columns([_headings(both, _), *_rows(both, _, few=True)])] if both.comparison.levels else []
    if both.differing:
        lines += ["", *(f"! {clean(_(text))}" for text in both.differing)]
    return "\n".join(lines) + "\n"


def _columns(rows: list[list[str]]) -> list[str]:
    """Texts in columns as wide as their widest cell, the first two to the left."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(rows[0]))]

    def padded(text: str, width: int, left: bool) -> str:
        space = " " * (width - cell_len(text))
        return text + space if left else space + text

    last = len(widths) - 1
    return [
        "  ".join(padded(cell, widths[n], left=n < 2 or n == last) for n, cell in enumerate(map(clean, row))).rstrip()
        for row in rows
    ]


def _markdown(both: Versus) -> str:
    _ = words(both.first.language)
    lines = [f"## {escape(_sentence(both, _))}", ""]
    rows = [["", *both.names], ["---"] * 3, *map(list, _answers(both, _))]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if both.comparison.levels:
        headings = _headings(both, _)
        rows = [headings, ["---:", ":---", *["---:"] * (len(headings) - 3), ":---"], *_rows(both, _)]
        lines += ["", *(f"| {' | '.join(map(_cell, row))} |" for row in rows)]
    if both.differing:
        lines += ["", f"### {_('Not like with like')}", "", *(f"- {escape(_(text))}" for text in both.differing)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text if set(text) <= set("-: ") else escape(text)


def _json(both: Versus) -> str:
    whole = {
        "schema_version": 1,
        "names": both.names,
        "statement": both.comparison.statement,
        "sentence": _sentence(both, words("en")),
        "limit_users": [both.first.verdict.limit_users, both.second.verdict.limit_users],
        "recommended_users": [both.first.verdict.recommended_users, both.second.verdict.recommended_users],
        "overall": both.comparison.overall,
        "levels": both.comparison.levels,
        "differing": both.differing,
    }
    return indented(whole)


def _html(both: Versus) -> str:
    """Curves of both over each other: to the plots, the two runs are two conditions of one."""
    _ = words(both.first.language)
    levels = [
        msgspec.structs.replace(level, condition=f"{name} {level.condition}".strip())
        for name, report in zip(both.names, (both.first, both.second), strict=True)
        for level in report.verdict.levels
    ]
    together = msgspec.structs.replace(
        both.first.verdict, levels=tuple(levels), limit_users=None, limit_interval_users=None, fails_at_users=None
    )
    facts = both.second.facts
    said: dict[str, Any] = {
        "title": f"{clean(_sentence(both, _), 120)} – headcount",
        "when": moment(facts.started_utc),
        "version": facts.headcount_version,
        "sentence": _sentence(both, _),
        "names": both.names,
        "runs": [
            [clean(" · ".join(filter(None, _run(report)))) for report in (both.first, both.second)],
        ],
        "answers": _answers(both, _),
        "differing": [clean(_(text)) for text in both.differing],
        "headings": _headings(both, _),
        "rows": _rows(both, _) if both.comparison.levels else [],
    }
    return page("comparison.html.j2", both.first.language, people_figures(together, facts, _), said)


def _run(report: Report) -> list[str | None]:
    engine = report.facts.engine
    simulated = words(report.language)("simulated") if report.facts.simulated else None
    server = " ".join(filter(None, [engine.engine, engine.version]))
    return [simulated, engine.model, server, *(gpu.name for gpu in report.facts.gpus), moment(report.facts.started_utc)]


COMPARISONS: dict[str, Callable[[Versus], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "html": _html,
}
