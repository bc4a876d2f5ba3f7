"""One model server seen from a client. An extension point: one file per server kind, table ``ENGINES``.

An engine shapes requests, understands answers and tells what the server says of itself. It gets its HTTP
client from outside and knows nothing of people, levels or files. A value with a colon that is not in the
table is used as it is, so a plug-in is a file on the path.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from headcount.errors import ScenarioError
from headcount.records import EngineFacts, Prompt, Reply

__all__ = ["ENGINES", "Engine", "engine_class"]

ENGINES: dict[str, str] = {
    "openai": "headcount.engine.openai:OpenAI",
    "vllm": "headcount.engine.vllm:Vllm",
    "sglang": "headcount.engine.sglang:Sglang",
    "llamacpp": "headcount.engine.llamacpp:LlamaCpp",
    "ollama": "headcount.engine.ollama:Ollama",
    "lmstudio": "headcount.engine.lmstudio:LmStudio",
    "tgi": "headcount.engine.tgi:Tgi",
    "trtllm": "headcount.engine.trtllm:TrtLlm",
    "lmdeploy": "headcount.engine.lmdeploy:LmDeploy",
    "transformers": "headcount.engine.transformers:Transformers",
    "mlx": "headcount.engine.mlx:Mlx",
    "litellm": "headcount.engine.litellm:LiteLlm",
    "simulated": "headcount.engine.simulated:Simulated",
}


class Engine(Protocol):
    """What the load, the telemetry and the session need of a server.

    Made as ``Class(client, model, learned, **options)``: an ``http.Client`` (None for the simulator), the
    model to ask (None: the server's first), what ``prepare`` learned in another process, and its own options.
    """

    name: str
    """Its key in ``ENGINES``."""

    learned: dict[str, Any]
    """What ``prepare`` found out about shaping requests; plain JSON, handed to load processes."""

    async def facts(self) -> EngineFacts:
        """Ask the server what it is. Raises ``ServerError`` when it cannot be reached or refuses us."""

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """Learn once, before measuring, how requests must be shaped (refused fields, ``max_tokens``'s name),
        by sending ``prompt`` until a real answer comes. Returns notes for ``run.json``.
        Raises ``ServerError`` when no answer can be had."""

    async def send(self, prompt: Prompt, reply: Reply) -> None:
        """Send one request and fill ``reply`` as the answer arrives.

        Never raises for what a server or a network does: that is ``reply.error``. When it returns,
        ``reply.ended_at_s`` is set. Cancelled: the connection is closed and ``reply`` keeps what was seen.
        """

    async def gauges(self) -> dict[str, float]:
        """Server metrics by our names (``server_running_requests``, ``server_waiting_requests``,
        ``server_kv_used_fraction``, ``server_preemptions_total``, ``server_prompt_tokens_total``,
        ``server_output_tokens_total``, ``server_cache_hit_tokens_total``,
        ``server_cache_query_tokens_total`` …). Names the server does not tell are absent;
        empty when it tells nothing. Never raises for what a server does."""

    async def close(self) -> None:
        """Close every connection."""


def engine_class(name: str) -> type[Any]:
    """The class behind a name of ``ENGINES`` or ``module:Class``; ``ScenarioError`` for anything else."""
    where = ENGINES.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise ScenarioError(f"engine {name!r} is not known", f"known: {', '.join(sorted(ENGINES))}, or module:Class")
    try:
        found: type[Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"engine {name!r} cannot be loaded: {error}", "check the module's path and name") from error
    return found
