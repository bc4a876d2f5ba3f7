"""vLLM. Run and recorded with 0.32; older metric names are from its sources."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, largest, mean, total
from headcount.engine.openai import OpenAI
from headcount.http.prometheus import readings
from headcount.records import EngineFacts, Prompt

__all__ = ["Vllm"]

_CACHE_DETAILS = (
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_max_concurrency",
    "num_gpu_blocks",
)
_SCHEDULER_DETAILS = (
    "max_num_batched_tokens",
    "max_num_queued_reqs",
    "max_num_queued_tokens",
    "enable_chunked_prefill",
    "policy",
    "async_scheduling",
    "stream_interval",
)
_PARALLEL_DETAILS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_MODEL_DETAILS = ("dtype", "enforce_eager")


class Vllm(OpenAI):
    """Whole facts only with ``VLLM_SERVER_DEV_MODE=1``; queue and memory without it too."""

    name = "vllm"
    about = About(
        title="vLLM",
        tried="run with 0.32 on a CPU",
        port=8000,
        told={
            "version": "/version",
            "model": "/v1/models",
            "adapters": "/v1/models, entries with a parent",
            "context_tokens": "/v1/models max_model_len",
            "kv_pool_tokens": "/metrics vllm:cache_config_info, over all engines",
            "slots": "/server_info max_num_seqs x data_parallel_size (VLLM_SERVER_DEV_MODE=1)",
            "quantization": "/server_info model_config (VLLM_SERVER_DEV_MODE=1)",
        },
        asks="ignore_eos, so that answers have the planned length; an adapter by its name as the model",
    )
    meter = Meter(
        {
            "server_running_requests": total("vllm:num_requests_running"),
            "server_waiting_requests": total("vllm:num_requests_waiting"),
            "server_kv_used_fraction": largest("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            "server_kv_used_mean_fraction": mean("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            "server_preemptions_total": total("vllm:num_preemptions_total"),
            "server_rejections_total": total("vllm:admission_rejections_total"),
            "server_prompt_tokens_total": total("vllm:prompt_tokens_total"),
            "server_output_tokens_total": total("vllm:generation_tokens_total"),
            "server_cache_hit_tokens_total": total("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            "server_cache_query_tokens_total": total(
                "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"
            ),
            "server_ttft_s_total": total("vllm:time_to_first_token_seconds_sum"),
            "server_ttft_requests_total": total("vllm:time_to_first_token_seconds_count"),
            "server_queue_s_total": total("vllm:request_queue_time_seconds_sum"),
        },
        turn_on="start it without --disable-log-stats",
    )

    async def facts(self) -> EngineFacts:
        """Models and adapters, version, KV pool, and the scheduler's limits where the server shows them."""
        known = await super().facts()
        version = inquiry.fields(await inquiry.get_json(self.client, "/version"))
        page = await self.meter.page(self.client)
        config = await inquiry.get_json(self.client, "/server_info?config_format=json")
        model, scheduler, parallel, lora = (
            inquiry.fields(config, "vllm_config", f"{part}_config")
            for part in ("model", "scheduler", "parallel", "lora")
        )
        engines = [line.labels for line in readings(page.text, ["vllm:cache_config_info"])]
        sequences, replicas = inquiry.whole(scheduler.get("max_num_seqs")), parallel.get("data_parallel_size")
        return replace(
            known,
            version=inquiry.text(version.get("version")),
            quantization=inquiry.text(model.get("quantization")),
            slots=None if sequences is None else sequences * (inquiry.whole(replicas) or 1),
            kv_pool_tokens=_pool_tokens(engines),
            metrics=page.state,
            details={
                **({} if not engines else {"engines": len(engines), **inquiry.picked(engines[0], _CACHE_DETAILS)}),
                **inquiry.picked(model, _MODEL_DETAILS),
                **inquiry.picked(scheduler, _SCHEDULER_DETAILS),
                **inquiry.picked(parallel, _PARALLEL_DETAILS),
                **inquiry.picked(lora, ("max_loras", "max_lora_rank")),
            },
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics."""
        return (*await super().prepare(facts, prompt), *await self.meter.notes(self.client))

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Generation goes on to the planned length. ``min_tokens`` would do too, but costs the sampler a mask."""
        return {"ignore_eos": True}

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``."""
        page = await self.meter.page(self.client)
        in_use = _adapters_in_use(page.text)
        return page.figures if in_use is None else {**page.figures, "server_adapters_in_use": in_use}


def _pool_tokens(engines: list[dict[str, str]]) -> int | None:
    """Tokens that all engines' KV caches hold together: told, or blocks x block size before 0.10."""
    found = []
    for labels in engines:
        size = inquiry.whole(labels.get("kv_cache_size_tokens"))
        blocks, block = inquiry.whole(labels.get("num_gpu_blocks")), inquiry.whole(labels.get("block_size"))
        found.append(size or (blocks * block if blocks and block else None))
    known = [tokens for tokens in found if tokens is not None]
    return sum(known) if known and len(known) == len(found) else None


def _adapters_in_use(text: str) -> float | None:
    """How many adapters running requests use now: the series' value is the time it was true, the latest counts."""
    lines = readings(text, ["vllm:lora_requests_info"])
    if not lines:
        return None
    names = max(lines, key=lambda line: line.value).labels.get("running_lora_adapters", "")
    return float(len([name for name in names.split(",") if name]))
