"""Hugging Face's text-generation-inference. From its documents; never run here."""

from __future__ import annotations

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, total
from headcount.engine.openai import OpenAI
from headcount.errors import ServerError
from headcount.records import EngineFacts, Prompt

__all__ = ["Tgi"]

_DETAILS = (
    "model_dtype",
    "max_concurrent_requests",
    "max_input_tokens",
    "max_input_length",
    "max_batch_total_tokens",
    "max_batch_size",
    "waiting_served_ratio",
    "max_waiting_tokens",
    "sha",
    "docker_label",
)


class Tgi(OpenAI):
    """``max_concurrent_requests`` bounds admission, the batch is bounded by its tokens: beyond the first comes 429."""

    name = "tgi"
    about = About(
        title="text-generation-inference (TGI)",
        tried="from its documents, not run",
        port=3000,
        told={
            "version": "/info version",
            "model": "/v1/models, /info model_id",
            "context_tokens": "/info max_total_tokens",
            "slots": "/info max_batch_size",
            "kv_pool_tokens": "/info max_batch_total_tokens",
        },
        asks="standard fields only (it has no ignore_eos: answers may end early); an adapter by its name as the model",
    )
    meter = Meter(
        {
            "server_running_requests": total("tgi_batch_current_size"),
            "server_waiting_requests": total("tgi_queue_size"),
            "server_batch_tokens": total("tgi_batch_current_max_tokens"),
            "server_prompt_tokens_total": total("tgi_request_input_length_sum"),
            "server_output_tokens_total": total("tgi_request_generated_tokens_sum"),
            "server_queue_s_total": total("tgi_request_queue_duration_sum"),
        },
        turn_on="look at the router's port for metrics",
    )

    async def facts(self) -> EngineFacts:
        """``/info`` tells nearly all; an old server has no ``/v1/models``."""
        info = inquiry.fields(await inquiry.get_json(self.client, "/info"))
        try:
            known = await super().facts()
        except ServerError:
            model = self.model or inquiry.text(info.get("model_id"))
            if model is None:
                raise
            self.learned["model"] = model
            known = EngineFacts(engine=self.name, address=self.client.target.url, model=model, models=(model,))
        page = await self.meter.page(self.client)
        pool = inquiry.whole(info.get("max_batch_total_tokens"))
        if pool is not None:
            self.learned["kv_pool_tokens"] = pool
        return replace(
            known,
            version=inquiry.text(info.get("version")),
            context_tokens=inquiry.whole(info.get("max_total_tokens")),
            slots=inquiry.whole(info.get("max_batch_size")),
            kv_pool_tokens=pool,
            metrics=page.state,
            details=inquiry.picked(info, _DETAILS),
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics."""
        return (*await super().prepare(facts, prompt), *await self.meter.notes(self.client))

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``; the KV cache's use is the batch's reserved tokens over the most a batch may have."""
        found = dict((await self.meter.page(self.client)).figures)
        tokens, pool = found.get("server_batch_tokens"), self.learned.get("kv_pool_tokens")
        if tokens is not None and pool:
            found["server_kv_used_fraction"] = tokens / pool
        return found
