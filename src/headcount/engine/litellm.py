"""A LiteLLM proxy in front of any engine. From its documents; never run here."""

from __future__ import annotations

from msgspec.structs import replace

from headcount.engine import inquiry
from headcount.engine.about import About
from headcount.engine.openai import OpenAI
from headcount.records import EngineFacts, Prompt

__all__ = ["LiteLlm"]


class LiteLlm(OpenAI):
    """What is measured is the proxy with whatever stands behind it, which stays invisible."""

    name = "litellm"
    about = About(
        title="LiteLLM proxy",
        tried="from its documents, not run",
        port=4000,
        told={"version": "header x-litellm-version", "model": "/v1/models"},
        asks="standard fields only: it refuses or drops others, depending on its settings",
    )

    async def facts(self) -> EngineFacts:
        """The models it offers, and its own version."""
        known = await super().facts()
        response = await inquiry.get(self.client, "/v1/models")
        version = None if response is None else response.headers.get("x-litellm-version")
        return replace(known, version=inquiry.text(version))

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; says what a proxy hides."""
        note = (
            "a LiteLLM proxy stands before the engine: its own limits count, and the engine's queue is not seen; "
            "measure the engine's own address too, to tell them apart"
        )
        return (*await super().prepare(facts, prompt), note)
