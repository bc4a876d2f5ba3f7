"""Energy and money in words: one line of the answer, and a table by people. Knows nothing of how they are reckoned."""

from __future__ import annotations

from collections.abc import Callable

from headcount.analysis.conclusions import Verdict
from headcount.analysis.energy import Energy, energy_by_users
from headcount.prices import Prices
from headcount.report.format import clean, number
from headcount.report.tables import Table
from headcount.report.words import Words, people

__all__ = ["answer_lines", "tables"]


def answer_lines(verdict: Verdict, prices: Prices | None, _: Words) -> list[tuple[str, str]]:
    """What serving the recommended number costs, at the nearest number that was held; empty without prices or watts."""
    found = energy_by_users(verdict.levels, prices)
    wanted = verdict.recommended_users or verdict.limit_users
    if prices is None or not found or not wanted:
        return []
    near = min(found, key=lambda one: abs(one.users - wanted))
    parts = [
        _("at {people} {power} W, {each} W a person").format(
            people=people(near.users, _), power=f"{near.power_w:.0f}", each=number(near.user_power_w)
        ),
        _("{price} {currency} a million tokens").format(**_priced(near.million_tokens_price, prices)),
        _("{price} {currency} a person and month, if so busy day and night").format(
            **_priced(near.user_month_price, prices)
        ),
    ]
    return [(_("Cost"), " · ".join(part for part in parts if "–" not in part))]


def _priced(price: float | None, prices: Prices) -> dict[str, str]:
    return {"price": number(price), "currency": clean(prices.currency, 12)}


def tables(verdict: Verdict, prices: Prices | None, _: Words) -> list[Table]:
    """Watts, joules and money at each number of people; empty where the power of a GPU was not seen."""
    found = energy_by_users(verdict.levels, prices)
    if not found:
        return []
    headings = [_("people"), _("power"), _("W a person"), _("J a token"), _("J an answer")]
    columns: list[Callable[[Energy], str]] = [
        lambda one: str(one.users),
        lambda one: f"{one.power_w:.0f} W",
        lambda one: number(one.user_power_w),
        lambda one: number(one.token_energy_j),
        lambda one: number(one.answer_energy_j),
    ]
    if prices is not None:
        currency = clean(prices.currency, 12)
        headings += [
            _("{currency} a million tokens").format(currency=currency),
            _("{currency} a person and month").format(currency=currency),
        ]
        columns += [lambda one: number(one.million_tokens_price), lambda one: number(one.user_month_price)]
    rows = [[column(one) for column in columns] for one in found]
    title = _("Energy of all GPUs together, and its cost: a month is reckoned as if it were so busy day and night")
    return [Table(title, headings, rows)]
