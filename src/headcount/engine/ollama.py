"""Ollama, by its own API, whose last line tells how long the server itself took. From its documents; never run here."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.openai import OpenAI
from headcount.errors import ServerError
from headcount.http import Client
from headcount.records import EngineFacts, Prompt

__all__ = ["Ollama"]

LOAD_TIMEOUT_S = 600.0


class Ollama(OpenAI):
    """Tells neither its queue nor its slots, and cuts a prompt that is too long in silence."""

    name = "ollama"
    paths: ClassVar[dict[str, str]] = {**OpenAI.paths, "native": "/api/chat"}
    about = About(
        title="Ollama",
        tried="from its documents, not run",
        port=11434,
        told={
            "version": "/api/version",
            "model": "/v1/models, the loaded ones of /api/ps first",
            "context_tokens": "/api/ps context_length, of the loaded model",
            "quantization": "/api/ps details.quantization_level",
        },
        asks='its own /api/chat with options.num_predict (api = "chat" for OpenAI\'s); it has no ignore_eos',
    )

    def __init__(
        self,
        client: Client,
        model: str | None = None,
        learned: dict[str, Any] | None = None,
        *,
        api: str = "native",
        **options: Any,
    ) -> None:
        """``api``: ``native``, or a key of ``OpenAI.paths``."""
        super().__init__(client, model, learned, api=api, **options)

    async def facts(self) -> EngineFacts:
        """The model is loaded first, because only a loaded one has a context and a place in memory."""
        if self.model is None:
            loaded = await self._loaded()
            self.model = next((inquiry.text(entry.get("model")) for entry in loaded), None)
        known = await super().facts()
        entry = await self._entry(known.model) or await self._load(known.model)
        version = inquiry.fields(await inquiry.get_json(self.client, "/api/version"))
        details = inquiry.fields(entry, "details")
        size, in_vram = inquiry.whole(entry.get("size")), entry.get("size_vram")
        return replace(
            known,
            version=inquiry.text(version.get("version")),
            context_tokens=inquiry.whole(entry.get("context_length")),
            quantization=inquiry.text(details.get("quantization_level")),
            details={
                **inquiry.picked(details, ("parameter_size", "family", "format")),
                **({"model_bytes": size} if size else {}),
                **({"in_vram_fraction": in_vram / size} if size and isinstance(in_vram, int) else {}),
            },
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; says what stays invisible, and a model that is not wholly in video memory."""
        notes = [*await super().prepare(facts, prompt)]
        notes.append(
            "Ollama tells neither its queue nor its slots: OLLAMA_NUM_PARALLEL bounds how many requests run at once"
        )
        share = facts.details.get("in_vram_fraction")
        if isinstance(share, float) and share < 0.99:
            notes.append(f"only {share:.0%} of the model is in video memory: the rest runs on the processor")
        return tuple(notes)

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """In the native API everything about sampling is an option."""
        body = super().body(prompt)
        if self._api == "native":
            body.pop("stream_options", None)
            body["options"] = {"num_predict": prompt.max_output_tokens, **inquiry.fields(self._body, "options")}
            if "temperature" in body:
                body["options"]["temperature"] = body.pop("temperature")
        return body

    def _asked(self, prompt: Prompt) -> dict[str, Any]:
        return {"messages": prompt.messages} if self._api == "native" else super()._asked(prompt)

    async def _loaded(self) -> list[dict[str, Any]]:
        return inquiry.entries(inquiry.fields(await inquiry.get_json(self.client, "/api/ps")).get("models"))

    async def _entry(self, model: str | None) -> dict[str, Any]:
        """What ``/api/ps`` says of a model; empty when it is not loaded."""
        named = (model, f"{model}:latest")
        return next((entry for entry in await self._loaded() if entry.get("model") in named), {})

    async def _load(self, model: str | None) -> dict[str, Any]:
        """Have a model loaded by an empty request. Raises ``ServerError`` when it cannot be."""
        said = await inquiry.post_json(self.client, "/api/generate", {"model": model, "stream": False}, LOAD_TIMEOUT_S)
        if said is None:
            raise ServerError(f"{self.client.target.url} cannot load {model!r}", "try it with: ollama run")
        return await self._entry(model)
