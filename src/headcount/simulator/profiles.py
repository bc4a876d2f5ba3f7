"""Ready-made servers by name, for trying things out. Real hardware is in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.simulator.cost import Cost
from headcount.simulator.policy import Policy, llamacpp, sglang, vllm

__all__ = ["PROFILES", "Profile"]


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
