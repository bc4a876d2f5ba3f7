"""``headcount check``: is the server reachable, what is it, does it stream and count, what will be asked.

Prints one page that an operator could paste into a bug report: no key, no token, no prompt of anybody's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from headcount.metrics import ttft_s
from headcount.preflight import PROBE_TOKENS, Ready, probe, reach
from headcount.records import EngineFacts, Reply, Request
from headcount.report.format import seconds
from headcount.scenario import EngineOptions, Scenario, load_scenario
from headcount.telemetry.sampler import Sampler, open_sources
from headcount.virtual import clock

__all__ = ["check"]


def check(target: str | None, *, model: str | None, api_key: str | None) -> int:
    """Check a server's address or a scenario file; print what was found; 0 when it can be measured.

    Raises ``ServerError`` or ``ScenarioError`` when it cannot.
    """
    if target is not None and (target.endswith(".toml") or Path(target).is_file()):
        scenario = load_scenario(Path(target))
    else:
        scenario = Scenario(engine=EngineOptions(url=target or "", model=model))
    lines = asyncio.run(_look(scenario, api_key))
    print("\n".join(lines))
    return 0


async def _look(scenario: Scenario, api_key: str | None) -> list[str]:
    ready = await reach(scenario.engine, api_key)
    try:
        reply, asked_at_s = await _ask(ready)
    finally:
        await ready.engine.close()
    lines = [*_facts_lines(ready.facts), *_reply_lines(reply, asked_at_s)]
    lines += [f"note         {note}" for note in ready.notes]
    sampler = Sampler(open_sources(scenario.telemetry.gpu_metrics, ready.facts.address))
    lines += [f"gpu          {gpu.name}" for gpu in sampler.gpus]
    lines += [f"not seen     {note}" for note in sampler.notes]
    return lines


async def _ask(ready: Ready) -> tuple[Reply, float]:
    """One small streamed request, exactly as it will be asked."""
    reply = Reply()
    asked_at_s = clock()()
    await ready.engine.send(probe(ready.facts), reply)
    return reply, asked_at_s


def _facts_lines(facts: EngineFacts) -> list[str]:
    """Name and value of whatever the server told; what it did not tell is said so."""
    rows: list[tuple[str, object]] = [
        ("address", facts.address),
        ("engine", f"{facts.engine} {facts.version or '(version not told)'}"),
        ("model", facts.model),
        ("other models", ", ".join(m for m in facts.models if m != facts.model) or "none"),
        ("adapters", ", ".join(facts.adapters) or "none"),
        ("context", None if facts.context_tokens is None else f"{facts.context_tokens} tokens"),
        ("slots", facts.slots),
        ("KV pool", None if facts.kv_pool_tokens is None else f"{facts.kv_pool_tokens} tokens"),
        ("quantization", facts.quantization),
        ("metrics", facts.metrics),
    ]
    return [f"{name:<12} {'not told' if value is None else value}" for name, value in rows]


def _reply_lines(reply: Reply, asked_at_s: float) -> list[str]:
    """What one small request showed."""
    if reply.error is not None:
        return [f"answers      no: {reply.error}: {reply.error_text or ''}"]
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
    return [
        f"streams      {'yes' if reply.chunk_at_s else 'no'}, {len(reply.chunk_at_s)} chunks",
        f"usage        {_usage(reply)}",
        f"first token  after {seconds(first_s)}" if first_s is not None else "first token  not seen",
        f"will ask     streamed chat completions with history, at first {PROBE_TOKENS} tokens were asked",
    ]


def _usage(reply: Reply) -> str:
    if reply.output_tokens is None:
        return "not reported: token counts will be estimates"
    return f"{reply.prompt_tokens} prompt tokens, {reply.output_tokens} output tokens"
