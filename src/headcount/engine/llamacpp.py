"""llama.cpp's server (``llama-server``). Run and recorded with SmolLM2 and adapters."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.gauges import Meter, total
from headcount.engine.openai import OpenAI
from headcount.errors import ServerError
from headcount.records import EngineFacts, Prompt

__all__ = ["LlamaCpp"]


class LlamaCpp(OpenAI):
    """People beyond the slots wait in one queue without a limit.

    Slots have a share of the context each, or all together the whole (``--kv-unified``), and nothing tells which:
    the KV pool stays unknown.

    Adapters are chosen by number with each request. Once a server has adapters every request names all of them,
    since those it was started with apply wherever a request says nothing; and prompts are not cached, since
    the cache would hand a prefix computed under one adapter to another (seen: wrong answers).
    """

    name = "llamacpp"
    about = About(
        title="llama.cpp (llama-server)",
        tried="run with a build of late 2026 on a CPU",
        port=8080,
        told={
            "version": "/props build_info",
            "model": "/v1/models",
            "adapters": "/lora-adapters, file names without their ending",
            "context_tokens": "/props n_ctx, of one slot",
            "slots": "/props total_slots",
            "quantization": "/props model_ftype, /v1/models meta.ftype",
        },
        asks=(
            "ignore_eos; with adapters on the server: lora with the scale of every adapter, and cache_prompt: false "
            "(its cache would mix adapters up)"
        ),
    )
    meter = Meter(
        {
            "server_running_requests": total("llamacpp:requests_processing"),
            "server_waiting_requests": total("llamacpp:requests_deferred"),
            "server_kv_used_fraction": total("llamacpp:kv_cache_usage_ratio"),
            "server_prompt_tokens_total": total("llamacpp:prompt_tokens_total"),
            "server_output_tokens_total": total("llamacpp:tokens_predicted_total"),
            "server_cache_hit_tokens_total": total("llamacpp:prompt_tokens_cached_total"),
            "server_prefill_s_total": total("llamacpp:prompt_seconds_total"),
            "server_decode_s_total": total("llamacpp:tokens_predicted_seconds_total"),
        },
        turn_on="start it with --metrics",
    )

    async def facts(self) -> EngineFacts:
        """Slots, the context of one, quantization, adapters by their files' names."""
        known = await super().facts()
        props = inquiry.fields(await inquiry.get_json(self.client, "/props"))
        page = await self.meter.page(self.client)
        adapters = await self._adapters()
        if adapters:
            self.learned["adapter_ids"] = adapters
        context = inquiry.whole(inquiry.fields(props, "default_generation_settings").get("n_ctx"))
        slots = inquiry.whole(props.get("total_slots"))
        meta = await self._meta()
        return replace(
            known,
            version=inquiry.text(props.get("build_info")),
            adapters=tuple(adapters),
            adapter_bases=dict.fromkeys(adapters, known.model or ""),
            context_tokens=context or inquiry.whole(meta.get("n_ctx")),
            quantization=inquiry.text(props.get("model_ftype")) or inquiry.text(meta.get("ftype")),
            slots=slots,
            metrics=page.state,
            details={
                **inquiry.picked(meta, ("n_ctx_train", "n_params")),
                **({} if not props else {"model_file": PurePath(str(props.get("model_path", ""))).name}),
            },
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; notes missing metrics and what adapters cost."""
        if prompt.adapter is not None and prompt.adapter not in facts.adapters:
            known = f"it has: {', '.join(facts.adapters)}" if facts.adapters else "it has none; start it with --lora"
            raise ServerError(f"{facts.address} has no adapter {prompt.adapter!r}", known)
        notes = (*await super().prepare(facts, prompt), *await self.meter.notes(self.client))
        if not self.learned.get("adapter_ids"):
            return notes
        return (*notes, "prompts are not cached (cache_prompt: false): the server's cache mixes its adapters up")

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """An adapter is no model here."""
        body = super().body(prompt)
        if prompt.adapter is not None and body["model"] == prompt.adapter:
            body["model"] = prompt.model or self.model or self.learned.get("model") or ""
        return body

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Generation goes on to the planned length; with adapters on the server, which of them."""
        ids: dict[str, int] = self.learned.get("adapter_ids", {})
        if not ids:
            return {"ignore_eos": True}
        scales = [{"id": number, "scale": float(name == prompt.adapter)} for name, number in ids.items()]
        return {"ignore_eos": True, "lora": scales, "cache_prompt": False}

    async def gauges(self) -> dict[str, float]:
        """See ``Engine.gauges``; without ``--metrics`` the slots at least tell how many requests run."""
        page = await self.meter.page(self.client)
        if page.state != "prometheus":
            return await self._busy_slots()
        found = dict(page.figures)
        hits, computed = found.get("server_cache_hit_tokens_total"), found.get("server_prompt_tokens_total")
        if hits is not None and computed is not None:
            found["server_cache_query_tokens_total"] = hits + computed
        return found

    async def _adapters(self) -> dict[str, int]:
        """Name → number."""
        return {
            PurePath(str(entry.get("path", ""))).stem or str(entry["id"]): entry["id"]
            for entry in inquiry.entries(await inquiry.get_json(self.client, "/lora-adapters"))
            if isinstance(entry.get("id"), int)
        }

    async def _meta(self) -> dict[str, Any]:
        """What ``/v1/models`` says of the first model's file."""
        said = inquiry.fields(await inquiry.get_json(self.client, "/v1/models"))
        return inquiry.fields(next(iter(inquiry.entries(said.get("data"))), None), "meta")

    async def _busy_slots(self) -> dict[str, float]:
        slots = inquiry.entries(await inquiry.get_json(self.client, "/slots"))
        busy = sum(slot.get("is_processing") is True for slot in slots)
        return {"server_running_requests": float(busy)} if slots else {}
