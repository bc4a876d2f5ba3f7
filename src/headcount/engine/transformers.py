"""``transformers serve``. Run and recorded; it refuses fields it does not know and tells nearly nothing."""

from __future__ import annotations

from headcount.engine.about import About
from headcount.engine.openai import OpenAI
from headcount.records import EngineFacts, Prompt

__all__ = ["Transformers"]


class Transformers(OpenAI):
    """Its list of models is what lies in a cache folder, and may be empty or fail: then the model must be named."""

    name = "transformers"
    about = About(
        title="transformers serve",
        tried="run on a CPU",
        port=8000,
        told={"model": "/v1/models, where its cache folder is set"},
        asks="standard fields only: it answers 422 to any other (ignore_eos among them)",
    )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; says what stays invisible."""
        return (*await super().prepare(facts, prompt), "transformers serve tells neither its queue nor its memory")
