"""What servers say, said alike: every event or whole answer becomes a ``Chunk`` of chat completions.

Understands chat completions, ``/v1/completions``, the Responses API's events and Ollama's own lines, streamed
or whole, and error objects of every shape met. Knows nothing of time and of HTTP.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

__all__ = ["ABORTED", "Choice", "Chunk", "Delta", "decode", "error_text", "is_context_overflow"]

ABORTED = frozenset({"error", "abort", "aborted", "cancelled"})
"""Finish reasons by which a server says that it gave up."""


class Delta(msgspec.Struct, gc=False):
    """What one choice of one event adds. Fields may hold anything: servers differ."""

    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    thinking: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None


class Choice(msgspec.Struct, gc=False):
    """One alternative of an answer; we ask for one only."""

    index: Any = 0
    delta: Delta | None = None
    message: Delta | None = None
    text: Any = None
    finish_reason: Any = None
    usage: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event of a stream, or a whole answer; just what is needed of it."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    timings: Any = None
    """llama.cpp's."""
    metrics: Any = None
    """vLLM's, per request."""


_decode = msgspec.json.Decoder(Chunk).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def decode(data: bytes) -> Chunk | None:
    """One JSON object as a chunk; None when it is none."""
    try:
        chunk = _decode(data)
        return chunk if chunk.choices is not None else _translate(_decode_any(data))
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:  # half characters, lone surrogates and NaN are no JSON, but servers send them
        loose = json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None)
        clean = json.dumps(loose, ensure_ascii=False).encode("utf-8", "replace")
        chunk = _decode(clean)
        return chunk if chunk.choices is not None else _translate(_decode_any(clean))
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


def _translate(said: dict[str, Any]) -> Chunk:
    """An object without ``choices``."""
    if (error := _error_object(said)) is not None:
        return Chunk(error=error)
    kind = said.get("type")
    if isinstance(kind, str) and kind.startswith("response."):
        return _responses_event(kind, said)
    if said.get("object") == "response":
        return _responses_whole(said)
    if "done" in said or isinstance(said.get("response"), str) or isinstance(said.get("message"), dict):
        return _ollama_line(said)
    return Chunk(usage=said.get("usage"), timings=said.get("timings"), metrics=said.get("metrics"))


# --- errors ----------------------------------------------------------------------------------


def _error_object(said: dict[str, Any]) -> Any:
    """The error that an object is or holds; None when it is no error."""
    if said.get("error"):
        return said["error"]
    if said.get("object") == "error" or said.get("type") == "error":
        return said
    if said.get("type") == "response.failed":
        response = said.get("response")
        return (response.get("error") if isinstance(response, dict) else None) or "the response failed"
    for key in ("detail", "errors"):
        if said.get(key):
            return said[key]
    return said if isinstance(said.get("message"), str) else None


def error_text(error: Any) -> str:
    """What an error object of any shape says, in one line of at most 300 characters."""
    return " ".join(_said(error, 0).split())[:300]


def _said(error: Any, depth: int) -> str:
    """The message inside; a list's messages one after the other, each with the field it is about."""
    if isinstance(error, list) and error and depth < 4:
        return "; ".join(_said(one, depth + 1) for one in error[:5])
    if isinstance(error, dict) and depth < 4:
        inner = next((error[k] for k in ("message", "msg", "detail", "error", "errors") if error.get(k)), None)
        if inner is not None:
            where = error.get("loc")
            about = f" ({'.'.join(map(str, where))})" if isinstance(where, list) else ""
            return _said(inner, depth + 1) + about
    return error if isinstance(error, str) else json.dumps(error, ensure_ascii=False, default=str)


_OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|max_model_len|max_seq_len|max_input_len|max_total_tokens"
    r"|session_len|exceed_context|prompt is too long|input (is )?too long|too many tokens|longer than the max"
    r"|max_new_tokens. must be <=|must have less than \d+ tokens|tokens to keep from the initial prompt",
    re.IGNORECASE,
)


def is_context_overflow(error: Any) -> bool:
    """Whether an error says that the prompt, or prompt and answer, do not fit the model's context."""
    text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False, default=str)
    return _OVERFLOW.search(text[:4000]) is not None


# --- the Responses API -----------------------------------------------------------------------

_ANSWER_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})


def _responses_event(kind: str, said: dict[str, Any]) -> Chunk:
    if kind.endswith(".delta"):
        piece = said.get("delta")
        delta = Delta(content=piece) if kind in _ANSWER_DELTAS else Delta(reasoning=piece)
        return Chunk(choices=[Choice(delta=delta)])
    if kind == "response.output_item.added":
        item = said.get("item")
        name = item.get("name") if isinstance(item, dict) else None
        return Chunk(choices=[Choice(delta=Delta(reasoning=name))])
    if kind in ("response.completed", "response.incomplete"):
        response = said.get("response")
        response = response if isinstance(response, dict) else {}
        return Chunk(choices=[Choice(finish_reason=_responses_reason(response))], usage=response.get("usage"))
    return Chunk(choices=[])


def _responses_whole(said: dict[str, Any]) -> Chunk:
    answer, other = "", ""
    output = said.get("output")
    for item in output if isinstance(output, list) else []:
        if not isinstance(item, dict):
            continue
        content = item.get("content")
        text = "".join(_texts(content)) if content else str(item.get("arguments") or item.get("name") or "")
        if item.get("type") == "message":
            answer += text
        else:
            other += text
    reason = _responses_reason(said)
    return Chunk(
        choices=[Choice(message=Delta(content=answer, reasoning=other), finish_reason=reason)], usage=said.get("usage")
    )


def _responses_reason(response: dict[str, Any]) -> str:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if response.get("status") in ("failed", "cancelled"):
        return "error"
    return "length" if reason in ("max_output_tokens", "max_tokens") else str(reason or "stop")


def _texts(content: Any) -> list[str]:
    """The text parts of a content list."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [p["text"] for p in parts if isinstance(p, dict) and isinstance(p.get("text"), str)]


# --- Ollama's own lines ----------------------------------------------------------------------


def _ollama_line(said: dict[str, Any]) -> Chunk:
    message = said.get("message")
    delta = Delta(thinking=said.get("thinking"))
    if isinstance(message, dict):
        delta = Delta(
            content=message.get("content"), thinking=message.get("thinking"), tool_calls=message.get("tool_calls")
        )
    reason = (said.get("done_reason") or "stop") if said.get("done") else None
    chunk = Chunk(choices=[Choice(delta=delta, text=said.get("response"), finish_reason=reason)])
    if reason is not None:
        chunk.usage = {"prompt_tokens": said.get("prompt_eval_count"), "completion_tokens": said.get("eval_count")}
        took = {"prompt_ms": said.get("prompt_eval_duration"), "predicted_ms": said.get("eval_duration")}
        chunk.timings = {
            k: nanoseconds / 1e6 for k, nanoseconds in took.items() if isinstance(nanoseconds, int | float)
        }
    return chunk
