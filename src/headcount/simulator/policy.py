"""How a server admits, batches and refuses: one record, and what known engines do by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["POLICIES", "Policy", "llamacpp", "ollama", "sglang", "vllm"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduler's settings. Tokens of the pool are shared by all sequences, in blocks."""

    name: str = "vllm"
    slots: int = 256
    """The most sequences that run at once."""
    pool_tokens: int = 1 << 20
    """Tokens whose keys and values fit into memory at once."""
    max_batched_tokens: int = 8192
    """The most tokens of one step, decoding sequences included (excluded where prefill runs alone)."""
    context_tokens: int = 1 << 17
    """The longest one sequence may become."""
    block_tokens: int = 16
    """Tokens of one block: memory is handed out, and histories are recognised, in whole blocks."""
    prefill_alone: bool = False
    """Prompts are computed in steps of their own, and before any decoding (SGLang)."""
    reserve_fraction: float = 0.0
    """The share of the answers still allowed that admission keeps free (SGLang); 0: none (vLLM)."""
    prefix_cache: bool = True
    cached_sequences: int | None = None
    """The most idle histories kept; None: as many as fit into the pool."""
    queue_limit: int | None = None
    """Requests that may wait before others are refused with 503; None: any number."""
    adapter_slots: int | None = None
    """The most different adapters in one batch; None: any number."""
    mixed_adapters: bool = True
    """False: only sequences of one adapter share a batch (llama.cpp)."""
    prompt_only_limit: bool = False
    """True: a prompt is refused only when it alone overflows the context, and the answer ends early (llama.cpp);
    False: already when prompt and allowed answer together overflow (vLLM)."""

    def __post_init__(self) -> None:
        """Refuse settings under which nothing could ever run."""
        if min(self.slots, self.block_tokens, self.context_tokens, self.max_batched_tokens) < 1:
            raise ValueError("slots, block_tokens, context_tokens and max_batched_tokens must be at least 1")
        if self.max_batched_tokens <= self.slots and not self.prefill_alone:
            raise ValueError("max_batched_tokens must exceed slots, or prompts may never be computed")
        if self.pool_tokens < self.block_tokens:
            raise ValueError("pool_tokens must hold at least one block")


def vllm(**settings: Any) -> Policy:
    """vLLM's: chunked prefill mixed with decoding, blocks of 16, preemption by recomputation."""
    return Policy(**{"name": "vllm", "max_batched_tokens": 2048, "adapter_slots": 4, **settings})


def sglang(**settings: Any) -> Policy:
    """SGLang's: prefill first and alone, pages of one token, part of the allowed answers reserved."""
    given = {
        "name": "sglang",
        "block_tokens": 1,
        "prefill_alone": True,
        "reserve_fraction": 0.5,
        "adapter_slots": 8,
    }
    return Policy(**{**given, **settings})


def llamacpp(slots: int = 4, context_tokens: int = 8192, unified: bool = False, **settings: Any) -> Policy:
    """llama.cpp's: fixed slots; ``context_tokens`` is ``-c``, split between the slots unless ``unified``."""
    given = {
        "name": "llamacpp",
        "slots": slots,
        "pool_tokens": context_tokens,
        "context_tokens": context_tokens if unified else context_tokens // slots,
        "max_batched_tokens": 2048,
        "block_tokens": 1,
        "cached_sequences": slots,
        "mixed_adapters": False,
        "prompt_only_limit": True,
    }
    return Policy(**{**given, **settings})


def ollama(slots: int = 1, context_tokens: int = 4096, **settings: Any) -> Policy:
    """Ollama's: llama.cpp's slots of ``context_tokens`` *each*, and a queue of 512 before 503."""
    given = {"name": "ollama", "queue_limit": 512, "max_batched_tokens": 512, **settings}
    return llamacpp(slots, context_tokens * slots, **given)


POLICIES = {"vllm": vllm, "sglang": sglang, "llamacpp": llamacpp, "ollama": ollama}
