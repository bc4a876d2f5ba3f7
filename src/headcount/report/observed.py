"""What was seen beside the waits, in words and tables: turns, stages, the server's own figures, GPUs.

Knows nothing of HTML.
"""

from __future__ import annotations

from headcount.analysis.conclusions import LevelSummary, Verdict
from headcount.analysis.statements import statements
from headcount.records import Gpu, RunFacts
from headcount.report.format import clean, number, percent, seconds
from headcount.report.tables import Table
from headcount.report.traffic import Traffic
from headcount.report.words import Words

__all__ = ["observations", "tables"]


def observations(verdict: Verdict, facts: RunFacts, _: Words) -> list[str]:
    """What the levels say of throughput, memory, heat and power."""
    return [_(text) for text in statements(verdict.levels, facts.gpus)]


def tables(verdict: Verdict, traffic: Traffic | None, facts: RunFacts, _: Words) -> list[Table]:
    """All tables that have rows."""
    made = [_turns(traffic, _), _stages(traffic, _), _truth(verdict.levels, _), _gpus(verdict.levels, facts.gpus, _)]
    return [table for table in made if table.rows]


def _turns(traffic: Traffic | None, _: Words) -> Table:
    """Only where conversations have more than one turn."""
    turns = traffic.turns if traffic is not None and len(traffic.turns) > 1 else ()
    headings = [_("turn"), "n", "TTFT p50", "TTFT p95", _("prompt tokens"), _("cached")]
    rows = [
        [
            str(one.turn),
            f"{one.n:,}",
            seconds(one.ttft_p50_s),
            seconds(one.ttft_p95_s),
            number(one.prompt_tokens_mean),
            percent(one.cached_fraction),
        ]
        for one in turns
    ]
    return Table(_("Turn by turn, over all levels"), headings, rows)


def _stages(traffic: Traffic | None, _: Words) -> Table:
    headings = [_("step"), "n", "p50", "p95", _("max")]
    rows = [
        [clean(one.name, 80), f"{one.n:,}", *map(seconds, (one.p50_s, one.p95_s, one.max_s))]
        for one in (traffic.stages if traffic is not None else ())
    ]
    return Table(_("Steps outside the model, never part of the waits above"), headings, rows, [_("step")])


def _truth(levels: tuple[LevelSummary, ...], _: Words) -> Table:
    """The client's mean TTFT against the server's."""
    headings = ["#", _("people"), _("TTFT as felt, mean"), _("by the server, mean"), _("gap")]
    rows = [
        [
            str(level.index),
            str(level.users),
            seconds(level.ttft_mean_s),
            seconds(level.server_ttft_mean_s),
            seconds(level.ttft_mean_s - level.server_ttft_mean_s),
        ]
        for level in levels
        if level.ttft_mean_s is not None and level.server_ttft_mean_s is not None
    ]
    return Table(_("The server's own word: the rest is network, a proxy, or a queue before the engine"), headings, rows)


def _gpus(levels: tuple[LevelSummary, ...], gpus: tuple[Gpu, ...], _: Words) -> Table:
    headings = ["#", _("people"), "GPU", _("memory, most"), _("warmest"), _("power, mean"), _("busy, mean")]
    called = {gpu.uuid: gpu.name if len(gpus) == 1 else f"{gpu.name} ({place})" for place, gpu in enumerate(gpus)}
    rows = [
        [
            str(level.index),
            str(level.users),
            clean(called.get(one.uuid, one.uuid), 60),
            "–" if one.memory_used_max_bytes is None else f"{one.memory_used_max_bytes / 2**30:.1f} GiB",
            "–" if one.temperature_max_c is None else f"{one.temperature_max_c:.0f} °C",
            "–" if one.power_mean_w is None else f"{one.power_mean_w:.0f} W",
            percent(one.utilization_mean_fraction),
        ]
        for level in levels
        for one in level.gpus
    ]
    return Table(_("Each GPU at every level"), headings, rows, ["GPU"])
