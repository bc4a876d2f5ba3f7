"""TensorRT-LLM's ``trtllm-serve``. From its source; never run here."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, figures, largest, total
from headcount.engine.openai import OpenAI
from headcount.http.prometheus import readings
from headcount.records import EngineFacts, Prompt

__all__ = ["TrtLlm"]

_SIZES = {
    "slots": largest("trtllm_max_num_active_requests", "trtllm_max_batch_size_static"),
    "blocks": total("trtllm_kv_cache_max_blocks"),
    "block_tokens": largest("trtllm_kv_cache_tokens_per_block"),
}
_INFO = ("trtllm_model_config_info", "trtllm_parallel_config_info", "trtllm_kv_cache_config_info")
_SECRET = ("token", "key", "secret", "password")


class TrtLlm(OpenAI):
    """Prometheus metrics only with ``return_perf_metrics``; else ``/metrics``, which is a JSON list of iterations
    that reading empties."""

    name = "trtllm"
    about = About(
        title="TensorRT-LLM (trtllm-serve)",
        tried="from its source, not run",
        port=8000,
        told={
            "version": "/version",
            "model": "/v1/models",
            "slots": "trtllm_max_num_active_requests, trtllm_max_batch_size_static; /metrics maxNumActiveRequests",
            "kv_pool_tokens": "trtllm_kv_cache_max_blocks x trtllm_kv_cache_tokens_per_block; /metrics kvCacheStats",
            "quantization": "trtllm_model_config_info",
        },
        asks="ignore_eos",
    )
    meter = Meter(
        {
            "server_running_requests": total("trtllm_num_requests_running"),
            "server_waiting_requests": total("trtllm_num_requests_waiting"),
            "server_kv_used_fraction": largest("trtllm_kv_cache_utilization"),
            "server_paused_requests": total("trtllm_num_paused_requests"),
            "server_ttft_s_total": total("trtllm_time_to_first_token_seconds_sum"),
            "server_ttft_requests_total": total("trtllm_time_to_first_token_seconds_count"),
            "server_queue_s_total": total("trtllm_request_queue_time_seconds_sum"),
        },
        turn_on="set return_perf_metrics: true (or enable_iter_perf_stats: true) in its options",
        path="/prometheus/metrics",
    )

    async def facts(self) -> EngineFacts:
        """Version, slots and KV pool from whichever metrics there are."""
        known = await super().facts()
        version = inquiry.fields(await inquiry.get_json(self.client, "/version"))
        page = await self.meter.page(self.client)
        sizes = figures(page.text, _SIZES)
        latest = {} if page.state == "prometheus" else await self._latest_iteration()
        cache = inquiry.fields(latest, "kvCacheStats")
        blocks = inquiry.whole(sizes.get("blocks") or cache.get("maxNumBlocks"))
        block = inquiry.whole(sizes.get("block_tokens") or cache.get("tokensPerBlock"))
        config = _config(page.text)
        quantization = next((value for name, value in config.items() if "quant" in name.lower()), None)
        return replace(
            known,
            version=inquiry.text(version.get("version")),
            quantization=inquiry.text(quantization),
            slots=inquiry.whole(sizes.get("slots") or latest.get("maxNumActiveRequests")),
            kv_pool_tokens=blocks * block if blocks and block else None,
            metrics="json" if latest else page.state,
            details=config,
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics unless the JSON ones are there."""
        notes = await super().prepare(facts, prompt)
        return notes if await self._latest_iteration() else (*notes, *await self.meter.notes(self.client))

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Generation goes on to the planned length."""
        return {"ignore_eos": True}

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``; an idle server's JSON metrics say nothing."""
        if found := (await self.meter.page(self.client)).figures:
            return found
        return _iteration_figures(await self._latest_iteration())

    async def _latest_iteration(self) -> dict[str, Any]:
        """The last entry of ``/metrics``; empty when there is none. Entries are shown once."""
        return next(reversed(inquiry.entries(await inquiry.get_json(self.client, "/metrics"))), {})


def _iteration_figures(iteration: dict[str, Any]) -> dict[str, float]:
    found = {}
    names = (("server_running_requests", "numActiveRequests"), ("server_waiting_requests", "numQueuedRequests"))
    for ours, theirs in names:
        if isinstance(value := iteration.get(theirs), int | float):
            found[ours] = float(value)
    cache = inquiry.fields(iteration, "kvCacheStats")
    used, most = cache.get("usedNumBlocks"), inquiry.whole(cache.get("maxNumBlocks"))
    if isinstance(used, int | float) and most:
        found["server_kv_used_fraction"] = used / most
    return found


def _config(text: str) -> dict[str, Any]:
    """Labels of the info gauges, without any that might hold a secret or a path."""
    labels = {name: value for line in readings(text, _INFO) for name, value in line.labels.items()}
    return {
        name: value
        for name, value in labels.items()
        if not any(word in name.lower() for word in _SECRET) and "/" not in value
    }
