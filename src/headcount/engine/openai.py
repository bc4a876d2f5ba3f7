"""Any server that speaks OpenAI's API, and what the other engines build on. Sends standard fields only."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headcount.engine.answers import Answer
from headcount.errors import ScenarioError, ServerError
from headcount.http import Client, Response
from headcount.records import EngineFacts, Prompt, Reply
from headcount.virtual import clock

__all__ = ["OpenAI"]

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses"}
COMING_UP = frozenset({"http_429", "http_502", "http_503", "http_504"})
"""What a server, or a proxy before it, says while the model is being loaded."""


class OpenAI:
    """One server behind ``client``. Heirs override ``name``, ``extras``, ``facts`` and ``gauges``."""

    name = "openai"

    def __init__(
        self,
        client: Client,
        model: str | None = None,
        learned: dict[str, Any] | None = None,
        *,
        api: str = "chat",
        temperature: float | None = None,
        body: dict[str, Any] | None = None,
        load_timeout_s: float = 600.0,
    ) -> None:
        """``api``: a key of ``PATHS``. ``body``: fields added to every request. ``load_timeout_s``: the longest
        that ``prepare`` waits for a model to be loaded."""
        if api not in PATHS:
            raise ScenarioError(f"api {api!r} is not known", f"known: {', '.join(PATHS)}")
        self.client = client
        self.model = model
        self.learned: dict[str, Any] = dict(learned or {})
        self._api = api
        self._body = dict(body or {})
        if temperature is not None:
            self._body["temperature"] = temperature
        self._load_timeout_s = load_timeout_s
        if self.learned.get("closes_connections"):
            client.keep_alive = False

    # --- what the load asks ------------------------------------------------------------------

    async def send(self, prompt: Prompt, reply: Reply) -> None:
        """One request; see ``Engine.send``."""
        answer = Answer(reply, prompt.streamed)
        try:
            await self.client.send(PATHS[self._api], msgspec.json.encode(self.body(prompt)), answer)
        finally:
            answer.note_times()
        answer.judge()

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """The request as JSON will have it; the same shape for every request of a run."""
        body = self._asked(prompt)
        body["model"] = prompt.adapter or prompt.model or self.model or self.learned.get("model") or ""
        body["stream"] = prompt.streamed
        if prompt.streamed and self._api != "responses":
            body["stream_options"] = {"include_usage": True}
        body |= self.extras(prompt)
        for field in self.learned.get("refused", ()):
            body.pop(field, None)
        body |= self._body
        return body

    def extras(self, prompt: Prompt) -> dict[str, Any]:
        """Fields beyond the standard that this kind of server understands, for an answer of the planned length."""
        return {}

    async def gauges(self) -> dict[str, float]:
        """Nothing: a plain server tells nothing."""
        return {}

    async def close(self) -> None:
        """Close every connection."""
        await self.client.close()

    def _asked(self, prompt: Prompt) -> dict[str, Any]:
        """The messages and the length, in the words of the API in use."""
        if self._api == "responses":
            return {"input": prompt.messages, "max_output_tokens": prompt.max_output_tokens, "store": False}
        limit = self.learned.get("max_tokens_field", "max_tokens")
        if self._api == "completions":
            text = "\n\n".join(message["content"] for message in prompt.messages)
            return {"prompt": text, limit: prompt.max_output_tokens}
        return {"messages": prompt.messages, limit: prompt.max_output_tokens}

    # --- what the session asks before --------------------------------------------------------

    async def facts(self) -> EngineFacts:
        """What ``/v1/models`` tells: models, adapters (those with a parent), the context's length."""
        url = self.client.target.url
        response = await self.client.get("/v1/models")
        listed = _models(url, response)
        models = [m for m in listed if not m.get("parent")]
        adapters = {str(m["id"]): str(m["parent"]) for m in listed if m.get("parent")}
        names = tuple(str(m["id"]) for m in models)
        model = self.model or (names[0] if names else None)
        if model is None:
            raise ServerError(f"{url} has no model", "load one, or name one with model")
        self.learned["model"] = model
        chosen = next((m for m in models if m["id"] == model), models[0] if len(models) == 1 else {})
        context = chosen.get("max_model_len")
        return EngineFacts(
            engine=self.name,
            address=url,
            model=model,
            models=names,
            adapters=tuple(adapters),
            adapter_bases=adapters,
            context_tokens=context if isinstance(context, int) else None,
        )

    async def prepare(self, facts: EngineFacts, prompt: Prompt) -> tuple[str, ...]:
        """Send ``prompt`` until a real answer comes, learning from each refusal; see ``Engine.prepare``."""
        if facts.model is not None:
            self.learned["model"] = facts.model
        notes: list[str] = []
        now = clock()
        began_s = now()
        while True:
            reply = Reply()
            await self.send(prompt, reply)
            if reply.error is None:
                break
            if reply.error in COMING_UP:
                if now() - began_s > self._load_timeout_s:
                    raise ServerError(
                        f"the model was not there within {self._load_timeout_s:g} s: {reply.error_text}",
                        "wait until the server answers, or raise load_timeout_s",
                    )
                await asyncio.sleep(1.0)
            elif (note := self._learn(reply, prompt)) is not None:
                notes.append(note)
            else:
                raise self._refused(reply, facts)
        waited_s = now() - began_s
        if waited_s > 5.0:
            notes.append(f"the first answer came after {waited_s:.0f} s")
        return (*notes, *self._observe(prompt, reply))

    def _learn(self, reply: Reply, prompt: Prompt) -> str | None:
        """Change the request's shape after a refusal; None when there is nothing left to change."""
        if reply.error not in ("http_400", "http_422", "server_error"):
            return None
        text = (reply.error_text or "").lower()
        if "max_completion_tokens" in text and "max_tokens_field" not in self.learned and self._api == "chat":
            self.learned["max_tokens_field"] = "max_completion_tokens"
            return "the server wants max_completion_tokens instead of max_tokens"
        refused = self.learned.setdefault("refused", [])
        optional = [f for f in (*self.extras(prompt), "stream_options", "store") if f in self.body(prompt)]
        named = [field for field in optional if field.lower() in text]
        drop = named or optional
        if not drop or reply.error == "server_error":
            return None
        refused.extend(drop)
        return f"the server refuses {', '.join(drop)}"

    def _observe(self, prompt: Prompt, reply: Reply) -> list[str]:
        """What the first good answer shows. Raises ``ServerError`` when it cannot be measured as planned."""
        notes = []
        if prompt.streamed and not reply.chunk_at_s:
            raise ServerError(
                f"{self.client.target.url} does not stream its answers", "measure whole answers (streamed = false)"
            )
        if reply.output_tokens is None:
            notes.append("the server tells no token counts: they are estimated")
        elif reply.output_tokens < prompt.max_output_tokens and reply.finish_reason != "length":
            notes.append(f"the server ended after {reply.output_tokens} of {prompt.max_output_tokens} tokens asked for")
        if len(reply.chunk_at_s) > 2 and reply.chunk_at_s[0] == reply.chunk_at_s[-1]:
            notes.append("all events came in one read: something on the way may hold streams back")
        return notes

    def _refused(self, reply: Reply, facts: EngineFacts) -> ServerError:
        """Why no answer can be had, for a person."""
        url, said = self.client.target.url, f"{reply.error}: {reply.error_text}"
        if reply.error in ("http_401", "http_403"):
            return ServerError(f"{url} refuses us ({said})", "give the right API key")
        if reply.error == "http_404":
            known = f"it has: {', '.join(facts.models)}" if facts.models else "it names no models"
            return ServerError(f"{url} does not know {facts.model!r} ({said})", known)
        if reply.error == "timeout":
            return ServerError(f"{url} gave no answer in time ({said})", "is it overloaded? Or raise the time-outs")
        return ServerError(f"{url} gives no usable answer ({said})", "try the same request by hand")


def _models(url: str, response: Response) -> list[dict[str, Any]]:
    """The entries of ``/v1/models``. Raises ``ServerError`` for anything that is none."""
    if response.status in (401, 403):
        raise ServerError(f"{url} refuses us (status {response.status})", "give the right API key")
    if response.status != 200:
        raise ServerError(
            f"{url}/v1/models answers with status {response.status}", "is this the address of an OpenAI-compatible API?"
        )
    try:
        said = msgspec.json.decode(response.body, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ServerError(f"{url}/v1/models is not JSON ({response.body[:40]!r})", "is this the right port?") from error
    listed = said.get("data")
    return [m for m in listed if isinstance(m, dict) and m.get("id")] if isinstance(listed, list) else []
