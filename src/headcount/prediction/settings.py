"""A scheduler's settings from what a server tells of itself: what is missing is as its kind does by default."""

from __future__ import annotations

from typing import Any

from headcount.prediction.served import Hardware
from headcount.records import EngineFacts
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.profiles import USUAL_SLOTS

__all__ = ["policy_of"]

_UNTOLD_CONTEXT_TOKENS = 8192
_BATCHED = ("max_num_batched_tokens", "chunked_prefill_size", "n_batch", "max_batched_tokens")


def policy_of(
    facts: EngineFacts, *, slots: int | None = None, prefix_cache: bool = True, hardware: Hardware | None = None
) -> Policy:
    """The policy of the server's kind, vLLM's for one that is not known; ``slots`` where only the client saw them."""
    name = str(facts.details.get("policy", facts.engine))
    name = name if name in POLICIES else "vllm"
    slots = facts.slots or slots or USUAL_SLOTS[name]
    context_tokens = facts.context_tokens or _UNTOLD_CONTEXT_TOKENS
    given: dict[str, Any] = {"prefix_cache": prefix_cache}
    if name in ("llamacpp", "ollama"):
        whole = context_tokens * slots if name == "llamacpp" else context_tokens
        return POLICIES[name](slots=slots, context_tokens=whole, **given)
    room = hardware.memory().kv_pool_tokens if hardware is not None else 0
    pool_tokens = facts.kv_pool_tokens or room or slots * context_tokens
    batched = [int(facts.details[key]) for key in _BATCHED if isinstance(facts.details.get(key), int)]
    if batched and batched[0] > slots:
        given["max_batched_tokens"] = batched[0]
    elif slots >= 2048:
        given["max_batched_tokens"] = slots + 2048
    context_tokens = min(context_tokens, pool_tokens)
    return POLICIES[name](slots=slots, pool_tokens=pool_tokens, context_tokens=context_tokens, **given)
