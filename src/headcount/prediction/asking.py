"""Calibrating a server by asking it: a minute of prompts and small bursts, a fit, and two levels that were not fitted.

Client only: needs nothing of the server but streamed answers with token counts. Knows nothing of stored runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from headcount.prediction.calibration import CALIBRATION_VERSION, Calibration, Check, Told
from headcount.prediction.checking import capacity, check_level
from headcount.prediction.fitted import drawn_columns, fitted
from headcount.prediction.settings import policy_of
from headcount.preflight import Ready, reach
from headcount.probing import Seen, probe
from headcount.records import Prompt, Reply
from headcount.scenario import EngineOptions
from headcount.simulator.cost import Cost
from headcount.simulator.fitting import Fit
from headcount.simulator.policy import Policy
from headcount.virtual import clock
from headcount.workload.calibration import PROBE

__all__ = ["LONGEST_S", "calibrate_server"]

LONGEST_S = 60.0
"""A calibration takes no longer, as far as a server's pace can be foreseen."""
_PROBE_SHARE, _CHECK_SHARE = 0.52, 0.15
"""Of all the time: asking alone and in bursts; each of the two levels."""
_CACHED = 0.6
"""A repeated prompt must be answered in less than this share of the first time's for a prefix cache to be believed."""
_UNTOLD_CONTEXT_TOKENS = 4096

_Progress = Callable[[str], None]


async def calibrate_server(
    options: EngineOptions,
    api_key: str | None,
    told: Told | None = None,
    *,
    longest_s: float = LONGEST_S,
    progress: _Progress = lambda _: None,
) -> Calibration:
    """Ask the server, fit, and check; whether the result may be believed is for ``check_trust`` to say.

    Raises ``ServerError`` when it cannot be used, ``NotTrustedError`` when too little could be seen.
    """
    hardware = told.hardware() if told is not None else None
    ready = await reach(options, api_key)
    facts = ready.facts
    try:
        began_s = clock()()
        seen = await probe(
            ready.engine,
            facts.context_tokens or _UNTOLD_CONTEXT_TOKENS,
            facts.slots,
            adapter=facts.adapters[0] if facts.adapters else None,
            longest_s=_PROBE_SHARE * longest_s,
            told=progress,
        )
        policy = policy_of(facts, slots=seen.slots, prefix_cache=seen.cached_share < _CACHED, hardware=hardware)
        found = fitted(seen.prefills, seen.decodes, policy, hardware)
        cost = replace(found.cost, adapter_fraction=seen.adapter_fraction or found.cost.adapter_fraction)
        checks = (
            await _checks(ready, cost, policy, (found.request_s, seen.tail_s), _CHECK_SHARE * longest_s, progress)
            if found.is_trusted
            else ()
        )
        template_tokens = await _template_tokens(ready)
        took_s = clock()() - began_s
    finally:
        await ready.engine.close()
    return Calibration(
        format_version=CALIBRATION_VERSION,
        headcount_version=version("headcount"),
        calibrated_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        method="client",
        source=facts.address or facts.engine,
        simulated=facts.engine == "simulated",
        cached_share=seen.cached_share,
        tail_s=seen.tail_s,
        template_tokens=template_tokens,
        took_s=took_s,
        engine=facts,
        told=told,
        cost=cost,
        policy=policy,
        checks=checks,
        **_fit_facts(found, seen),
    )


def _fit_facts(found: Fit, seen: Seen) -> dict[str, Any]:
    return {
        "residual_fraction": found.residual,
        "request_s": found.request_s,
        "spread": found.spreads,
        "draws": drawn_columns(found),
        "prefills": tuple(seen.prefills),
        "decodes": tuple(seen.decodes),
        "each_residual_fraction": found.residuals,
    }


async def _checks(
    ready: Ready, cost: Cost, policy: Policy, outside_s: tuple[float, float], longest_s: float, progress: _Progress
) -> tuple[Check, ...]:
    """One level near half of what the server can take, one near it."""
    most = capacity(cost, policy)
    checks = []
    for requests in sorted({max(1, round(0.5 * most)), max(1, round(0.9 * most))}):
        progress(f"check: {requests} at once, not fitted")
        checks.append(await check_level(ready.engine, cost, policy, outside_s, requests, longest_s))
    return tuple(checks)


async def _template_tokens(ready: Ready) -> int | None:
    """What the server's template adds to a conversation of one message; None when it does not count."""
    reply = Reply()
    await ready.engine.send(Prompt(({"role": "user", "content": PROBE},), 1), reply)
    return None if reply.prompt_tokens is None else max(0, reply.prompt_tokens - 1)
