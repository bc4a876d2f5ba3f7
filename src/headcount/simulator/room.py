"""Whether a model and its contexts fit into the memory of some cards, and what would fit where they do not."""

from __future__ import annotations

from headcount.errors import ScenarioError
from headcount.simulator.catalogue import gpus, smaller_quantizations
from headcount.simulator.hardware import Gpu, Memory, Model, Quantization, memory_of

__all__ = ["room_for", "what_would_fit"]

_MOST_GPUS = 8


def room_for(
    gpu: Gpu, model: Model, quantization: Quantization, cards: int, context_tokens: int, memory_fraction: float = 0.9
) -> Memory:
    """The memory of ``cards`` with that model; ``ScenarioError`` when not one sequence of that length fits, with what
    would."""
    memory = memory_of(gpu, model, quantization, cards, memory_fraction)
    if memory.fits(context_tokens):
        return memory
    needed_bytes = memory.weights_bytes + memory.overhead_bytes + context_tokens * model.kv_bytes_per_token()
    on = gpu.name if cards == 1 else f"{cards} x {gpu.name}"
    raise ScenarioError(
        f"{model.name} ({quantization.name}) with a context of {context_tokens} tokens does not fit onto {on}: it "
        f"needs {needed_bytes / 1e9:.1f} GB, the engine may use {memory.total_bytes / 1e9:.1f} GB",
        "what would fit: "
        + ("; ".join(what_would_fit(gpu, model, quantization, cards, context_tokens)) or "nothing in the catalogue"),
    )


def what_would_fit(
    gpu: Gpu, model: Model, quantization: Quantization, cards: int, context_tokens: int
) -> tuple[str, ...]:
    """The mildest change of each kind that is enough: context, quantization, number of cards, card."""
    found = []
    held = memory_of(gpu, model, quantization, cards).kv_pool_tokens
    if held >= 1024:
        found.append(f"a context of {held // 1024 * 1024} tokens")
    for other in smaller_quantizations(quantization):
        if memory_of(gpu, model, other, cards).fits(context_tokens):
            found.append(other.name)
            break
    for more in range(cards + 1, _MOST_GPUS + 1):
        if memory_of(gpu, model, quantization, more).fits(context_tokens):
            found.append(f"{more} x {gpu.name}")
            break
    for other_gpu in gpus():
        bigger = other_gpu.memory_bytes > gpu.memory_bytes
        if bigger and memory_of(other_gpu, model, quantization, cards).fits(context_tokens):
            found.append(other_gpu.name if cards == 1 else f"{cards} x {other_gpu.name}")
            break
    return tuple(found)
