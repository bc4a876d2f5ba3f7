"""What several runs show side by side: pairs with the first run, ratios, plain statements, which run is for whom.

The words every format of a comparison shares. Knows nothing of how ratios are made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from headcount.analysis.choice import Carries, choose
from headcount.analysis.compare import COMPARED, Comparison, Ratio, compare, unlike
from headcount.analysis.fingerprint import asked_changes, changes
from headcount.report import Report, outline
from headcount.report.format import clean, seconds, tokens_per_s
from headcount.report.words import Words, people
from headcount.slo import Comfort

__all__ = [
    "SideBySide",
    "Versus",
    "answers",
    "choice_sentence",
    "headings",
    "rows",
    "sentence",
    "short_lines",
    "side_by_side",
    "versus",
]

_FURTHER = ("gpu_temperature_c", "gpu_power_w", "gpu_memory_used_bytes")
"""Means over each level, compared without an interval."""

_UNITS = {"gpu_temperature_c": "°C", "gpu_power_w": "W"}

_NEARLY_SAID = ("ttft_p50_s", "e2e_p95_s", "tpot_p50_s")


class Versus(msgspec.Struct, frozen=True):
    """A run, another one, and what their comparison gave."""

    first: Report
    second: Report
    names: tuple[str, str]
    comparison: Comparison
    differing: tuple[str, ...]
    """What makes the two unlike: another engine, other lengths …"""
    alike: bool = True
    """Whether both asked the same: then a difference is the server's."""


class SideBySide(msgspec.Struct, frozen=True):
    """Several runs: each but the first against the first, and which of them for how many people."""

    pairs: tuple[Versus, ...]
    choice: tuple[Carries, ...]


def side_by_side(
    reports: Sequence[Report], names: Sequence[str], comfort: Comfort | None = None, asked: Sequence[str] = ()
) -> SideBySide:
    """Compare runs, at least two; ``names`` stand for them in every text. ``asked`` is what the people of each did, in
    words that are alike where they did the same."""
    first, *others = reports
    asked = asked or [""] * len(reports)
    pairs = [
        versus(first, other, (names[0], name), (asked[0], did))
        for other, name, did in zip(others, names[1:], asked[1:], strict=True)
    ]
    shown = [pairs[0].names[0], *(pair.names[1] for pair in pairs)]
    levels = {name: report.verdict.levels for name, report in zip(shown, reports, strict=True)}
    return SideBySide(tuple(pairs), choose(levels, comfort or Comfort()))


def versus(
    first: Report, second: Report, names: tuple[str, str] = ("A", "B"), asked: tuple[str, str] = ("", "")
) -> Versus:
    """Compare two runs; ``names`` stand for them in every text."""
    levels, levels_second = first.verdict.levels, second.verdict.levels
    comparison = compare(levels, levels_second, _further(first), _further(second))
    other_questions = asked_changes(*asked, unlike(levels, levels_second))
    differing = [*other_questions, *changes(first.facts, second.facts)]
    clean_names = clean(names[0], 40) or "A", clean(names[1], 40) or "B"
    return Versus(first, second, clean_names, comparison, tuple(differing), not other_questions)


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


def sentence(both: Versus, _: Words) -> str:
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
    told = said[both.comparison.statement].format(first=first, second=second)
    waits = next((ratio for ratio in both.comparison.overall if ratio.measure == "e2e_p50_s"), None)
    if waits is not None and waits.statement in ("better", "worse"):
        told += " " + _("Answers take {times} times as long.").format(times=_times(waits))
    return told if both.alike else _("Not like with like: {said}").format(said=told)


def short_lines(both: Versus, _: Words) -> list[str]:
    """The ratios in a few lines, from the least to the greatest over the levels: waits, tokens, memory, heat, power."""
    by_measure: dict[str, list[Ratio]] = defaultdict(list)
    for ratio in both.comparison.levels:
        by_measure[ratio.measure].append(ratio)
    name = both.names[1]
    told = {
        "e2e_p50_s": _("{name}: answers take {times} times as long (median)."),
        "ttft_p95_s": _("{name}: the first token takes {times} times as long (p95)."),
        "output_tokens_per_s": _("{name}: {times} times the tokens per second."),
        "gpu_memory_used_bytes": _("{name}: {times} times the GPU memory."),
    }
    lines = [
        text.format(name=name, times=_from_to(by_measure[measure]))
        for measure, text in told.items()
        if by_measure[measure]
    ]
    for measure in ("gpu_temperature_c", "gpu_power_w"):
        if by_measure[measure]:
            most = max(by_measure[measure], key=lambda ratio: ratio.users)
            more = f"{(most.second or 0.0) - (most.first or 0.0):+.0f} {_UNITS[measure]}"
            lines.append(_("{name}: {more} at {people}.").format(name=name, more=more, people=people(most.users, _)))
    return lines


def _from_to(ratios: Sequence[Ratio]) -> str:
    """``3.0 to 3.1``, as the least and the greatest are written."""
    least, greatest = (f"{value:.2f}" for value in (min(r.ratio for r in ratios), max(r.ratio for r in ratios)))
    return least if least == greatest else f"{least}–{greatest}"


def choice_sentence(both: SideBySide, _: Words) -> str:
    """Which run for how many people; empty when no run carries anybody, or all carry alike."""
    able = [one for one in both.choice if one.most_users is not None]
    if len({one.most_users for one in able}) < min(2, len(both.choice)):
        return ""
    parts = []
    for place, one in enumerate(able):
        if place == 0 and one.from_users is not None:
            text = _("for {people} and more: {name} (up to {most})")
            if one.from_users == one.most_users:
                text = _("for {people}: {name}")
        else:
            text = _("up to {most}: {name}")
        told = text.format(people=people(one.from_users or 0, _), name=one.name, most=people(one.most_users or 0, _))
        parts.append(told + (_(", streamed") if one.streamed else ""))
    return _("By how it feels: {choice}.").format(choice="; ".join(parts))


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
    return f"{value:.0f} {_UNITS.get(name, '')}"


def _statement(ratio: Ratio, _: Words) -> str:
    if ratio.measure in _FURTHER:
        return ""
    return {
        "better": _("better"),
        "worse": _("worse"),
        "no-difference": _("no difference"),
        "cannot-tell": _("cannot tell"),
    }[ratio.statement]


def answers(both: Versus, _: Words) -> list[tuple[str, str, str]]:
    """Limit and recommendation of both, what gives out, and what failed."""
    first, second = both.first.verdict, both.second.verdict

    def told(users: int | None, at_least: bool = False) -> str:
        return "–" if users is None else ("≥ " if at_least else "") + people(users, _)

    return [
        (_("Limit"), told(first.limit_users, first.at_least), told(second.limit_users, second.at_least)),
        (_("Recommended"), told(first.recommended_users), told(second.recommended_users)),
        (_("Failed requests"), _failed(both.first), _failed(both.second)),
        (_("What gives out first"), outline.cause_name(first.cause, _), outline.cause_name(second.cause, _)),
    ]


def _failed(report: Report) -> str:
    n, failed = (sum(getattr(one, name) for one in report.verdict.levels) for name in ("n_requests", "n_errors"))
    return f"{failed:,} / {n:,}"


def headings(both: Versus, _: Words) -> list[str]:
    """Of the columns of ``rows``."""
    return [
        _("people"),
        _("figure"),
        *both.names,
        _("ratio"),
        _("95 % interval"),
        _("{name} is").format(name=both.names[1]),
    ]


def rows(both: Versus, _: Words, *, few: bool = False) -> list[list[str]]:
    """Level by level, then all levels together. ``few`` leaves out of single levels what the others nearly say."""
    order = {name: place for place, name in enumerate([measure.name for measure in COMPARED] + list(_FURTHER))}
    levels = sorted(both.comparison.levels, key=lambda ratio: (ratio.users, ratio.condition, order[ratio.measure]))
    if few:
        levels = [ratio for ratio in levels if ratio.measure not in _NEARLY_SAID]
    told = []
    for ratio in (*levels, *both.comparison.overall):
        interval = "–"
        if ratio.low_ratio is not None and ratio.high_ratio is not None:
            interval = f"{ratio.low_ratio:.2f}–{ratio.high_ratio:.2f}"
        who = f"{ratio.users} {clean(ratio.condition, 30)}".strip() if ratio.users else _("all")
        values = [_shown(ratio.measure, ratio.first), _shown(ratio.measure, ratio.second)]
        named = [who, _measure(ratio.measure, _), *values]
        told.append([*named, f"×{ratio.ratio:.2f}", interval, _statement(ratio, _)])
    return told
