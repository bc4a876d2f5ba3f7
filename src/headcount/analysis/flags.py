"""What to turn on a server, by what gives out first and by its kind: data, and who tells it."""

from __future__ import annotations

from headcount.records import EngineFacts

__all__ = ["FLAGS", "advice", "kind_of"]

FLAGS: dict[str, dict[str, str]] = {
    "slots": {
        "vllm": "--max-num-seqs",
        "sglang": "--max-running-requests",
        "llamacpp": "--parallel (and -c, which the slots share)",
        "ollama": "OLLAMA_NUM_PARALLEL",
        "tgi": "--max-concurrent-requests",
        "trtllm": "--max_batch_size",
        "lmdeploy": "--max-batch-size",
    },
    "kv-memory": {
        "vllm": "--gpu-memory-utilization, --max-model-len or --kv-cache-dtype fp8",
        "sglang": "--mem-fraction-static or --context-length",
        "llamacpp": "-c, or --cache-type-k q8_0 --cache-type-v q8_0",
        "ollama": "OLLAMA_CONTEXT_LENGTH or OLLAMA_KV_CACHE_TYPE",
        "tgi": "--max-batch-total-tokens or --cuda-memory-fraction",
        "trtllm": "--kv_cache_free_gpu_memory_fraction",
        "lmdeploy": "--cache-max-entry-count or --quant-policy 8",
    },
    "prefill-compute": {
        "vllm": "--max-num-batched-tokens with --enable-chunked-prefill, and --enable-prefix-caching",
        "sglang": "--chunked-prefill-size, --max-prefill-tokens",
        "llamacpp": "--batch-size and --ubatch-size",
        "tgi": "--max-batch-prefill-tokens",
        "trtllm": "--max_num_tokens with --enable_chunked_prefill",
        "lmdeploy": "--max-prefill-token-num",
    },
    "decode-bandwidth": {
        "vllm": "--quantization or --tensor-parallel-size",
        "sglang": "--quantization or --tp-size",
        "tgi": "--quantize or --num-shard",
        "trtllm": "--tp_size",
        "lmdeploy": "--tp",
    },
    "adapters": {
        "vllm": "--max-loras, and --max-cpu-loras for those that wait",
        "sglang": "--max-loras-per-batch, and --max-loaded-loras for those that wait",
        "llamacpp": "a server for each adapter, since requests of different ones never share a batch",
    },
}
"""By cause and engine. A cause is one of ``Verdict.cause``, an engine a key of ``ENGINES``."""

GENERAL: dict[str, str] = {
    "slots": "allow more sequences at once if memory permits",
    "kv-memory": "give the KV cache more memory, or shorten contexts and histories",
    "prefill-compute": "shorten prompts, share their beginnings, or let long prompts be read in pieces",
    "decode-bandwidth": (
        "a smaller or more strongly quantized model, a GPU with more memory bandwidth, or shorter contexts"
    ),
    "adapters": "let more adapters run at once, or merge those that are used most into models of their own",
}
"""What helps whatever the server is."""


def kind_of(engine: EngineFacts | None) -> str:
    """Its key in ``ENGINES``; of a simulated server that of the engine whose scheduler it has, empty for none."""
    if engine is None:
        return ""
    return str(engine.details.get("policy", "")) if engine.engine == "simulated" else engine.engine


def advice(cause: str, engine: EngineFacts | None) -> tuple[str, ...]:
    """What to change, with the flags of this server where they are known."""
    known = FLAGS[cause].get(kind_of(engine))
    return (f"{GENERAL[cause]}: {known}" if known else GENERAL[cause],)
