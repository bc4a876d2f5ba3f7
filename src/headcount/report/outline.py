"""The words every text format shares: the answer's lines, the table's headings and cells, the cautions.

Each function takes the reader's words and, where foreign text comes in, the format's own way to escape it.
Knows nothing of terminals, Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from headcount.analysis.comfort import BANDS
from headcount.analysis.conclusions import Verdict
from headcount.records import RunFacts
from headcount.report.format import clean, moment, number, percent, seconds, tokens_per_s, users_interval
from headcount.report.rows import Row, level_rows
from headcount.report.warned import Warned, caution_groups, warned_at
from headcount.report.words import Words, people

__all__ = [
    "Warned",
    "answer_lines",
    "cause_lines",
    "cause_name",
    "caution_groups",
    "cells",
    "coming",
    "decision",
    "enough_for",
    "feelings",
    "footnote",
    "headings",
    "headroom",
    "marks",
    "next_steps",
    "promise",
    "promises",
    "soak",
    "sure_lines",
    "sure_name",
    "warned_at",
]

_Escape = Callable[[str], str]


def marks(verdict: Verdict, facts: RunFacts, _: Words) -> list[str]:
    """What must stand before the answer's sentence: that it is simulated, imported, not finished."""
    return [
        *([_("simulated")] if facts.simulated else []),
        *([_("imported")] if facts.verb == "import" else []),
        *([] if verdict.complete else [_("not finished")]),
    ]


def answer_lines(
    verdict: Verdict, facts: RunFacts, _: Words, escape: _Escape, *, brief: bool = False
) -> list[tuple[str, str]]:
    """Names and values of the answer: limit, recommendation, what gives out first, under which service level.
    ``brief`` leaves out what explains it but is no part of it."""
    lines = _rate_lines(verdict, _)
    if verdict.limit_users is not None and not lines:
        lines.append((_("Limit"), _limit(verdict, verdict.limit_users, _)))
    if verdict.recommended_users is not None and verdict.rate is None:
        lines.append((_("Recommended"), _recommended(verdict, verdict.recommended_users, _)))
    if verdict.fails_at_users is not None:
        lines.append((_fails_name(verdict, _), _fails_at(verdict, verdict.fails_at_users, _)))
    if verdict.accounts is not None:
        lines.append((_("Accounts"), enough_for(verdict, _)))
    if verdict.cause_sentence:
        lines.append((_("Gives out first"), escape(_(verdict.cause_sentence))))
    for name, sentence in (
        (_("All at once"), _(verdict.burst_sentence)),
        (_("Soak"), soak(verdict, _)),
        (_("By formula"), "" if brief else _(verdict.estimate_sentence)),
    ):
        if sentence:
            lines.append((name, escape(sentence)))
    lines.append((_("Service level"), promises(facts, _)))
    if any(level.arrivals != "closed" for level in verdict.levels):
        lines.append((_("People"), coming(verdict, _)))
    lines.append((_("Measured"), _measured(facts, escape)))
    return lines


def _rate_lines(verdict: Verdict, _: Words) -> list[tuple[str, str]]:
    """Of a search in the open loop: its limit is a rate."""
    rate = verdict.rate
    if rate is None or rate.rate_per_s is None:
        return []
    said = _("{rate} new conversations a second").format(rate=number(rate.rate_per_s))
    if rate.at_least:
        said = _("at least {rate}, the most that was tried").format(rate=said)
    if rate.confirmations > 1:
        said += _(", held {n} times").format(n=rate.confirmations)
    lines = [(_("Limit"), said)]
    if rate.grows_at_per_s is not None:
        lines.append((_("Queue grows at"), _("{rate} a second").format(rate=number(rate.grows_at_per_s))))
    if verdict.limit_users is not None:
        lines.append((_("Inside"), people(verdict.limit_users, _)))
    if rate.recommended_per_s is not None:
        lines.append((_("Recommended"), _("{rate} a second").format(rate=number(rate.recommended_per_s))))
    return lines


def coming(verdict: Verdict, _: Words) -> str:
    """How people come and go: whether tokens per second are those of a steady load."""
    texts = {
        "closed": _("stay until their level ends (steady)"),
        "synchronised": _("stay until their level ends, some press enter together (steady)"),
        "finite": _("all start, finish and leave (finite): the end runs half empty and understates tokens/s"),
        "open": _("arrive at a rate, hold one conversation and leave"),
        "trace": _("arrive as recorded"),
    }
    return " · ".join(dict.fromkeys(texts[level.arrivals] for level in verdict.levels if level.arrivals in texts))


def headings(rows: list[Row], _: Words, *, feeling: bool = True) -> list[str]:
    """Of the columns of ``cells``; without ``feeling`` the column of comfort is left out."""
    latency = _("answer") if all(row.whole for row in rows) else _("TTFT")
    if len({row.whole for row in rows}) > 1:
        latency = _("TTFT or answer")
    return [
        _("people"),
        *([_("condition")] if any(row.condition for row in rows) else []),
        _("in flight"),
        f"{latency} p50",
        "p95",
        _("max"),
        "n",
        _("tokens/s"),
        _("per person"),
        _("misses"),
        *([_("feels")] if feeling else []),
        _("decision"),
    ]


def cells(row: Row, with_condition: bool, _: Words, escape: _Escape, *, feeling: bool = True) -> list[str]:
    """One row of the table of levels; in brackets stands a p95 of too few requests, and the throughput of a level that
    was left before a turn was over."""
    level, latency = row.level, row.latency_s
    p95, throughput = seconds(latency.p95), tokens_per_s(level.output_tokens_per_s)
    return [
        str(row.users) if level.rate_per_s is None else f"{row.users} ({number(level.rate_per_s)}/s)",
        *([escape(_(row.condition))] if with_condition else []),
        number(level.in_flight_mean),
        seconds(latency.p50),
        p95 if latency.p95_reliable or latency.p95 is None else f"({p95})",
        seconds(latency.max),
        str(latency.n),
        throughput if row.throughput_tokens_per_s == level.output_tokens_per_s else f"({throughput})",
        tokens_per_s(level.user_tokens_per_s),
        percent(row.worst.miss_fraction if row.worst else None),
        *([_(level.comfort) or "–"] if feeling else []),
        decision(row, _),
    ]


def decision(row: Row, _: Words) -> str:
    """``holds``, ``fails TTFT p95``, ``holds ×3``, ``fails TPOT p95 1/3``."""
    if row.level.growth is not None:
        return _(row.level.growth.decision)
    text = _(row.decision)
    if row.decision == "fails" and row.worst is not None:
        text += f" {promise(row.worst.clause, _).split(' ≤')[0]}"
    if row.repeats < 2:
        return text
    return f"{text} ×{row.repeats}" if row.agreeing == row.repeats else f"{text} {row.agreeing}/{row.repeats}"


def promise(clause: str, _: Words) -> str:
    """A clause as people read it: ``TTFT p95 ≤ 2 s`` for ``ttft_p95 <= 2 s``."""
    metrics = {
        "ttft": _("TTFT"),
        "tpot": _("TPOT"),
        "e2e": _("answer"),
        "first_answer": _("first answer text"),
        "max_gap": _("longest pause"),
        "errors": _("errors"),
    }
    named = re.match(r"(\w+?)(?:_(p[\d.]+))? <= ([\d.]+ (?:s|%))$", clause)
    if named is None or named[1] not in metrics:
        return clean(clause)
    return " ".join(filter(None, [metrics[named[1]], named[2], "≤", named[3]]))


def promises(facts: RunFacts, _: Words) -> str:
    """The whole service level."""
    return " · ".join(promise(clause, _) for clause in facts.slo)


def feelings(rows: list[Row], _: Words) -> str:
    """``comfortable up to 36 people · slightly slow up to 52 people``: so many, with nothing worse below; empty where
    nothing is known."""
    last: dict[int, int] = {}
    worst = 0
    for row in sorted(rows, key=lambda row: row.users):
        if row.level.comfort in BANDS and row.decision != "void":
            worst = max(worst, BANDS.index(row.level.comfort))
            last[worst] = row.users
    parts = [_("{feeling} up to {people}").format(feeling=_(BANDS[n]), people=people(u, _)) for n, u in last.items()]
    return " · ".join(parts)


def footnote(rows: list[Row], _: Words) -> str | None:
    """What the brackets mean, when there are any."""
    few = any(not row.latency_s.p95_reliable and row.latency_s.p95 is not None for row in rows)
    short = any(row.throughput_tokens_per_s != row.level.output_tokens_per_s for row in rows)
    notes = [
        *([_("(p95): fewer than 59 answers, decides nothing")] if few else []),
        *([_("(tokens/s): left before a turn was over, mostly too high")] if short else []),
    ]
    return " · ".join(notes) or None


def headroom(verdict: Verdict, _: Words) -> str:
    """How far below the limit the recommendation lies; empty when it does not."""
    if not verdict.limit_users or verdict.recommended_users is None or verdict.recommended_users >= verdict.limit_users:
        return ""
    share = percent(1 - verdict.recommended_users / verdict.limit_users)
    return _("{share} below the limit of {n}").format(share=share, n=verdict.limit_users)


def soak(verdict: Verdict, _: Words) -> str:
    """What the soak showed, and what went up or down meanwhile; empty where there was none."""
    changes = "; ".join(map(_, verdict.soak_changes))
    return f"{_(verdict.soak_sentence)} ({changes})" if changes else _(verdict.soak_sentence)


def enough_for(verdict: Verdict, _: Words) -> str:
    """The recommendation in registered accounts; empty where no share of them was given."""
    if verdict.accounts is None or verdict.active_share is None:
        return ""
    return _("enough for {n} accounts when {share} of them are active in the busy hour (risk 1 %)").format(
        n=verdict.accounts, share=percent(verdict.active_share)
    )


def sure_name(verdict: Verdict, _: Words) -> str:
    """How sure the answer is, in two or three words."""
    if not verdict.trusted or verdict.limit_users is None:
        return _("no answer can be trusted")
    if verdict.at_least:
        return _("a lower bound")
    if verdict.limit_interval_users is not None:
        return _("{interval} people (95 %)").format(interval=users_interval(verdict.limit_interval_users))
    return _("no interval can be given")


def sure_lines(verdict: Verdict, _: Words) -> list[str]:
    """What that rests on."""
    lines = []
    if verdict.confirmations:
        limit = people(verdict.limit_users or 0, _)
        lines.append(_("{people} held {n} separate times.").format(people=limit, n=verdict.confirmations))
    answers = sum(level.n_requests for level in verdict.levels if level.users == verdict.limit_users)
    if answers:
        lines.append(_("{n} answers at the limit.").format(n=f"{answers:,}"))
    if not verdict.complete:
        lines.append(_("The search had not finished."))
    lines += filter(None, [_(verdict.burst_sentence), soak(verdict, _)])
    return lines


def cause_name(cause: str, _: Words) -> str:
    """What gives out first, for people."""
    names = {
        "client": _("the measuring client"),
        "proxy": _("a proxy in between"),
        "slots": _("request slots"),
        "kv-memory": _("KV cache memory"),
        "decode-bandwidth": _("memory bandwidth (decode)"),
        "prefill-compute": _("compute (prefill)"),
        "adapters": _("LoRA adapters"),
        "heat-or-power": _("heat or power"),
        "not-seen": _("not seen"),
    }
    return names.get(cause, cause)


def cause_lines(verdict: Verdict, _: Words) -> list[str]:
    """The evidence for it, and where it fails."""
    lines = [_(verdict.cause_sentence)] if verdict.cause_sentence else []
    if verdict.fails_at_users is not None:
        lines.append(f"{_fails_name(verdict, _)} {_fails_at(verdict, verdict.fails_at_users, _)}.")
    if verdict.estimate_sentence:
        lines.append(_("By formula: {said}").format(said=_(verdict.estimate_sentence)))
    return lines


def next_steps(verdict: Verdict, _: Words) -> list[str]:
    """The analysis's advice; without any, what the cautions ask for; else what is always right."""
    remedies = dict.fromkeys(one.caution.remedy for one in caution_groups(verdict) if one.near and one.caution.remedy)
    steps = [_(text) for text in verdict.advice or list(remedies)[:3]]
    return steps or [_("Measure again after a change of model, engine, settings or hardware.")]


def _limit(verdict: Verdict, limit_users: int, _: Words) -> str:
    limit = people(limit_users, _)
    if verdict.at_least:
        limit = _("at least {people}, the most that was tried").format(people=limit)
    if verdict.limit_interval_users is not None:
        limit += _(", 95 % interval {interval}").format(interval=users_interval(verdict.limit_interval_users))
    if verdict.confirmations > 1:
        limit += _(", held {n} times").format(n=verdict.confirmations)
    if verdict.estimate_sentence and verdict.first_estimate_users is not None:
        limit += _(", {n} by formula").format(n=f"{verdict.first_estimate_users:.0f}")
    return limit


def _recommended(verdict: Verdict, recommended_users: int, _: Words) -> str:
    return ", ".join(filter(None, [people(recommended_users, _), headroom(verdict, _)]))


def _fails_name(verdict: Verdict, _: Words) -> str:
    """A number that is over the limit in all likelihood, but was not held long enough to fail, only probably does."""
    row = _failing(verdict)
    return _("Fails at") if row is None or row.decision == "fails" else _("Probably fails at")


def _failing(verdict: Verdict) -> Row | None:
    """What was seen of the smallest number over the limit."""
    return next((row for row in level_rows(verdict) if row.users == verdict.fails_at_users), None)


def _fails_at(verdict: Verdict, users: int, _: Words) -> str:
    text, row = people(users, _), _failing(verdict)
    if row is None or row.worst is None:
        return text
    missed, allowed = percent(row.worst.miss_fraction), percent(row.worst.allowed_fraction)
    told = _("{people}: {missed} miss {clause}, {allowed} may")
    if row.decision != "fails":
        told = _("{people}, not decided: {missed} miss {clause}, {allowed} may")
    return told.format(people=text, missed=missed, clause=promise(row.worst.clause, _), allowed=allowed)


def _measured(facts: RunFacts, escape: _Escape) -> str:
    engine = facts.engine
    server = " ".join(filter(None, [engine.engine, engine.version]))
    hardware = [gpu.name for gpu in facts.gpus]
    parts = filter(None, [engine.model, server, *hardware])
    return " · ".join([*map(escape, parts), moment(facts.started_utc)])
