"""A fleet's size as people and programs read it. Every text says in its first line that it is simulated."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.cells import cell_len

from headcount.prediction.served import Start
from headcount.replicas.size import FleetSize, Plan
from headcount.report.as_json import indented
from headcount.report.format import UNKNOWN, clean, number, seconds
from headcount.report.words import Words, words

__all__ = ["fleet_text"]

_HOURS_A_MONTH = 730.0


def fleet_text(form: str, size: FleetSize, start: Start, source: str, language: str = "en") -> str:
    """``form`` is ``terminal`` or ``json``."""
    if form == "json":
        return indented(_object(size, start, source))
    _ = words(language)
    lines = [_title(start, source, _), "", *_answer(size, start, _), "", *_table(size, _), "", *_notes(size, _)]
    return "\n".join(lines) + "\n"


def _object(size: FleetSize, start: Start, source: str) -> dict[str, Any]:
    found: dict[str, Any] = {"simulated": True, "basis": start.basis, "source": source}
    found |= {"workload": start.workload, "slo": [clause.text for clause in start.slo]}
    found |= msgspec.to_builtins(size)
    found["exact"] = size.exact
    found["power_per_person_w"] = None if size.power_w is None else size.power_w / size.people
    found["cost_per_person_hour"] = None if size.cost_per_hour is None else size.cost_per_hour / size.people
    return found


def _title(start: Start, source: str, _: Words) -> str:
    if start.basis == "calibrated":
        return _("simulated · from the calibration of {source}").format(source=clean(source))
    return _("simulated · from datasheets, nothing was measured: {source}").format(source=clean(source))


def _answer(size: FleetSize, start: Start, _: Words) -> list[str]:
    needed = size.plans[0].replicas
    low, high = number(size.low_replicas), number(size.high_replicas)
    likely = low if low == high else _("{low} or more") if size.high_replicas is None else _("{low} to {high}")
    lines = [
        _("{people} people, {active} of them at once").format(
            people=number(size.people), active=number(size.active_users)
        ),
        _("service level: {slo}").format(slo=", ".join(clause.text for clause in start.slo)),
        "",
        _("{installed} replicas: {needed} carry everybody, {spare} may fail").format(
            installed=number(size.installed_replicas), needed=number(needed), spare=size.redundancy
        ),
        _("as likely, by what is known of the machine: {range} carry everybody").format(
            range=likely.format(low=low, high=high)
        ),
    ]
    cards = _("{cards} GPUs").format(cards=number(size.cards))
    if size.power_w is not None:
        cards += " · " + _("at most {power} kW, {each} W a person").format(
            power=number(size.power_w / 1e3), each=number(size.power_w / size.people, 2)
        )
    lines.append(cards)
    if size.cost_per_hour is not None:
        lines.append(
            _("costs {hour} an hour, {each} a person and month").format(
                hour=f"{size.cost_per_hour:,.2f}", each=f"{size.cost_per_hour * _HOURS_A_MONTH / size.people:.3g}"
            )
        )
    return lines


def _table(size: FleetSize, _: Words) -> list[str]:
    rows = [["", _("replicas"), _("people each"), _("TTFT") + " p95", _("TPOT") + " p95", _("after a failure")]]
    rows += [_row(plan, _) for plan in size.plans]
    rows.append([_("square-root rule"), number(size.square_root_replicas), *[UNKNOWN] * 4])
    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(_padded(cells, widths)).rstrip() for cells in rows]


def _padded(cells: list[str], widths: list[int]) -> list[str]:
    """Names to the left, numbers to the right."""
    spaces = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    return [
        cell + space if not place else space + cell
        for place, (cell, space) in enumerate(zip(cells, spaces, strict=True))
    ]


def _row(plan: Plan, _: Words) -> list[str]:
    names = {"least-loaded": _("least loaded"), "sticky": _("sticky sessions")}
    return [
        names[plan.routing],
        number(plan.replicas),
        f"{plan.users_per_replica:.1f}",
        seconds(plan.figures.ttft_p95_s),
        seconds(plan.figures.tpot_p95_s),
        seconds(plan.after_failure.ttft_p95_s),
    ]


def _notes(size: FleetSize, _: Words) -> list[str]:
    lines = [
        _("after a failure: TTFT p95 of the minute in which one replica is gone and its people ask again"),
        _("square-root rule: a check from below, as if all replicas were one"),
    ]
    if size.exact:
        lines.append(_("every replica was simulated"))
    else:
        stand = _("{simulated} replicas were simulated, each under the load it has in the whole")
        lines.append(stand.format(simulated=size.simulated_replicas))
    return lines
