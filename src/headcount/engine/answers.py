"""Turns the bytes of one answer into a ``Reply``, as they arrive. Knows nothing of how requests are shaped."""

from __future__ import annotations

from typing import Any

from headcount.engine.dialects import ABORTED, Chunk, Delta, decode, error_text, is_context_overflow
from headcount.http import EventParser, Exchange
from headcount.records import Reply

__all__ = ["Answer"]

_NO_STREAM, _JSON = b"{[<", b'"tfn-0123456789'
"""First bytes of what is no event stream: objects, lists, web pages; and those of JSON where it is said to be that."""
ERROR_BODY_BYTES = 65536
"""So much of a refusal is kept."""


class Answer(Exchange):
    """One answer on its way in: an event stream, JSON lines, or one JSON object, whatever was asked for."""

    __slots__ = ("_events", "_fault", "_kept_bytes", "_lines", "_pieces", "_terminal", "_whole_body", "reply")

    def __init__(self, reply: Reply, streamed: bool) -> None:
        super().__init__(whole=not streamed)
        self.reply = reply
        self._events: EventParser | None = None
        """Set once the body has turned out to be an event stream."""
        self._lines = False
        """The body has turned out to be JSON lines."""
        self._whole_body = False
        """The body has turned out to be neither."""
        self._pieces: list[bytes] = []
        """What has come of a whole body, or of a JSON line."""
        self._kept_bytes = 0
        self._fault: Any = None
        """The error object the answer held."""
        self._terminal = False

    # --- as it arrives -----------------------------------------------------------------------

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self._events is not None:
            for event in self._events.feed(data):
                self._take_event(event)
        elif self._lines:
            self._take_lines(data)
        else:
            self._take_unknown(data)

    def _take_unknown(self, data: bytes) -> None:
        """A body that is no stream so far: see by its first bytes what it is, since servers and proxies mislabel."""
        self._kept_bytes += len(data)
        if self.status != 200:
            if self._kept_bytes - len(data) < ERROR_BODY_BYTES:
                self._pieces.append(data)
            return
        self._pieces.append(data)
        if self._whole_body:
            return
        start = b"".join(self._pieces).lstrip()
        if not start:
            return
        kind = self.headers.get("content-type", "").lower()
        if start[:1] not in (_NO_STREAM + _JSON if "json" in kind else _NO_STREAM):
            self._events = EventParser()
        elif "ndjson" in kind or "jsonl" in kind or "json-seq" in kind:
            self._lines = True
        else:
            self._whole_body = True
            return
        pieces = b"".join(self._pieces)
        self._pieces = []
        self.on_body(pieces)

    def _take_lines(self, data: bytes) -> None:
        """JSON lines; a line in pieces is put together once, when its end has come."""
        lines = data.split(b"\n")
        self._pieces.append(lines[0])
        for line in lines[1:]:
            whole = b"".join(self._pieces).strip(b"\r\t \x1e")
            self._pieces = [line]
            if whole:
                self._take_event(whole)

    def _take_event(self, data: bytes) -> None:
        """One event of a stream, or one line."""
        reply = self.reply
        if reply.first_event_at_s is None:
            reply.first_event_at_s = self.read_at_s
        if data == b"[DONE]":  # as nearly all spell it: not worth an attempt to parse it
            self._terminal = self.over = True
            return
        chunk = decode(data)
        if chunk is not None:
            self._take_chunk(chunk)
        elif data.strip() == b"[DONE]":
            self._terminal = self.over = True
        elif data.strip() and self._fault is None:
            self._fault = f"an event is not JSON: {data[:200].decode('utf-8', 'replace')}"

    def _take_chunk(self, chunk: Chunk) -> None:
        """What one event says."""
        if chunk.choices:
            choice = chunk.choices[0]
            if choice.index == 0 or choice.index is None:
                delta = choice.delta if choice.delta is not None else choice.message
                if delta is not None:
                    text = delta.content
                    if text.__class__ is str and text:
                        self._note_output(text)
                    elif _hidden_output(delta):
                        self._note_output(_answer_text(delta))
                text = choice.text
                if text.__class__ is str and text:
                    self._note_output(text)
                if choice.finish_reason:
                    self._note_finish(choice.finish_reason)
                if choice.usage is not None:
                    self._note_usage(choice.usage)
        if chunk.usage is not None:
            self._note_usage(chunk.usage)
        if chunk.error:
            self._fault = chunk.error if self._fault is None else self._fault
            self.over = True
        if chunk.timings is not None or chunk.metrics is not None:
            self._note_server(chunk)

    def _note_output(self, text: str) -> None:
        """Something was generated; ``text`` is empty unless it belongs to the answer."""
        reply, at_s = self.reply, self.read_at_s
        self.has_output = True
        if at_s is not None and (self._events is not None or self._lines):
            at = reply.chunk_at_s
            if at and at[-1] == at_s:
                reply.coalesced = True
            at.append(at_s)
            if text and reply.first_answer_at_s is None:
                reply.first_answer_at_s = at_s
        if text:
            reply.text.append(text)

    def _note_finish(self, reason: Any) -> None:
        """The server says why it stops."""
        self._terminal = True
        self.reply.finish_reason = reason if isinstance(reason, str) else error_text(reason)
        if self.reply.finish_reason in ABORTED and self._fault is None:
            self._fault = f"the server gave up: finish_reason {self.reply.finish_reason}"

    def _note_usage(self, usage: Any) -> None:
        """Token counts, by chat completions' names or by the Responses API's."""
        if not isinstance(usage, dict):
            return
        reply = self.reply
        reply.prompt_tokens = _count(usage, "prompt_tokens", "input_tokens", known=reply.prompt_tokens)
        reply.output_tokens = _count(usage, "completion_tokens", "output_tokens", known=reply.output_tokens)
        for key in ("prompt_tokens_details", "input_tokens_details"):
            if isinstance(details := usage.get(key), dict):
                reply.cached_tokens = _count(details, "cached_tokens", known=reply.cached_tokens)

    def _note_server(self, chunk: Chunk) -> None:
        """What the server itself measured, in seconds and by our names."""
        reply = self.reply
        found = dict(reply.server or {})
        for said, names in ((chunk.timings, _TIMINGS), (chunk.metrics, _METRICS)):
            if isinstance(said, dict):
                found |= {ours: said[k] / 1000 for k, ours in names.items() if isinstance(said.get(k), int | float)}
        reply.server = found or None
        if isinstance(timings := chunk.timings, dict):  # counts too, for a server that was not asked for usage
            cached, evaluated = _count(timings, "cache_n"), _count(timings, "prompt_n")
            if reply.output_tokens is None:
                reply.output_tokens = _count(timings, "predicted_n")
            if reply.cached_tokens is None:
                reply.cached_tokens = cached
            if reply.prompt_tokens is None and cached is not None and evaluated is not None:
                reply.prompt_tokens = cached + evaluated

    # --- at the end --------------------------------------------------------------------------

    def note_times(self) -> None:
        """Hand over what the wire has told so far."""
        reply = self.reply
        reply.began_at_s = self.began_at_s
        reply.connected_at_s = self.connected_at_s
        reply.sent_at_s = self.sent_at_s
        reply.first_byte_at_s = self.first_byte_at_s
        reply.ended_at_s = self.ended_at_s
        reply.status = self.status
        reply.resends = self.resends

    def judge(self) -> None:
        """Take in what the end of the body left, and say whether this was a success, or which error."""
        self._take_rest()
        reply = self.reply
        if self._fault is not None and self.status is not None:
            overflow = is_context_overflow(self._fault)
            refused = "server_error" if self.status == 200 else f"http_{self.status}"
            reply.error, reply.error_text = "context_overflow" if overflow else refused, error_text(self._fault)
        elif self.failure == "client" or (self.failure == "timeout" and not self._terminal):
            reply.error, reply.error_text = self.failure, self.failure_text[:300]
        elif self.status is None:
            reply.error, reply.error_text = "disconnect", self.failure_text[:300]
        elif self.status != 200:
            reply.error, reply.error_text = f"http_{self.status}", self._refusal()
        elif not self._terminal:
            reply.error, reply.error_text = "truncated", self._what_is_missing()
        elif not self.has_output:
            reply.error, reply.error_text = "empty", "a complete answer without any output"

    def _take_rest(self) -> None:
        """What has come of an event, a line or a whole body when nothing more can come."""
        rest: bytes | None = b"".join(self._pieces)
        self._pieces = [rest] if rest else []
        if self._events is not None:
            rest = self._events.end()
        if not rest or not rest.strip():
            return
        if self._events is not None or self._lines:  # half an event is no fault of its own: the answer is truncated
            if rest.strip() == b"[DONE]" or decode(rest) is not None:
                self._take_event(rest)
            return
        chunk = decode(rest)
        if chunk is not None:
            self._terminal = self._terminal or self.status == 200
            self._take_chunk(chunk)
        elif self.status == 200 and self.failure is None:
            self._fault = f"the answer is not JSON: {rest[:200].decode('utf-8', 'replace')}"

    def _what_is_missing(self) -> str:
        """Why an answer with status 200 did not come to its end."""
        coding = self.headers.get("content-encoding", "identity")
        if coding != "identity":
            return f"the answer is compressed ({coding}), which was not asked for"
        return self.failure_text[:300] or "the answer ended without finish_reason or [DONE]"

    def _refusal(self) -> str:
        """What a status other than 200 came with."""
        if "location" in self.headers:
            return f"redirects to {self.headers['location']}"[:300]
        text = b"".join(self._pieces).decode("utf-8", "replace")
        return " ".join(text.split())[:300]


_TIMINGS = {"prompt_ms": "prefill_s", "predicted_ms": "decode_s"}
_METRICS = {"time_to_first_token_ms": "ttft_s", "queue_time_ms": "queue_s", "generation_time_ms": "decode_s"}


def _count(said: dict[str, Any], *names: str, known: int | None = None) -> int | None:
    """The first of these that is a count; ``known`` when none is."""
    for name in names:
        value = said.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return known


def _hidden_output(delta: Delta) -> bool:
    """Whether a delta without plain content holds output of another kind."""
    if delta.reasoning or delta.reasoning_content or delta.thinking or delta.refusal or delta.audio:
        return True
    parts = delta.content if isinstance(delta.content, list) else []
    if any(isinstance(part, dict) and (part.get("text") or part.get("thinking")) for part in parts):
        return True
    calls = delta.tool_calls if isinstance(delta.tool_calls, list) else []
    for call in [*calls, {"function": delta.function_call}]:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and (function.get("name") or function.get("arguments")):
            return True
    return False


def _answer_text(delta: Delta) -> str:
    """The part of the answer in a delta without plain content: a refusal, or the text parts of a list."""
    if isinstance(delta.refusal, str) and delta.refusal:
        return delta.refusal
    parts = delta.content if isinstance(delta.content, list) else []
    return "".join(p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str))
