"""Any server that speaks OpenAI's API, and what the other engines build on. Sends standard fields only."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec

from headcount.engine.answers import Answer
from headcount.errors import ScenarioError, ServerError
from headcount.http import Client, Response
from headcount.records import EngineFacts, Prompt, Reply
from headcount.virtual import clock

__all__ = ["OpenAI"]

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses"}
COMING_UP = frozenset({429, 502, 503, 504})
"""What a server, or a proxy before it, says while the model is being loaded."""
LOOK_AGAIN_S = 1.0


class OpenAI:
    """One server behind ``client``. Heirs override ``name``, ``extras``, ``facts`` and ``gauges``."""

    name = "openai"
    paths: ClassVar[dict[str, str]] = PATHS
    """Where each API is served."""

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
        """``api``: a key of ``paths``. ``body``: fields added to every request. ``load_timeout_s``: the longest
        that ``prepare`` waits for a model to be loaded."""
        if api not in self.paths:
            raise ScenarioError(f"api {api!r} is not known", f"known: {', '.join(self.paths)}")
        self.client = client
        self.model = model
        self.learned: dict[str, Any] = dict(learned or {})
        self._api = api
        self._body = dict(body or {})
        if temperature is not None:
            self._body["temperature"] = temperature
        self._load_timeout_s = load_timeout_s
        self.token_s: float | None = None
        """How long a token took in the first answer, to one person alone; None before that and where nobody counted."""
        if self.learned.get("closes_connections"):
            client.keep_alive = False

    # --- what the load asks ------------------------------------------------------------------

    async def send(self, prompt: Prompt, reply: Reply) -> None:
        """One request; see ``Engine.send``."""
        answer = Answer(reply, prompt.streamed)
        try:
            await self.client.send(self.paths[self._api], msgspec.json.encode(self.body(prompt)), answer)
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
        """What ``/v1/models`` tells: models, adapters (those with a parent), the context's length.

        Waits while the server says that it is loading.
        """
        url = self.client.target.url
        listed = _models(url, await self._once_there("/v1/models"), self.model)
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

    async def _once_there(self, path: str) -> Response:
        """GET, again and again while the server is coming up."""
        now = clock()
        began_s = now()
        while (response := await self.client.get(path)).status in COMING_UP:
            self._still_patient(now() - began_s, f"status {response.status}")
            await asyncio.sleep(LOOK_AGAIN_S)
        return response

    def _still_patient(self, waited_s: float, said: str) -> None:
        """Raises ``ServerError`` when the model has been waited for too long."""
        if waited_s > self._load_timeout_s:
            raise ServerError(
                f"the model of {self.client.target.url} was not there within {self._load_timeout_s:g} s ({said})",
                "wait until the server answers, or raise load_timeout_s",
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
            waited_s = now() - began_s
            if reply.error is None:
                break
            if reply.status in COMING_UP:
                self._still_patient(waited_s, f"{reply.error}: {reply.error_text}")
                await asyncio.sleep(LOOK_AGAIN_S)
            elif (note := self._learn(reply, prompt)) is not None:
                notes.append(note)
            else:
                raise self._refused(reply, facts)
        self.token_s = _token_s(reply)
        if waited_s > 5.0:
            notes.append(f"the first answer came after {waited_s:.0f} s")
        notes += self._observe(prompt, reply)
        await asyncio.sleep(0.1)
        if self.client.closed_behind:
            self.learned["closes_connections"] = True
            self.client.keep_alive = False
            notes.append("the server closes the connection behind each answer: every request opens its own")
        return tuple(notes)

    def _learn(self, reply: Reply, prompt: Prompt) -> str | None:
        """Change the request's shape after a refusal; None when there is nothing left to change."""
        if reply.status not in (400, 422) or reply.error == "context_overflow":
            return None
        text = (reply.error_text or "").lower()
        if "max_completion_tokens" in text and "max_tokens_field" not in self.learned and self._api == "chat":
            self.learned["max_tokens_field"] = "max_completion_tokens"
            return "the server wants max_completion_tokens instead of max_tokens"
        sent = self.body(prompt)
        optional = [field for field in (*self.extras(prompt), "stream_options", "store") if field in sent]
        refused = [field for field in optional if field in text] or optional
        if not refused:
            return None
        self.learned["refused"] = [*self.learned.get("refused", ()), *refused]
        return f"the server refuses {', '.join(refused)}"

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
        if reply.status in (401, 403):
            return ServerError(f"{url} refuses us ({said})", "give the right API key")
        if reply.status in (400, 404, 422) and "model" in said and reply.error != "context_overflow":
            known = f"it has: {', '.join(facts.models)}" if facts.models else "it names no models of its own"
            return ServerError(f"{url} does not know {facts.model!r} ({said})", known)
        hints = {
            404: f"it has no {self.paths[self._api]}: is the address right, or is another api meant?",
            301: "redirects are not followed; give the final address",
        }
        status = 301 if reply.status in (302, 303, 307, 308) else reply.status
        hint = hints.get(status or 0) or {
            "timeout": "is it overloaded? Or raise the time-outs",
            "context_overflow": "the model's context is shorter than the first prompt: plan shorter ones",
            "disconnect": "is the address right, and what does the server's log say?",
        }.get(reply.error or "", "see the server's log, or try the same request by hand")
        return ServerError(f"{url} gives no usable answer ({said})", hint)


def _models(url: str, response: Response, named: str | None) -> list[dict[str, Any]]:
    """The entries of ``/v1/models``; none when the server has no list but the user has ``named`` a model.

    Raises ``ServerError`` for anything that is no such list.
    """
    if response.status in (401, 403):
        raise ServerError(f"{url} refuses us (status {response.status})", "give the right API key")
    if response.status != 200:
        if named is not None:
            return []
        hint = "is this the address of an OpenAI-compatible API? If it only lacks a list of models, name the model"
        raise ServerError(f"{url}: /v1/models answers with status {response.status}", hint)
    try:
        said = msgspec.json.decode(response.body, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        start = response.body[:40].decode("utf-8", "replace")
        raise ServerError(f"{url}: /v1/models is not JSON ({start!r})", "is this the model server's port?") from error
    listed = said.get("data")
    return [m for m in listed if isinstance(m, dict) and m.get("id")] if isinstance(listed, list) else []


def _token_s(reply: Reply) -> float | None:
    """Seconds a token between the first and the last output of a streamed answer; None for any other."""
    if len(reply.chunk_at_s) < 2 or (reply.output_tokens or 0) < 2:
        return None
    return (reply.chunk_at_s[-1] - reply.chunk_at_s[0]) / ((reply.output_tokens or 0) - 1)
