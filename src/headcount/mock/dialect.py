"""How each engine words what all of them say: events, errors, pages and the names of metrics. Knows no sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headcount.mock.wire import chunk
from headcount.simulator.policy import Policy
from headcount.simulator.words import WORDS

__all__ = ["DIALECTS", "Dialect", "Events", "Figures"]

_CREATED_UNIX = 1_767_225_600

Figures = Mapping[str, float]
"""Server figures by our names, as ``Engine.gauges`` gives them."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way of speaking."""

    name: str
    title: str
    server: str
    """Of the ``server`` header."""
    owner: str
    metrics: tuple[tuple[str, str, str], ...]
    """(their name, kind, our name)."""
    flat_errors: bool = False
    """The error's fields stand at the top of the body and not under ``error``."""
    numbered_adapters: bool = False
    """A request names adapters by their numbers, and its model may be anything; otherwise an adapter is a model."""
    closes_streams: bool = False
    """The connection is closed after each stream."""

    def error(self, status: int, message: str, kind: str = "") -> dict[str, Any]:
        """The body of an error."""
        kind = kind or {404: "NotFoundError", 503: "Service Unavailable"}.get(status, "BadRequestError")
        fields = {"message": message, "type": kind, "param": None, "code": status}
        if self.flat_errors:
            return {"object": "error", **fields}
        return {"error": fields}

    def models(self, model: str, adapters: tuple[str, ...], policy: Policy) -> dict[str, Any]:
        """``/v1/models``."""
        base: dict[str, Any] = {"id": model, "object": "model", "created": _CREATED_UNIX, "owned_by": self.owner}
        if self.name == "llamacpp":
            return {"object": "list", "data": [{**base, "meta": {"n_ctx": policy.context_tokens}}]}
        entries = [{**base, "root": model, "parent": None, "max_model_len": policy.context_tokens}]
        entries += [{**base, "id": name, "root": name, "parent": model, "max_model_len": None} for name in adapters]
        return {"object": "list", "data": entries}

    def pages(self, model: str, adapters: tuple[str, ...], policy: Policy) -> dict[str, Any]:
        """What else it tells of itself, by path."""
        if self.name == "vllm":
            return {"/version": {"version": "0.32.0+mock"}, "/health": {}}
        if self.name == "sglang":
            return {
                "/health": {},
                "/server_info": {
                    "version": "0.5.23+mock",
                    "model_path": model,
                    "context_length": policy.context_tokens,
                    "max_running_requests": policy.slots,
                    "max_queued_requests": policy.queue_limit,
                    "max_total_num_tokens": policy.pool_tokens,
                },
            }
        return {
            "/health": {"status": "ok"},
            "/props": {
                "default_generation_settings": {"n_ctx": policy.context_tokens},
                "total_slots": policy.slots,
                "model_alias": model,
                "model_path": model,
                "build_info": "mock",
            },
            "/lora-adapters": [
                {"id": number, "path": f"{name}.gguf", "scale": 0.0} for number, name in enumerate(adapters)
            ],
        }

    def metrics_page(self, model: str, figures: Figures, policy: Policy) -> str:
        """The Prometheus page."""
        computed = figures["server_prompt_tokens_total"] - figures["server_cache_hit_tokens_total"]
        known = {**figures, "computed_tokens": computed}
        labels = "" if self.name == "llamacpp" else f'{{model_name="{model}"}}'
        lines = []
        for name, kind, ours in self.metrics:
            lines += [f"# TYPE {name} {kind}", f"{name}{labels} {known[ours]}"]
        if self.name == "vllm":
            blocks, size = policy.pool_tokens // policy.block_tokens, policy.block_tokens
            fields = f'block_size="{size}",num_gpu_blocks="{blocks}",kv_cache_size_tokens="{policy.pool_tokens}"'
            lines += ["# TYPE vllm:cache_config_info gauge", f'vllm:cache_config_info{{engine="0",{fields}}} 1.0']
        return "\n".join(lines) + "\n"


def _prefixed(prefix: str, *entries: tuple[str, str, str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((prefix + name, kind, ours) for name, kind, ours in entries)


DIALECTS = {
    "vllm": Dialect(
        "vllm",
        title="vLLM",
        server="uvicorn",
        owner="vllm",
        metrics=_prefixed(
            "vllm:",
            ("num_requests_running", "gauge", "server_running_requests"),
            ("num_requests_waiting", "gauge", "server_waiting_requests"),
            ("kv_cache_usage_perc", "gauge", "server_kv_used_fraction"),
            ("num_preemptions_total", "counter", "server_preemptions_total"),
            ("prompt_tokens_total", "counter", "server_prompt_tokens_total"),
            ("generation_tokens_total", "counter", "server_output_tokens_total"),
            ("prefix_cache_queries_total", "counter", "server_cache_query_tokens_total"),
            ("prefix_cache_hits_total", "counter", "server_cache_hit_tokens_total"),
        ),
    ),
    "sglang": Dialect(
        "sglang",
        title="SGLang",
        server="uvicorn",
        owner="sglang",
        metrics=_prefixed(
            "sglang:",
            ("num_running_reqs", "gauge", "server_running_requests"),
            ("num_queue_reqs", "gauge", "server_waiting_requests"),
            ("token_usage", "gauge", "server_kv_used_fraction"),
            ("num_retracted_requests_total", "counter", "server_preemptions_total"),
            ("prompt_tokens_total", "counter", "server_prompt_tokens_total"),
            ("generation_tokens_total", "counter", "server_output_tokens_total"),
            ("cached_tokens_total", "counter", "server_cache_hit_tokens_total"),
        ),
        flat_errors=True,
    ),
    "llamacpp": Dialect(
        "llamacpp",
        title="llama.cpp",
        server="llama.cpp",
        owner="llamacpp",
        metrics=_prefixed(
            "llamacpp:",
            ("requests_processing", "gauge", "server_running_requests"),
            ("requests_deferred", "gauge", "server_waiting_requests"),
            ("prompt_tokens_total", "counter", "computed_tokens"),
            ("prompt_tokens_cached_total", "counter", "server_cache_hit_tokens_total"),
            ("tokens_predicted_total", "counter", "server_output_tokens_total"),
        ),
        numbered_adapters=True,
        closes_streams=True,
    ),
}


class Events:
    """The events of one model's streams, as chunks ready to be sent; the same bytes for every stream."""

    def __init__(self, model: str, chat: bool) -> None:
        self.model = model
        self.chat = chat
        self.role = self._event({"role": "assistant", "content": ""}, None) if chat else b""
        self.first = self._event({"content": WORDS[0]}, None)
        """The event of the first token; the others have a space before them."""
        self.words = [self._event({"content": f" {word}"}, None) for word in WORDS]
        """The event of token n is ``words[n % len(words)]``."""
        self.done = chunk(b"data: [DONE]\n\n")

    def several(self, first: int, end: int) -> bytes:
        """Tokens ``first`` to ``end`` in one event."""
        text = " ".join(WORDS[n % len(WORDS)] for n in range(first, end))
        return self._event({"content": f" {text}" if first else text}, None)

    def finish(self, reason: str) -> bytes:
        """The empty event with the reason why it ended."""
        return self._event({}, reason)

    def usage(self, usage: dict[str, Any]) -> bytes:
        """The event that carries nothing but usage."""
        return self.other({**self._body(), "choices": [], "usage": usage})

    def other(self, body: dict[str, Any]) -> bytes:
        """Any event."""
        return chunk(b"data: " + msgspec.json.encode(body) + b"\n\n")

    def whole(self, text: str, reason: str, usage: dict[str, Any] | None) -> bytes:
        """The body of an answer that is not streamed."""
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        body = {**self._body(), "choices": [{"index": 0, **said, "finish_reason": reason}]}
        body["object"] = "chat.completion" if self.chat else "text_completion"
        return msgspec.json.encode({**body, "usage": usage} if usage else body)

    def _event(self, delta: dict[str, str], reason: str | None) -> bytes:
        said: dict[str, Any] = {"delta": delta} if self.chat else {"text": delta.get("content", "")}
        return self.other({**self._body(), "choices": [{"index": 0, **said, "finish_reason": reason}]})

    def _body(self) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": "mock", "object": kind, "created": _CREATED_UNIX, "model": self.model}
