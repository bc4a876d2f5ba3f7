"""Calibrations and what-ifs as people and programs read them. Every text says in its first line that it is simulated,
every JSON object in its key ``simulated``. Knows nothing of how anything was found.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headcount.errors import ScenarioError
from headcount.prediction.calibration import Calibration, Check
from headcount.prediction.cases import Case
from headcount.prediction.served import Start
from headcount.prediction.whatif import Estimate, LimitPrediction, Prediction
from headcount.report.as_json import indented
from headcount.report.format import UNKNOWN, clean, percent, seconds, short_time, tokens_per_s, users_interval
from headcount.report.markdown import escape
from headcount.report.words import Words, people, words
from headcount.simulator.cost import Cost

__all__ = ["FORMATS", "Answer", "binds_name", "calibration_text", "known_format", "whatif_text"]

FORMATS = ("terminal", "markdown", "json")


_Show = Callable[[float | None], str]


class Answer(msgspec.Struct, frozen=True):
    """One case with what was predicted of it."""

    case: Case
    predictions: tuple[Prediction, ...]
    limit: LimitPrediction


def known_format(name: str) -> None:
    """``ScenarioError`` for a format that calibrations and predictions do not have."""
    if name not in FORMATS:
        raise ScenarioError(f"format {name!r} is not known here", f"known: {', '.join(FORMATS)}")


# --- what-if ---------------------------------------------------------------------------------


def whatif_text(form: str, start: Start, source: str, answers: Sequence[Answer], language: str = "en") -> str:
    """All cases beside what was measured."""
    if form == "json":
        return indented(_whatif_object(start, source, answers))
    _ = words(language)
    lines = [_whatif_title(start, source, _), ""]
    lines += _table(form, _whatif_headings(_), _whatif_rows(start, answers, _))
    lines += ["", _("In brackets: what holds 90 % of the constants that are as likely.")]
    lines += [line for answer in answers for line in _notes(answer, _)]
    return "\n".join(lines).rstrip() + "\n"


def _whatif_title(start: Start, source: str, _: Words) -> str:
    if start.basis == "calibrated":
        return _("simulated · from the calibration of {source}").format(source=clean(source))
    return _("simulated · from datasheets, nothing was measured: {source}").format(source=clean(source))


def _whatif_headings(_: Words) -> list[str]:
    return [
        "",
        _("people"),
        _("answer") + " p50",
        _("TTFT") + " p95",
        _("tokens/s"),
        _("limit, people"),
        _("What gives out first"),
    ]


def _whatif_rows(start: Start, answers: Sequence[Answer], _: Words) -> list[list[str]]:
    rows = []
    for answer in answers:
        limit = answer.limit
        found = f"{limit.limit_users} ({users_interval((limit.low_users, limit.high_users))})"
        if limit.at_least:
            found = "≥ " + str(limit.limit_users)
        for prediction in answer.predictions:
            if not answer.case.name:
                rows += _measured_rows(start, prediction.users, _)
            rows.append(
                [
                    answer.case.name or _("as it is"),
                    str(prediction.users),
                    _with_interval(prediction.e2e_p50_s, seconds),
                    _with_interval(prediction.ttft_p95_s, seconds),
                    _with_interval(prediction.output_tokens_per_s, tokens_per_s),
                    found,
                    binds_name(limit.binds, _),
                ]
            )
    return rows


def _measured_rows(start: Start, users: int, _: Words) -> list[list[str]]:
    limit = UNKNOWN if start.limit_users is None else str(start.limit_users)
    return [
        [
            _("measured"),
            str(one.users),
            seconds(one.e2e_p50_s),
            seconds(one.ttft_p95_s),
            tokens_per_s(one.output_tokens_per_s),
            limit,
            UNKNOWN,
        ]
        for one in start.measured
        if one.users == users
    ]


def _with_interval(estimate: Estimate | None, show: _Show) -> str:
    if estimate is None:
        return UNKNOWN
    if estimate.low == estimate.high:
        return show(estimate.value)
    return f"{show(estimate.value)} ({show(estimate.low)}–{show(estimate.high)})"


def _notes(answer: Answer, _: Words) -> list[str]:
    """What a reader of a row must know of it."""
    change, found = answer.case.change, []
    name = answer.case.name
    if change.power_limit_w is not None:
        found.append(_("{case}: clocks under a power limit follow a rough rule, nothing of it was measured"))
    if change.context_tokens is not None and change.prompt_tokens is None:
        found.append(
            _("{case}: the server allows longer contexts; people still send what they sent (see prompt-tokens)")
        )
    if change.beside is not None:
        found.append(_("{case}: latencies of whoever is worse off, tokens/s of both models together"))
    return [text.format(case=name) for text in found]


def binds_name(binds: str, _: Words) -> str:
    """What would have to grow, for people."""
    names = {
        "bandwidth": _("memory bandwidth"),
        "compute": _("compute"),
        "overhead": _("overhead of each step"),
        "kv-memory": _("KV cache memory"),
        "slots": _("request slots"),
        "context": _("context length"),
    }
    return names.get(binds, UNKNOWN)


def _whatif_object(start: Start, source: str, answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "simulated": True,
        "basis": start.basis,
        "source": source,
        "slo": [clause.text for clause in start.slo],
        "interval_fraction": 0.9,
        "measured": start.measured,
        "measured_limit_users": start.limit_users,
        "cases": [
            {
                "case": answer.case.name,
                "limit": answer.limit,
                "levels": [_level_object(prediction) for prediction in answer.predictions],
            }
            for answer in answers
        ],
    }


def _level_object(prediction: Prediction) -> dict[str, Any]:
    return {
        "users": prediction.users,
        **{
            name: None if (estimate := getattr(prediction, name)) is None else estimate._asdict()
            for name in ("e2e_p50_s", "ttft_p95_s", "output_tokens_per_s")
        },
        "holds_fraction": prediction.holds_fraction,
        "binds": prediction.figures.binds,
        "figures": prediction.figures,
    }


# --- calibrations ----------------------------------------------------------------------------


def calibration_text(form: str, calibration: Calibration, refused: str | None, language: str = "en") -> str:
    """Constants, residuals and the held-out levels; ``refused`` says why it must not be believed."""
    if form == "json":
        return indented({"schema_version": 1, "refused": refused, "calibration": calibration})
    _ = words(language)
    lines = [_calibration_title(calibration, refused, _), ""]
    lines += _table(form, _constant_headings(calibration, _), _constant_rows(calibration, _))
    lines += ["", *_facts_lines(calibration, _)]
    if calibration.checks:
        lines += ["", _("Levels that were not fitted, predicted / measured:"), ""]
        lines += _table(form, _check_headings(_), [_check_row(check) for check in calibration.checks])
    return "\n".join(lines).rstrip() + "\n"


def _calibration_title(calibration: Calibration, refused: str | None, _: Words) -> str:
    marks = [_("simulated")] if calibration.simulated else []
    head = _("refused") if refused else _("calibrated")
    told = [
        calibration.source,
        calibration.engine.model or "",
        str(calibration.told.hardware()) if calibration.told else "",
    ]
    return " · ".join([*marks, head, *(clean(part) for part in told if part)])


def _constant_headings(calibration: Calibration, _: Words) -> list[str]:
    by_datasheet = [_("by datasheet"), _("fitted / datasheet")] if calibration.told else []
    return ["", _("fitted"), "±", *by_datasheet]


def _constant_rows(calibration: Calibration, _: Words) -> list[list[str]]:
    names = {
        "overhead_s": _("a step with nothing in it"),
        "weights_s": _("reading all weights once"),
        "token_s": _("multiplying one token"),
        "sequence_s": _("one sequence of a step"),
        "context_token_s": _("reading one token of context"),
        "pair_s": _("attention between two tokens of a prompt"),
    }
    plain: Cost | None = calibration.told.hardware().cost() if calibration.told else None
    rows = []
    for name, text in names.items():
        value = getattr(calibration.cost, name)
        row = [text, short_time(value), percent(calibration.spread.get(name))]
        if plain is not None:
            by_datasheet = getattr(plain, name)
            row += [short_time(by_datasheet), f"{value / by_datasheet:.2f}" if by_datasheet else UNKNOWN]
        rows.append(row)
    outside = [_("a request outside all steps"), short_time(calibration.request_s)]
    rows.append([*outside, percent(calibration.spread.get("request_s")), *([UNKNOWN, UNKNOWN] if plain else [])])
    if calibration.cost.adapter_fraction:
        rows.append([_("steps with an adapter"), f"+{percent(calibration.cost.adapter_fraction)}", UNKNOWN])
        rows[-1] += [UNKNOWN, UNKNOWN] if plain else []
    return rows


def _facts_lines(calibration: Calibration, _: Words) -> list[str]:
    policy = calibration.policy
    seen = len(calibration.prefills) + len(calibration.decodes)
    lines = [
        _("residuals {residual} (rms of {n}), 8 % may be").format(
            residual=percent(calibration.residual_fraction), n=seen
        ),
        _("{policy}: {slots} slots, {pool} tokens of KV cache, contexts up to {context} tokens").format(
            policy=policy.name,
            slots=policy.slots,
            pool=f"{policy.pool_tokens:,}",
            context=f"{policy.context_tokens:,}",
        ),
        _("prompts that repeat are cached") if policy.prefix_cache else _("prompts that repeat are computed again"),
    ]
    if calibration.limit_users is not None:
        lines.append(_("measured limit: {people}").format(people=people(calibration.limit_users, _)))
    return lines


def _check_headings(_: Words) -> list[str]:
    return ["", "n", _("answer") + " p50", _("tokens/s"), _("TTFT") + " p95"]


def _check_row(check: Check) -> list[str]:
    errors = check.errors()
    return [
        check.level,
        str(check.n_requests),
        _both(check.predicted_e2e_p50_s, check.e2e_p50_s, errors.get("e2e_p50_s"), seconds),
        _both(
            check.predicted_output_tokens_per_s,
            check.output_tokens_per_s,
            errors.get("output_tokens_per_s"),
            tokens_per_s,
        ),
        _both(check.predicted_ttft_p95_s, check.ttft_p95_s, errors.get("ttft_p95_s"), seconds),
    ]


def _both(predicted: float | None, measured: float | None, error: float | None, show: _Show) -> str:
    told = f"{show(predicted)} / {show(measured)}"
    return told if error is None else f"{told} {error:+.0%}".replace("%", " %")


# --- tables ----------------------------------------------------------------------------------


def _table(form: str, headings: list[str], rows: list[list[str]]) -> list[str]:
    if form == "markdown":
        lines = [f"| {' | '.join(headings)} |", "|" + " --- |" * len(headings)]
        return lines + [f"| {' | '.join(map(escape, row))} |" for row in rows]
    from rich.cells import cell_len

    table = [headings, *rows]
    widths = [max(cell_len(row[place]) for row in table) for place in range(len(headings))]
    text = io.StringIO()
    for row in table:
        cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        text.write("  ".join(cells).rstrip() + "\n")
    return text.getvalue().rstrip("\n").split("\n")
