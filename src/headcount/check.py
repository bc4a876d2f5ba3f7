"""``headcount check``: is the server reachable, what is it, does it stream and count, what will be asked.

Prints one page that an operator could paste into a bug report: no key, no token, no prompt of anybody's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.cells import cell_len

from headcount.analysis.fingerprint import changes
from headcount.metrics import ttft_s
from headcount.preflight import PROBE_TOKENS, Ready, probe, reach
from headcount.records import EngineFacts, Reply, Request, RunFacts
from headcount.report.format import clean, number, seconds
from headcount.report.words import Words, words
from headcount.scenario import EngineOptions, Scenario, load_scenario
from headcount.store import open_run
from headcount.telemetry.sampler import Sampler, open_sources
from headcount.virtual import clock

__all__ = ["check"]

CHANGED = 1
"""Exit code: the server is no longer what it was."""
UNUSABLE = 3
"""Exit code: the server was reached, but did not answer as it will be asked."""
NAME_COLUMNS = 12

_Rows = list[tuple[str, str]]
"""What was found: names and values."""


def check(
    target: str,
    *,
    model: str | None,
    api_key: str | None,
    against: Path | None = None,
    language: str = "en",
    tell: Callable[[str], None] | None = None,
) -> int:
    """Check a server's address or a scenario file; print what was found; 0 when it can be measured.

    ``model`` stands in place of the scenario's. ``against`` is a stored run: what changed since then is said, and 1
    given when anything did, since a re-test is due; 3 when the server does not answer. ``tell`` hears what is waited
    for. Raises ``ServerError`` or ``ScenarioError`` when the server cannot be measured.
    """
    earlier = open_run(against).facts if against is not None else None
    if target.endswith(".toml") or Path(target).is_file():
        scenario = load_scenario(Path(target))
    else:
        scenario = Scenario(engine=EngineOptions(url=target))
    engine = msgspec.structs.replace(scenario.engine, model=model or scenario.engine.model)
    scenario = msgspec.structs.replace(scenario, engine=engine)
    rows, code = asyncio.run(_look(scenario, api_key, earlier, words(language), tell))
    for name, value in rows:
        print(f"{name}{' ' * max(0, NAME_COLUMNS - cell_len(name))} {value}")
    return code


async def _look(
    scenario: Scenario, api_key: str | None, earlier: RunFacts | None, _: Words, tell: Callable[[str], None] | None
) -> tuple[_Rows, int]:
    """The page, and the exit code."""
    ready = await reach(scenario.engine, api_key, tell=tell)
    try:
        reply, asked_at_s = await _ask(ready)
    finally:
        await ready.engine.close()
    rows = [*_facts_rows(ready.facts, _), *_reply_rows(reply, asked_at_s, _)]
    rows += [(_("note"), clean(_(note))) for note in ready.notes]
    sampler = Sampler(open_sources(scenario.telemetry.gpu_metrics, ready.facts.address))
    rows += [("GPU", clean(gpu.name)) for gpu in sampler.gpus]
    rows += [("GPU", clean(_(note))) for note in sampler.notes]
    sampler.stop()
    code = 0 if reply.error is None else UNUSABLE
    if earlier is None:
        return rows, code
    now = msgspec.structs.replace(earlier, engine=ready.facts, gpus=sampler.gpus)
    differing = changes(earlier, now)
    due = _("{change}: a re-test is due")
    rows += [(_("changed"), due.format(change=clean(_(difference)))) for difference in differing]
    if not differing:
        rows.append((_("changed"), _("nothing that is known to change the answer")))
    return rows, code or (CHANGED if differing else 0)


async def _ask(ready: Ready) -> tuple[Reply, float]:
    """One small streamed request, exactly as it will be asked."""
    reply = Reply()
    asked_at_s = clock()()
    await ready.engine.send(probe(ready.facts), reply)
    return reply, asked_at_s


def _facts_rows(facts: EngineFacts, _: Words) -> _Rows:
    """Name and value of whatever the server told; what it did not tell is said so."""
    tokens = _("{n} tokens")
    rows: list[tuple[str, str | None]] = [
        (_("address"), facts.address),
        (_("engine"), f"{facts.engine} {facts.version or _('(version not told)')}"),
        (_("model"), facts.model),
        (_("other models"), ", ".join(m for m in facts.models if m != facts.model) or _("none")),
        (_("adapters"), ", ".join(facts.adapters) or _("none")),
        (_("context"), None if facts.context_tokens is None else tokens.format(n=number(facts.context_tokens, 9))),
        (_("slots"), None if facts.slots is None else str(facts.slots)),
        (_("KV pool"), None if facts.kv_pool_tokens is None else tokens.format(n=number(facts.kv_pool_tokens, 9))),
        (_("quantization"), facts.quantization),
        (_("metrics"), facts.metrics),
    ]
    return [(name, _("not told") if value is None else clean(value)) for name, value in rows]


def _reply_rows(reply: Reply, asked_at_s: float, _: Words) -> _Rows:
    """What one small request showed."""
    if reply.error is not None:
        return [(_("answers"), f"{_('no')}: {reply.error}: {clean(reply.error_text or '')}")]
    request = Request(
        level=0,
        person=0,
        conversation=0,
        turn=1,
        scheduled_at_s=asked_at_s,
        ended_at_s=reply.ended_at_s or asked_at_s,
        chunk_at_s=reply.chunk_at_s,
    )
    first_s = ttft_s(request)
    streams = _("yes") if reply.chunk_at_s else _("no")
    will_ask = _("streamed chat completions with history, at first {n} tokens were asked")
    return [
        (_("streams"), _("{answer}, {n} chunks").format(answer=streams, n=len(reply.chunk_at_s))),
        (_("usage"), _usage(reply, _)),
        (
            _("first token"),
            _("not seen") if first_s is None else _("after {time}").format(time=seconds(first_s)),
        ),
        (_("will ask"), will_ask.format(n=PROBE_TOKENS)),
    ]


def _usage(reply: Reply, _: Words) -> str:
    if reply.output_tokens is None:
        return _("not reported: token counts will be estimates")
    told = _("{prompt} prompt tokens, {output} output tokens")
    return told.format(
        prompt=_("unknown") if reply.prompt_tokens is None else reply.prompt_tokens, output=reply.output_tokens
    )
