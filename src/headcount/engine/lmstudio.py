"""LM Studio. From its documents; never run here."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.openai import OpenAI
from headcount.records import EngineFacts, Prompt

__all__ = ["LmStudio"]


class LmStudio(OpenAI):
    """Lists every downloaded model; a loaded one is asked unless one is named. Has no metrics at all."""

    name = "lmstudio"
    about = About(
        title="LM Studio",
        tried="from its documents, not run",
        port=1234,
        told={
            "model": "/api/v1/models or /api/v0/models, a loaded one first; /v1/models",
            "context_tokens": "loaded_instances[].config.context_length, loaded_context_length",
            "quantization": "/api/v1/models, /api/v0/models quantization",
            "slots": "loaded_instances[].config.parallel",
        },
        asks="standard fields only; it has no ignore_eos",
    )

    async def facts(self) -> EngineFacts:
        """What is known of the loaded model."""
        listed = await self._listed()
        if self.model is None:
            self.model = next((name for name, entry in listed.items() if entry.get("context_tokens")), None)
        known = await super().facts()
        entry = listed.get(known.model or "", {})
        return replace(
            known,
            context_tokens=entry.get("context_tokens") or known.context_tokens,
            quantization=entry.get("quantization"),
            slots=entry.get("slots"),
            details=entry.get("details", {}),
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; says what stays invisible."""
        return (*await super().prepare(facts, prompt), "LM Studio tells neither its queue nor its memory")

    async def _listed(self) -> dict[str, dict[str, Any]]:
        """What either of its own APIs says, by model: the newer one where there is one."""
        said = inquiry.fields(await inquiry.get_json(self.client, "/api/v1/models"))
        found: dict[str, dict[str, Any]] = {}
        for model in inquiry.entries(said.get("models")):
            for instance in inquiry.entries(model.get("loaded_instances")) or [{}]:
                found[str(instance.get("id") or model.get("key"))] = _new_entry(model, instance)
        if found:
            return found
        said = inquiry.fields(await inquiry.get_json(self.client, "/api/v0/models"))
        return {str(model.get("id")): _old_entry(model) for model in inquiry.entries(said.get("data"))}


def _new_entry(model: dict[str, Any], instance: dict[str, Any]) -> dict[str, Any]:
    config = inquiry.fields(instance, "config")
    kind = model.get("quantization")
    return {
        "context_tokens": inquiry.whole(config.get("context_length")),
        "quantization": inquiry.text(kind.get("name") if isinstance(kind, dict) else kind),
        "slots": inquiry.whole(config.get("parallel")),
        "details": {
            **inquiry.picked(model, ("params_string", "max_context_length", "format", "architecture")),
            **inquiry.picked(config, ("flash_attention", "offload_kv_cache_to_gpu", "eval_batch_size")),
        },
    }


def _old_entry(model: dict[str, Any]) -> dict[str, Any]:
    loaded = model.get("state") == "loaded"
    return {
        "context_tokens": inquiry.whole(model.get("loaded_context_length")) if loaded else None,
        "quantization": inquiry.text(model.get("quantization")),
        "slots": None,
        "details": inquiry.picked(model, ("arch", "compatibility_type", "max_context_length")),
    }
