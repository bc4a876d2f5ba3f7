"""What people say: endless conversations of turns. An extension point, table ``WORKLOADS``.

Everything random comes from one seed by named streams, so that the same person of the same run says the
same words whatever the others do. Knows nothing of engines, HTTP and clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from headcount.records import Conversation

__all__ = ["WORKLOADS", "Workload"]

WORKLOADS: dict[str, str] = {
    "chat": "headcount.workload.chat:Chat",
}


class Workload(Protocol):
    """Conversations for each person."""

    def conversations(self, person: int, stream: str) -> Iterator[Conversation]:
        """The endless conversations of one person. ``stream`` names the random stream (level and repeat),
        so that a repeated level says new words while a repeated run says the same."""
