"""Every number in tables, where it came from, and what the words mean. Knows nothing of HTML."""

from __future__ import annotations

import msgspec

from headcount.analysis.conclusions import LevelSummary, Quantiles, Verdict
from headcount.records import RunFacts
from headcount.report.format import clean, duration, moment, number, percent, seconds, tokens_per_s
from headcount.report.outline import promise, promises
from headcount.report.traffic import Traffic
from headcount.report.words import Words

__all__ = ["Table", "definitions", "provenance", "server_details", "tables"]


class Table(msgspec.Struct, frozen=True):
    """One table of texts."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    texts: list[str] = []
    """Headings of the columns that hold text, not numbers."""
    folded: bool = True


def tables(verdict: Verdict, traffic: Traffic | None, _: Words) -> list[Table]:
    """All tables that have rows."""
    made = [_groups(traffic, _), _levels(verdict.levels, _), _clauses(verdict.levels, _), _errors(verdict.levels, _)]
    return [table for table in made if table.rows]


def provenance(facts: RunFacts, _: Words) -> list[tuple[str, str]]:
    """What was measured with what: enough to do it again."""
    engine = facts.engine
    lines: list[tuple[str, object]] = [
        (_("server"), " ".join(filter(None, [engine.engine, engine.version]))),
        (_("address"), engine.address.split("@")[-1]),
        (_("model"), engine.model),
        (_("context"), f"{engine.context_tokens:,} tokens" if engine.context_tokens else None),
        (_("quantization"), engine.quantization),
        (_("requests at once"), engine.slots),
        (_("KV cache"), f"{engine.kv_pool_tokens:,} tokens" if engine.kv_pool_tokens else None),
        (_("adapters"), ", ".join(engine.adapters)),
        (_("server metrics"), engine.metrics),
    ]
    for gpu in facts.gpus:
        memory = f"{gpu.memory_total_bytes / 2**30:.0f} GiB" if gpu.memory_total_bytes else None
        power = f"{gpu.power_limit_w:g} W" if gpu.power_limit_w else None
        driver = f"driver {gpu.driver}" if gpu.driver else None
        lines.append((_("GPU"), ", ".join(filter(None, [gpu.name, memory, power, driver]))))
    lines += [
        (_("service level"), promises(facts, _)),
        (_("begun"), moment(facts.started_utc)),
        (_("verb"), facts.verb),
        (_("seed"), facts.seed),
        ("headcount", f"{facts.headcount_version}, run format {facts.format_version}"),
        *sorted(facts.client.items()),
        *((_("note"), note) for note in facts.notes),
    ]
    return _told(lines)


def server_details(facts: RunFacts) -> list[tuple[str, str]]:
    """Whatever else the server said of itself, by its own names."""
    return _told(list(facts.engine.details.items()))


def _told(lines: list[tuple[str, object]]) -> list[tuple[str, str]]:
    return [(clean(name, 60), clean(str(value))) for name, value in lines if value not in (None, "", (), {}, [])]


def definitions(_: Words) -> list[tuple[str, str]]:
    """The words of the report."""
    return [
        (_("people"), _("Everybody in a conversation, those who read and think included. Not requests in flight.")),
        (_("in flight"), _("Requests the server was working on or had queued, on average.")),
        (_("TTFT"), _("Time from pressing enter to the first output of any kind.")),
        (_("per person"), _("Tokens a second of one answer while it is written (1 / TPOT), the median.")),
        (
            "p50, p95, n",
            _("Half, and 95 of 100, of n answers were at least as quick. Below 59 answers a p95 decides nothing."),
        ),
        (_("misses"), _("The share of requests that break the clause nearest to its bound; failed requests count.")),
        (
            _("feels"),
            _("How waits are felt: whole answers by their median, streamed ones by TTFT p95 and the speed of writing."),
        ),
        (_("holds, fails"), _("The interval of that share lies wholly within, or wholly beyond, what is allowed.")),
        (_("limit"), _("The most people for whom the service level held every time, with no failing number below.")),
        (_("plan for"), _("The people at the limit's lower end, less the headroom.")),
        (_("void"), _("A number of people whose measurement cannot be trusted; it decides nothing.")),
    ]


def _groups(traffic: Traffic | None, _: Words) -> Table:
    """Columns of names stand only where there are any, the style only where people differ in it."""
    groups = traffic.groups if traffic is not None else ()
    named = {_("persona"): "persona", _("model"): "model", _("adapter"): "adapter"}
    named = {heading: field for heading, field in named.items() if any(getattr(one, field) for one in groups)}
    styles = len({one.streamed for one in groups}) > 1
    headings = [*named, *([_("answers")] if styles else []), _("people"), "n", _("errors"), "TTFT p50", "TTFT p95"]
    headings += [_("answer p50"), _("answer p95"), _("per person")]
    headings += [_("prompt tokens"), _("output tokens"), _("asked for")]
    rows = [
        [
            *(clean(getattr(one, field), 80) for field in named.values()),
            *([_("streamed") if one.streamed else _("whole")] if styles else []),
            f"{one.people:,}",
            f"{one.n:,}",
            f"{one.n_errors:,}",
            *map(seconds, (one.ttft_p50_s, one.ttft_p95_s, one.e2e_p50_s, one.e2e_p95_s)),
            tokens_per_s(one.user_tokens_per_s),
            *map(number, (one.prompt_tokens_mean, one.output_tokens_mean, one.asked_tokens_mean)),
        ]
        for one in groups
    ]
    texts = [*named, _("answers")]
    return Table(_("By persona and adapter, over all levels"), headings, rows, texts, folded=False)


def _levels(levels: tuple[LevelSummary, ...], _: Words) -> Table:
    headings = ["#", _("people"), _("purpose"), _("condition"), _("decision"), _("window"), "n", _("errors")]
    headings += [_("TTFT p50/p95/max"), _("TPOT p50/p95/max"), _("answer p50/p95/max"), _("longest pause p50/p95/max")]
    headings += [_("tokens/s"), _("requests/s"), _("good requests/s"), _("per person"), _("in flight")]
    headings += [_("people inside"), _("prompt tokens"), _("of the plan"), _("output tokens"), _("of those asked for")]
    headings += [_("people by Little's law"), _("send delay p99")]
    headings += [_("loop lag p99"), _("running, most"), _("waiting, mean"), _("KV cache, most"), _("cache hits")]
    rows = [[*_named(level, _), *_measured(level, _)] for level in levels]
    texts = [_("purpose"), _("condition"), _("decision")]
    return Table(_("Every level, every number"), headings, rows, texts)


def _named(level: LevelSummary, _: Words) -> list[str]:
    return [
        str(level.index),
        str(level.users),
        _(level.purpose),
        clean(level.condition, 60),
        _(level.decision),
        duration(level.window_s, _),
        f"{level.n_requests:,}",
        f"{level.n_errors:,}",
    ]


def _measured(level: LevelSummary, _: Words) -> list[str]:
    estimated = "≈" if level.tokens_estimated else ""
    return [
        *map(_three, (level.ttft_s, level.tpot_s, level.e2e_s, level.max_gap_s)),
        estimated + tokens_per_s(level.output_tokens_per_s),
        number(level.requests_per_s),
        number(level.goodput_per_s),
        tokens_per_s(level.user_tokens_per_s),
        number(level.in_flight_mean),
        number(level.inside_users_mean),
        estimated + number(level.prompt_tokens_mean),
        percent(level.prompt_of_plan_fraction),
        estimated + number(level.output_tokens_mean),
        percent(level.output_of_asked_fraction),
        number(level.littles_users),
        seconds(level.send_delay_p99_s),
        seconds(level.loop_lag_p99_s),
        number(level.server_running_max),
        number(level.server_waiting_mean),
        percent(level.kv_used_max_fraction),
        percent(level.cache_hit_fraction),
    ]


def _three(quantiles: Quantiles) -> str:
    if quantiles.n == 0:
        return "–"
    return " / ".join(map(seconds, (quantiles.p50, quantiles.p95, quantiles.max)))


def _clauses(levels: tuple[LevelSummary, ...], _: Words) -> Table:
    headings = [
        "#",
        _("people"),
        _("clause"),
        "n",
        _("missed"),
        _("share"),
        _("95 % interval"),
        _("allowed"),
        _("decision"),
    ]
    rows = [
        [
            str(level.index),
            str(level.users),
            promise(clause.clause, _),
            f"{clause.n:,}",
            f"{clause.misses:,}",
            percent(clause.miss_fraction),
            f"{percent(clause.low_fraction)} – {percent(clause.high_fraction)}",
            percent(clause.allowed_fraction),
            _(clause.decision),
        ]
        for level in levels
        for clause in level.clauses
    ]
    return Table(_("Every clause at every level"), headings, rows, [_("clause"), _("decision")])


def _errors(levels: tuple[LevelSummary, ...], _: Words) -> Table:
    headings = ["#", _("people"), _("kind of error"), "n", _("the first one said")]
    rows = [
        [str(level.index), str(level.users), clean(kind, 60), f"{n:,}", clean(level.first_error or "", 300)]
        for level in levels
        for kind, n in sorted(level.error_kinds.items())
    ]
    return Table(_("Failed requests"), headings, rows, [_("kind of error"), _("the first one said")])
