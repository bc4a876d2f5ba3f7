"""Servers: a few ready-made ones by name, for trying things out, and any from the catalogue's hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headcount.errors import ScenarioError
from headcount.simulator.catalogue import find_gpu, find_model, find_quantization, known_model
from headcount.simulator.cost import Cost
from headcount.simulator.hardware import cost_of
from headcount.simulator.policy import POLICIES, Policy, llamacpp, sglang, vllm
from headcount.simulator.room import room_for

__all__ = ["PROFILES", "USUAL_SLOTS", "Profile", "profile_of"]

USUAL_SLOTS = {"vllm": 256, "sglang": 256, "llamacpp": 4, "ollama": 4}
"""What each engine runs at once when nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A model on a machine under an engine."""

    model: str
    quantization: str
    cost: Cost
    policy: Policy


_RTX_8B = Cost(
    overhead_s=0.0020,
    weights_s=0.0120,
    token_s=0.00036,
    sequence_s=0.00006,
    context_token_s=2.9e-7,
    pair_s=1.4e-8,
    adapter_fraction=0.08,
    adapter_load_s=0.02,
)
"""Qwen3-8B in 4 bits on a 16 GB card with about 500 GB/s and 40 TFLOP/s."""

PROFILES: dict[str, Profile] = {
    "home": Profile("simulated-8b-awq", "awq", _RTX_8B, vllm(slots=32, pool_tokens=40_960, context_tokens=8192)),
    "workstation": Profile(
        "simulated-8b-awq",
        "awq",
        Cost(0.0022, 0.0036, 0.00005, 0.00004, 1.1e-7, 1.6e-9, 0.05, 0.01),
        sglang(slots=128, pool_tokens=400_000, context_tokens=8192),
    ),
    "laptop": Profile(
        "simulated-3b-q4",
        "q4_k_m",
        Cost(0.004, 0.030, 0.0012, 0.0002, 1.2e-6, 6e-8),
        llamacpp(slots=4, context_tokens=16_384),
    ),
}


def profile_of(
    gpu: str,
    model: str,
    cards: int = 1,
    policy: str = "vllm",
    slots: int | None = None,
    context_tokens: int = 8192,
    *,
    quantization: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Profile:
    """A server from the catalogue, or with the model of a ``config.json``. ``ScenarioError`` when a context does not
    fit into memory, with what would."""
    card = find_gpu(gpu)
    found, weights = find_model(model) if config is None else known_model(model, config)
    if quantization is not None:
        weights = find_quantization(quantization)
    pool = room_for(card, found, weights, cards, context_tokens).kv_pool_tokens
    sizes = {"slots": slots or USUAL_SLOTS[policy]}
    if policy in ("llamacpp", "ollama"):
        sizes["context_tokens"] = context_tokens * sizes["slots"] if policy == "llamacpp" else context_tokens
        if sizes["slots"] * context_tokens > pool:
            raise ScenarioError(
                f"{sizes['slots']} slots of {context_tokens} tokens do not fit: memory holds {pool} tokens",
                "fewer slots, or a shorter context",
            )
    else:
        sizes |= {"pool_tokens": pool, "context_tokens": context_tokens}
        if policy == "vllm" and sizes["slots"] >= 2048:
            sizes["max_batched_tokens"] = 2048 + sizes["slots"]
    return Profile(model, weights.name, cost_of(card, found, weights, cards), POLICIES[policy](**sizes))
