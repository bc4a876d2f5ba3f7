"""What a client asks, in the fields that matter here; others are ignored. Knows no server and no sockets."""

from __future__ import annotations

from typing import Any

import msgspec

from headcount.records import Message

__all__ = ["Ask", "read_ask"]

_UNASKED_TOKENS = 256
"""The longest answer to a request that does not say how long it may be."""


class _Scale(msgspec.Struct):
    """One of llama.cpp's ``lora``: an adapter by its number, and how strongly it counts."""

    id: int
    share: float = msgspec.field(default=1.0, name="scale")


class Ask(msgspec.Struct):
    """A request for chat or plain completions."""

    messages: list[dict[str, Any]] | None = None
    prompt: str | list[str] | None = None
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    lora: list[_Scale] | None = None
    cache_prompt: bool = True

    @property
    def limit_tokens(self) -> int:
        """The longest answer it allows."""
        given = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return _UNASKED_TOKENS if given is None else given

    @property
    def wants_usage(self) -> bool:
        """Whole answers always carry it, streams where they are asked to."""
        return not self.stream or bool((self.stream_options or {}).get("include_usage"))

    def conversation(self, chat: bool) -> list[Message]:
        """What was said; a plain prompt is one message."""
        if not chat:
            text = self.prompt if isinstance(self.prompt, str) else "\n".join(self.prompt or ())
            return [{"role": "user", "content": text}]
        return [{"role": str(said["role"]), "content": _text(said.get("content"))} for said in self.messages or ()]


def read_ask(body: bytes, chat: bool) -> Ask:
    """From a body. ``ValueError`` says what is wrong with it."""
    try:
        ask = msgspec.json.decode(body, type=Ask)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the request cannot be read: {error}") from error
    if chat and not ask.messages:
        raise ValueError("messages is missing or empty")
    if any("role" not in message for message in ask.messages or ()):
        raise ValueError("a message has no role")
    if ask.limit_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {ask.limit_tokens}")
    return ask


def _text(content: object) -> str:
    """Message content: a string, or a list of parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
