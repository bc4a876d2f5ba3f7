"""``headcount check``: is the server reachable, what is it, does it stream and count, what will be asked.

Prints one page that an operator could paste into a bug report: no key, no token, no prompt of anybody's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from headcount.analysis.fingerprint import changes
from headcount.metrics import ttft_s
from headcount.preflight import PROBE_TOKENS, Ready, probe, reach
from headcount.records import EngineFacts, Reply, Request, RunFacts
from headcount.report.format import clean, seconds
from headcount.scenario import EngineOptions, Scenario, load_scenario
from headcount.store import open_run
from headcount.telemetry.sampler import Sampler, open_sources
from headcount.virtual import clock

__all__ = ["check"]

CHANGED = 1
"""Exit code: the server is no longer what it was."""


def check(target: str, *, model: str | None, api_key: str | None, against: Path | None = None) -> int:
    """Check a server's address or a scenario file; print what was found; 0 when it can be measured.

    ``against`` is a stored run: what changed since then is said, and 1 given when anything did, since a re-test is
    due. Raises ``ServerError`` or ``ScenarioError`` when the server cannot be measured.
    """
    earlier = open_run(against).facts if against is not None else None
    if target.endswith(".toml") or Path(target).is_file():
        scenario = load_scenario(Path(target))
    else:
        scenario = Scenario(engine=EngineOptions(url=target, model=model))
    lines, differing = asyncio.run(_look(scenario, api_key, earlier))
    print("\n".join(lines))
    return CHANGED if differing else 0


async def _look(scenario: Scenario, api_key: str | None, earlier: RunFacts | None) -> tuple[list[str], list[str]]:
    """The page, and what differs from an earlier run."""
    ready = await reach(scenario.engine, api_key)
    try:
        reply, asked_at_s = await _ask(ready)
    finally:
        await ready.engine.close()
    lines = [*_facts_lines(ready.facts), *_reply_lines(reply, asked_at_s)]
    lines += [f"note         {clean(note)}" for note in ready.notes]
    sampler = Sampler(open_sources(scenario.telemetry.gpu_metrics, ready.facts.address))
    lines += [f"gpu          {gpu.name}" for gpu in sampler.gpus]
    lines += [f"gpu          {clean(note)}" for note in sampler.notes]
    sampler.stop()
    if earlier is None:
        return lines, []
    now = msgspec.structs.replace(earlier, engine=ready.facts, gpus=sampler.gpus)
    differing = changes(earlier, now)
    lines += [f"changed      {difference}: a re-test is due" for difference in differing]
    return lines + ([] if differing else ["changed      nothing that is known to change the answer"]), differing


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
    return [f"{name:<12} {'not told' if value is None else clean(str(value))}" for name, value in rows]


def _reply_lines(reply: Reply, asked_at_s: float) -> list[str]:
    """What one small request showed."""
    if reply.error is not None:
        return [f"answers      no: {reply.error}: {clean(reply.error_text or '')}"]
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
