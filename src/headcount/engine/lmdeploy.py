"""LMDeploy's ``api_server``. From the source of 0.18; never run here."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, largest, mean, total
from headcount.engine.openai import OpenAI
from headcount.http.prometheus import readings
from headcount.records import EngineFacts, Prompt

__all__ = ["LmDeploy"]

_DETAILS = (
    "tp",
    "dp",
    "dtype",
    "cache_max_entry_count",
    "cache_block_seq_len",
    "quant_policy",
    "enable_prefix_caching",
)


class LmDeploy(OpenAI):
    """Context and slots stand in the labels of one metric, whose content was not seen."""

    name = "lmdeploy"
    about = About(
        title="LMDeploy (api_server)",
        tried="metric names from the source of 0.18, not run",
        port=23333,
        told={
            "model": "/v1/models",
            "context_tokens": "lmdeploy:backend_config session_len",
            "slots": "lmdeploy:backend_config max_batch_size",
            "quantization": "lmdeploy:backend_config model_format",
        },
        asks="ignore_eos",
    )
    meter = Meter(
        {
            "server_running_requests": total("lmdeploy:num_requests_running"),
            "server_waiting_requests": total("lmdeploy:num_requests_waiting"),
            "server_unrouted_requests": total("lmdeploy:num_api_requests_waiting"),
            "server_kv_used_fraction": largest("lmdeploy:gpu_cache_usage_perc"),
            "server_kv_used_mean_fraction": mean("lmdeploy:gpu_cache_usage_perc"),
            "server_prompt_tokens_total": total("lmdeploy:prompt_tokens_total"),
            "server_output_tokens_total": total("lmdeploy:generation_tokens_total"),
            "server_cache_hit_tokens_total": total("lmdeploy:cached_tokens_total"),
            "server_cache_query_tokens_total": total("lmdeploy:prompt_tokens_total"),
            "server_ttft_s_total": total("lmdeploy:time_to_first_token_seconds_sum"),
            "server_ttft_requests_total": total("lmdeploy:time_to_first_token_seconds_count"),
            "server_queue_s_total": total("lmdeploy:request_queue_time_seconds_sum"),
        },
        turn_on="start it without --disable-metrics",
    )

    async def facts(self) -> EngineFacts:
        """What the configuration's labels tell."""
        known = await super().facts()
        page = await self.meter.page(self.client)
        config = next((line.labels for line in readings(page.text, ["lmdeploy:backend_config"])), {})
        return replace(
            known,
            context_tokens=known.context_tokens or inquiry.whole(config.get("session_len")),
            quantization=inquiry.text(config.get("model_format")),
            slots=inquiry.whole(config.get("max_batch_size")),
            metrics=page.state,
            details=inquiry.picked(config, _DETAILS),
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics."""
        return (*await super().prepare(facts, prompt), *await self.meter.notes(self.client))

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Generation goes on to the planned length."""
        return {"ignore_eos": True}

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``; requests that no engine has taken yet wait too."""
        found = dict((await self.meter.page(self.client)).figures)
        unrouted = found.pop("server_unrouted_requests", None)
        if unrouted is not None:
            found["server_waiting_requests"] = found.get("server_waiting_requests", 0.0) + unrouted
        return found
