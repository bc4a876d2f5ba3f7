"""SGLang. From the source of 0.5.23; never run here (it needs CUDA)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, combined, largest, mean, total
from headcount.engine.openai import OpenAI
from headcount.records import EngineFacts, Prompt

__all__ = ["Sglang"]

_DETAILS = (
    "dtype",
    "kv_cache_dtype",
    "tp_size",
    "dp_size",
    "pp_size",
    "mem_fraction_static",
    "max_queued_requests",
    "max_loras_per_batch",
    "chunked_prefill_size",
    "schedule_policy",
    "disable_radix_cache",
    "speculative_algorithm",
    "stream_interval",
)
_LOADS = {
    "server_running_requests": ("num_running_reqs", "sum"),
    "server_waiting_requests": ("num_waiting_reqs", "sum"),
    "server_kv_used_fraction": ("token_usage", "max"),
    "server_kv_used_mean_fraction": ("token_usage", "mean"),
}
"""Ours → a field of ``/v1/loads``, one entry a data-parallel engine."""


class Sglang(OpenAI):
    """Without ``--enable-metrics`` queue and memory come from ``/v1/loads``."""

    name = "sglang"
    about = About(
        title="SGLang",
        tried="from the source of 0.5.23, not run",
        port=30000,
        told={
            "version": "/server_info (before 0.5: /get_server_info)",
            "model": "/v1/models",
            "adapters": "/v1/models, entries with a parent",
            "context_tokens": "/v1/models max_model_len, /server_info context_length",
            "quantization": "/server_info quantization",
            "slots": "/server_info effective_max_running_requests_per_dp x dp_size, max_running_requests",
            "kv_pool_tokens": "/server_info max_total_num_tokens x dp_size",
        },
        asks="ignore_eos; an adapter as base:adapter in the model's place",
    )
    meter = Meter(
        {
            "server_running_requests": total("sglang:num_running_reqs"),
            "server_waiting_requests": total("sglang:num_queue_reqs"),
            "server_kv_used_fraction": largest("sglang:token_usage"),
            "server_kv_used_mean_fraction": mean("sglang:token_usage"),
            "server_preemptions_total": total("sglang:num_retracted_requests_total"),
            "server_prompt_tokens_total": total("sglang:prompt_tokens_total"),
            "server_output_tokens_total": total("sglang:generation_tokens_total"),
            "server_cache_hit_tokens_total": total("sglang:cached_tokens_total"),
            "server_cache_query_tokens_total": total("sglang:prompt_tokens_total"),
            "server_ttft_s_total": total("sglang:time_to_first_token_seconds_sum"),
            "server_ttft_requests_total": total("sglang:time_to_first_token_seconds_count"),
            "server_queue_s_total": total("sglang:queue_time_seconds_sum"),
            "server_adapters_in_use": total("sglang:lora_pool_slots_used"),
        },
        turn_on="start it with --enable-metrics",
    )

    async def facts(self) -> EngineFacts:
        """Nearly everything is in ``/server_info``, beside the whole launch command, which is not kept."""
        known = await super().facts()
        said = await inquiry.get_json(self.client, "/server_info")
        info = inquiry.fields(said or await inquiry.get_json(self.client, "/get_server_info"))
        page = await self.meter.page(self.client)
        replicas = inquiry.whole(info.get("dp_size")) or 1
        states = inquiry.entries(info.get("internal_states"))
        each = next((inquiry.whole(state.get("effective_max_running_requests_per_dp")) for state in states), None)
        pool = inquiry.whole(info.get("max_total_num_tokens"))
        return replace(
            known,
            version=inquiry.text(info.get("version")),
            context_tokens=known.context_tokens or inquiry.whole(info.get("context_length")),
            quantization=inquiry.text(info.get("quantization")),
            slots=each * replicas if each else inquiry.whole(info.get("max_running_requests")),
            kv_pool_tokens=pool * replicas if pool else None,
            metrics=page.state,
            details=inquiry.picked(info, _DETAILS),
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics unless ``/v1/loads`` stands in."""
        notes = await super().prepare(facts, prompt)
        return notes if await self._loads() else (*notes, *await self.meter.notes(self.client))

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """``base:adapter`` as the model."""
        body = super().body(prompt)
        if prompt.adapter is not None and body["model"] == prompt.adapter:
            base = prompt.model or self.model or self.learned.get("model") or ""
            body["model"] = f"{base}:{prompt.adapter}"
        return body

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Generation goes on to the planned length."""
        return {"ignore_eos": True}

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``."""
        return (await self.meter.page(self.client)).figures or await self._loads()

    async def _loads(self) -> dict[str, float]:
        said = inquiry.fields(await inquiry.get_json(self.client, "/v1/loads?include=core"))
        engines = inquiry.entries(said.get("loads"))
        found = {}
        for ours, (theirs, across) in _LOADS.items():
            values = [float(value) for e in engines if isinstance(value := e.get(theirs), int | float)]
            if values:
                found[ours] = combined(values, across)
        return found
