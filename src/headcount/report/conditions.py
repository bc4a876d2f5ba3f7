"""What a run that holds conditions against each other tells besides its sentence: findings, and each one's limit.

The words every format shares. Knows nothing of how findings are made.
"""

from __future__ import annotations

from headcount.analysis.conclusions import ConditionResult, Verdict
from headcount.report import outline
from headcount.report.format import clean, users_interval
from headcount.report.words import Words, people

__all__ = ["findings", "headings", "rows"]


def findings(verdict: Verdict, _: Words) -> list[str]:
    """A sentence each."""
    return [clean(_(text), 600) for text in verdict.findings]


def headings(verdict: Verdict, _: Words) -> list[str]:
    """Of the columns of ``rows``."""
    model = [_("model")] if _models_differ(verdict) else []
    return [_("condition"), *model, _("Limit"), _("95 % interval"), _("Recommended"), _("What gives out first")]


def rows(verdict: Verdict, _: Words) -> list[list[str]]:
    """Each condition's limit; empty where fixed numbers of people were held."""
    if not any(one.searched for one in verdict.conditions):
        return []
    return [_row(one, _models_differ(verdict), _) for one in verdict.conditions]


def _row(one: ConditionResult, with_model: bool, _: Words) -> list[str]:
    limit = interval = recommended = "–"
    if one.limit_users is not None:
        limit = people(one.limit_users, _)
        limit = _("at least {people}, the most that was tried").format(people=limit) if one.at_least else limit
    if one.limit_interval_users is not None:
        interval = users_interval(one.limit_interval_users)
    if one.recommended_users is not None:
        recommended = people(one.recommended_users, _)
    model = [clean(one.model or "–", 60)] if with_model else []
    return [clean(_(one.name), 60), *model, limit, interval, recommended, outline.cause_name(one.cause, _)]


def _models_differ(verdict: Verdict) -> bool:
    return len({one.model for one in verdict.conditions}) > 1
