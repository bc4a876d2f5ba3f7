"""From a GPU, a model and a quantization to the constants of a step, and whether it all fits into memory.

Knows nothing of requests and schedules; the facts come from the catalogue or from flags.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

from headcount.simulator.cost import Cost

__all__ = [
    "Efficiency",
    "Gpu",
    "Memory",
    "Model",
    "Quantization",
    "cost_of",
    "memory_of",
]

ALL_REDUCE_S = 12e-6
"""Latency of one all-reduce between GPUs of a machine; two a layer."""
ATTENTION_SHARE = 0.6
"""What prefill attention reaches of the speed of large matrix products."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The shares of the datasheet's figures that kernels reach."""

    weights: float
    kv: float
    compute: float
    spread: float = 0.0
    """Standard deviation of the logarithm of each."""

    def draw(self, rng: random.Random) -> Efficiency:
        """Another value it might really have; none above 1."""
        weights, kv, compute = (
            min(1.0, value * exp(rng.gauss(0.0, self.spread))) for value in (self.weights, self.kv, self.compute)
        )
        return Efficiency(weights, kv, compute)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator by its datasheet."""

    name: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    """Dense, by number type: ``fp16`` always, ``fp8`` and ``fp4`` where it has them."""
    power_w: float
    efficiency: Efficiency
    link_bytes_per_s: float = 32e9
    """To another GPU, one way; the default is a PCIe 4 slot."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """How weights are kept and multiplied."""

    name: str
    weight_bytes: float
    head_bytes: float
    compute: str
    """The number type of the products; fp16 on GPUs that lack it."""
    kernel: float
    """What its kernels reach of the GPU's efficiency in reading weights."""
    compute_kernel: float
    """The same in multiplying."""
    spread: float
    """Standard deviation of the logarithm of both."""
    attention_bytes: float | None = None
    """Of a weight in attention layers; None: as all others."""


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer decoder by its public configuration."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    feed_forward: int
    """Inner size of a dense layer's feed-forward part, or of one expert."""
    tied: bool = False
    """Embedding and output head are one matrix."""
    experts: int = 0
    experts_used: int = 0
    full_layers: int | None = None
    """Layers that attend to the whole context; None: all. The others only see a window, which is not counted."""

    @property
    def attention_parameters(self) -> int:
        """Of all layers."""
        return self.layers * self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Of all feed-forward parts, experts or not."""
        return self.layers * 3 * self.hidden * self.feed_forward * max(1, self.experts)

    @property
    def head_parameters(self) -> int:
        """Of the output head alone; the embedding is only looked up."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All that is kept in memory; norms and biases left out."""
        heads = self.head_parameters * (1 if self.tied else 2)
        return self.attention_parameters + self.expert_parameters + heads

    @property
    def active_parameters(self) -> float:
        """Multiplied for one token."""
        share = self.experts_used / self.experts if self.experts else 1.0
        return self.attention_parameters + self.expert_parameters * share + self.head_parameters

    def kv_bytes_per_token(self, number_bytes: float = 2.0) -> float:
        """Keys and values of one token in the layers that keep the whole context."""
        layers = self.layers if self.full_layers is None else self.full_layers
        return 2.0 * layers * self.kv_heads * self.head_dim * number_bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """What fills one machine's GPU memory, in bytes over all its GPUs."""

    total_bytes: float
    """What the engine may use."""
    weights_bytes: float
    overhead_bytes: float
    """Driver context, captured graphs, activations of a step."""
    kv_bytes: float
    """What is left for keys and values; below 0 when the weights alone do not fit."""
    kv_pool_tokens: int

    def fits(self, context_tokens: int) -> bool:
        """Whether at least one sequence of that length can run."""
        return self.kv_pool_tokens >= context_tokens


def cost_of(
    gpu: Gpu, model: Model, quantization: Quantization, gpus: int = 1, efficiency: Efficiency | None = None
) -> Cost:
    """The constants of a step on ``gpus`` cards side by side (tensor parallel)."""
    reached = efficiency or gpu.efficiency
    bandwidth = gpu.bandwidth_bytes_per_s * gpus
    flops = gpu.flops_per_s.get(quantization.compute, gpu.flops_per_s["fp16"]) * gpus
    flops *= min(1.0, reached.compute * quantization.compute_kernel)
    attention_flops = gpu.flops_per_s["fp16"] * gpus * reached.compute * ATTENTION_SHARE
    weights = bandwidth * min(1.0, reached.weights * quantization.kernel)
    attention_bytes, expert_bytes, head_bytes = _weights(model, quantization)
    dense_bytes = attention_bytes + head_bytes + (0.0 if model.experts else expert_bytes)
    overhead_s, traffic_s = 0.001 + 30e-6 * model.layers, 0.0
    if gpus > 1:
        overhead_s += 2 * model.layers * ALL_REDUCE_S
        traffic_s = 2 * model.layers * 2 * model.hidden * 2 * (gpus - 1) / gpus / gpu.link_bytes_per_s
    return Cost(
        overhead_s=overhead_s,
        weights_s=dense_bytes / weights,
        token_s=2 * model.active_parameters / flops + traffic_s,
        sequence_s=10e-6,
        context_token_s=model.kv_bytes_per_token() / (bandwidth * reached.kv),
        pair_s=4 * model.layers * model.heads * model.head_dim / attention_flops,
        adapter_fraction=0.05,
        experts_s=expert_bytes / weights if model.experts else 0.0,
        expert_fraction=model.experts_used / model.experts if model.experts else 1.0,
    )


def memory_of(
    gpu: Gpu, model: Model, quantization: Quantization, gpus: int = 1, memory_fraction: float = 0.9
) -> Memory:
    """How the memory of ``gpus`` cards is used up, of which the engine takes ``memory_fraction``."""
    total_bytes = gpu.memory_bytes * gpus * memory_fraction
    weights_bytes = sum(_weights(model, quantization))
    if not model.tied:
        weights_bytes += model.head_parameters * quantization.head_bytes
    overhead_bytes = 1.2e9 * gpus + 0.02 * weights_bytes
    kv_bytes = total_bytes - weights_bytes - overhead_bytes
    return Memory(
        total_bytes,
        weights_bytes,
        overhead_bytes,
        kv_bytes,
        max(0, int(kv_bytes / model.kv_bytes_per_token())),
    )


def _weights(model: Model, quantization: Quantization) -> tuple[float, float, float]:
    """Bytes of attention, of all feed-forward parts, and of the output head."""
    attention_bytes = quantization.attention_bytes or quantization.weight_bytes
    return (
        model.attention_parameters * attention_bytes,
        model.expert_parameters * quantization.weight_bytes,
        model.head_parameters * quantization.head_bytes,
    )
