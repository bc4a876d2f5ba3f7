"""One request inside the simulated server, and the times of its tokens. Knows nothing of scheduling."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple

from headcount.simulator.pool import Node, Path

__all__ = ["Event", "Job", "Refusal", "Span", "State"]

State = Literal["new", "refused", "waiting", "prefilling", "parked", "decoding", "finished", "cancelled"]
"""``parked``: in the batch, but another adapter's sequences compute."""

Refusal = Literal["context_overflow", "queue_full"]
"""Why a job is not taken."""


class Span:
    """Steps taken at once, in which every decoding sequence wrote one token a step; a chain in order of time.

    Step j (from 1) ends at ``began_at_s + j * first_s + growth_s * j * (j - 1) / 2``: each step reads one more
    token of context for every sequence. A job keeps the span it joined after; spans no job keeps are freed.
    """

    __slots__ = ("began_at_s", "ended_at_s", "first_s", "growth_s", "next", "steps")

    def __init__(self, began_at_s: float, first_s: float, growth_s: float, steps: int) -> None:
        self.began_at_s = began_at_s
        self.first_s = first_s
        self.growth_s = growth_s
        self.steps = steps
        self.ended_at_s = began_at_s + steps * first_s + growth_s * (0.5 * steps * (steps - 1))
        self.next: Span | None = None

    def take(self, steps: int) -> None:
        """Make it ``steps`` steps long."""
        self.steps = steps
        self.ended_at_s = self.end_s(steps)

    def end_s(self, step: int) -> float:
        """When step ``step`` (from 1) ends; 0 gives the beginning."""
        return self.began_at_s + step * self.first_s + self.growth_s * (0.5 * step * (step - 1))

    def steps_until(self, at_s: float) -> int:
        """The first step that ends at or after ``at_s``, at most ``steps``."""
        left_s, half_s = at_s - self.began_at_s, 0.5 * self.growth_s
        linear_s = self.first_s - half_s
        if half_s > 0:
            root = 2.0 * left_s / (linear_s + (linear_s * linear_s + 4.0 * half_s * left_s) ** 0.5)
        else:
            root = left_s / linear_s if linear_s else self.steps
        step = min(self.steps, max(0, int(root)))
        while step > 0 and self.end_s(step - 1) >= at_s:
            step -= 1
        while step < self.steps and self.end_s(step) < at_s:
            step += 1
        return step


class Job:
    """What a request costs the server, and what has become of it. Instants on the driver's clock."""

    __slots__ = (
        "adapter",
        "answer_key",
        "base_tokens",
        "beyond",
        "cached_tokens",
        "ended_at_s",
        "finish_step",
        "first_token_at_s",
        "join_step",
        "limit_tokens",
        "node",
        "number",
        "output_tokens",
        "path",
        "pieces",
        "preemptions",
        "prompt_tokens",
        "started_at_s",
        "state",
        "submitted_at_s",
        "tag",
        "todo_tokens",
        "written_tokens",
    )

    def __init__(
        self,
        prompt_tokens: int,
        output_tokens: int,
        *,
        limit_tokens: int | None = None,
        adapter: str | None = None,
        path: Path = (),
        answer_key: Hashable = None,
        tag: object = None,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        """Tokens the answer will have; the server finds out by writing them."""
        self.limit_tokens = output_tokens if limit_tokens is None else limit_tokens
        """The most the request allows, all that the scheduler knows beforehand."""
        self.adapter = adapter
        self.path = path
        """The prompt's message boundaries; empty: nothing of it is ever reused."""
        self.answer_key = answer_key
        """Stands for prompt and answer together in later paths; None: the answer is not kept."""
        self.tag = tag
        """Whatever the driver wants to find again; the server never looks at it."""
        self.state: Literal[
            "new", "waiting", "prefilling", "parked", "decoding", "finished", "cancelled", "refused"
        ] = "new"
        self.number = 0
        """The order of admission."""
        self.submitted_at_s = 0.0
        self.started_at_s: float | None = None
        """When it was first admitted."""
        self.first_token_at_s: float | None = None
        self.ended_at_s: float | None = None
        self.cached_tokens = 0
        """Prompt tokens found in the prefix cache when it was first admitted."""
        self.preemptions = 0
        self.todo_tokens = 0
        """Tokens still to be computed before the next token is written."""
        self.written_tokens = 0
        """Tokens written before it joined the decoding batch, the one it joined with included."""
        self.join_step = 0
        self.finish_step = 0
        self.base_tokens = 0
        """Context in decoding step s is ``base_tokens + s``."""
        self.node: Node | None = None
        """The known history it runs on, locked."""
        self.beyond: Path = ()
        """The boundaries of ``path`` behind ``node``, to be known once they are computed."""
        self.pieces: list[tuple[float, Span, int]] = []
        """(first token, the span it joined after, decoding steps), one a stay in the batch; -1: it is still there."""

    def tokens_by(self, step: int) -> int:
        """Tokens written when the batch has taken ``step`` decoding steps."""
        return self.written_tokens + (step - self.join_step if self.state == "decoding" else 0)

    def end_piece(self, steps: int) -> None:
        """The stay in the batch under way ends after ``steps`` decoding steps."""
        first_at_s, joined, _ = self.pieces[-1]
        self.pieces[-1] = (first_at_s, joined, steps)

    def token_times(self, until_s: float, current: Span | None = None) -> list[float]:
        """When each token was written, up to ``until_s``; ``current`` is the span under way, not yet chained."""
        times: list[float] = []
        for first_at_s, joined, steps in self.pieces:
            times.append(first_at_s)
            span, left = joined.next, steps
            while span is not None and left:
                count = span.steps if left < 0 else min(left, span.steps)
                times += _ends(span, count)
                left = left if left < 0 else left - count
                span = span.next
            if left < 0 and current is not None:
                times += _ends(current, current.steps)
        while times and times[-1] > until_s:
            times.pop()
        return times


class Event(NamedTuple):
    """A job's first token, or its end."""

    at_s: float
    kind: Literal["first_token", "finished"]
    job: Job


def _ends(span: Span, count: int) -> list[float]:
    """When the first ``count`` steps of ``span`` end."""
    began_at_s, first_s, growth_s = span.began_at_s, span.first_s, span.growth_s
    return [began_at_s + j * first_s + growth_s * (0.5 * j * (j - 1)) for j in range(1, count + 1)]
