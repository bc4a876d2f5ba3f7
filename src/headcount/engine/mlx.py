"""``mlx_lm.server`` on Apple's machines. From its source; never run here."""

from __future__ import annotations

from headcount.engine.about import About
from headcount.engine.openai import OpenAI
from headcount.records import EngineFacts, Prompt

__all__ = ["Mlx"]


class Mlx(OpenAI):
    """Lists what lies in the Hugging Face cache; has no metrics."""

    name = "mlx"
    about = About(
        title="MLX (mlx_lm.server)",
        tried="from the source of 0.32, not run",
        port=8080,
        told={"model": "/v1/models"},
        asks="standard fields only; it has no ignore_eos",
    )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """See ``Engine.prepare``; says what stays invisible."""
        note = "mlx_lm.server tells neither its queue nor its memory; --decode-concurrency (32) bounds its batch"
        return (*await super().prepare(facts, prompt), note)
