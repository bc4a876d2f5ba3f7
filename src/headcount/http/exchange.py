"""One request and the answer to it, as the answer comes in. Knows nothing of sockets and of what a body means."""

from __future__ import annotations

from typing import Literal

import httptools

from headcount.http.target import Target

__all__ = ["Exchange", "Failure"]

Failure = Literal["client", "lost", "malformed", "timeout", "unreachable"]
"""``client``: no descriptor or port left on our side; ``lost``: closed or reset before the answer's end;
``malformed``: not HTTP; ``timeout``: one of our time-outs ended it; ``unreachable``: no connection could be made."""


class Exchange:
    """The facts of one request, and a sink for its answer: an heir overrides ``on_body``.

    A ``Client`` fills it. Instants are seconds on the event loop's clock. All bytes of one read carry one
    instant, ``read_at_s``. The ``on_…`` methods are called by the HTTP parser.
    """

    __slots__ = (
        "began_at_s",
        "complete",
        "connected_at_s",
        "ended_at_s",
        "failure",
        "failure_text",
        "first_byte_at_s",
        "has_output",
        "headers",
        "keeps_alive",
        "over",
        "parser",
        "read_at_s",
        "resends",
        "sent_at_s",
        "status",
        "total_timeout_s",
        "whole",
    )

    def __init__(self, whole: bool, total_timeout_s: float | None = None) -> None:
        self.whole = whole
        """Only the whole answer is of interest: time-outs for a stream's parts do not apply."""
        self.total_timeout_s = total_timeout_s
        """None: the target's. Counts from ``began_at_s``, connecting included."""
        self.began_at_s: float | None = None
        self.connected_at_s: float | None = None
        """When a connection was ready; ``began_at_s`` for a pooled one."""
        self.sent_at_s: float | None = None
        """When the last byte of the request was handed to the kernel (with TLS: to the cipher)."""
        self.first_byte_at_s: float | None = None
        """Of the answer itself, 1xx passed over."""
        self.read_at_s: float | None = None
        """When the latest bytes were read; None before any."""
        self.ended_at_s: float | None = None
        self.resends = 0
        """1 when it was sent again because a pooled connection turned out dead."""
        self.status: int | None = None
        """None until the head of the answer is whole."""
        self.headers: dict[str, str] = {}
        """By lower-case name; of several with one name the last."""
        self.complete = False
        """The body came to the end that its framing promised."""
        self.failure: Failure | None = None
        """Why it is not complete; None when it is, or when the answer itself had said that it is over."""
        self.failure_text = ""
        self.has_output = False
        """To be set by the heir once something was generated: the first-token time-out has been met."""
        self.over = False
        """To be set by the heir when the content says that no more comes: the framing's end is not waited for long."""
        self.keeps_alive = False
        self.parser: httptools.HttpResponseParser | None = None

    def restart(self) -> None:
        """Be ready for the first byte of an answer: at the start, and when the request is sent again."""
        self.parser = httptools.HttpResponseParser(self)

    def patience_s(self, target: Target) -> float:
        """After how long, counted from any moment, the first of the time-outs may pass."""
        total_s = target.total_timeout_s if self.total_timeout_s is None else self.total_timeout_s
        return total_s if self.whole else min(target.first_token_timeout_s, target.idle_timeout_s, total_s)

    def due(self, target: Target, linger_s: float) -> tuple[float, str]:
        """When the next time-out passes as things stand, and what to say then; nothing when all has been said."""
        began_at_s = self.began_at_s or 0.0
        total_s = target.total_timeout_s if self.total_timeout_s is None else self.total_timeout_s
        due = (began_at_s + total_s, f"no end within {total_s:g} s (total time-out)")
        if self.over and self.read_at_s is not None:
            return min(due, (self.read_at_s + linger_s, ""))
        if self.whole:
            return due
        if not self.has_output or self.read_at_s is None:
            wait_s = target.first_token_timeout_s
            at_s = (self.sent_at_s or began_at_s) + wait_s
            return min(due, (at_s, f"no output within {wait_s:g} s (first-token time-out)"))
        wait_s = target.idle_timeout_s
        return min(due, (self.read_at_s + wait_s, f"silent for {wait_s:g} s (idle time-out)"))

    def on_message_begin(self) -> None:
        """The start of an answer. Raises ``ValueError`` for a second one: the server is out of step."""
        if self.complete:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The end of the head."""
        assert self.parser is not None
        self.status = self.parser.get_status_code()
        if self.first_byte_at_s is None:
            self.first_byte_at_s = self.read_at_s

    def on_body(self, data: bytes) -> None:
        """A piece of the body, without chunk marks; of every read at least one piece, stamped ``read_at_s``."""

    def on_message_complete(self) -> None:
        """The end of the body, or of an interim answer (1xx), which says nothing."""
        assert self.parser is not None
        assert self.status is not None
        if self.status < 200:
            self.status = self.first_byte_at_s = None
            self.headers = {}
        elif not self.complete:
            self.keeps_alive = self.parser.should_keep_alive()
            self.complete = self.over = True
