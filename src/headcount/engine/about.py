"""What the reference page says of one kind of server; each engine's file holds its own."""

from __future__ import annotations

import msgspec

__all__ = ["About"]


class About(msgspec.Struct, frozen=True):
    """One engine, in words."""

    title: str
    tried: str
    """How sure we are: run and recorded, or only read about."""
    told: dict[str, str] = {}
    """Field of ``EngineFacts`` → where it is read; a field that is not here stays None."""
    asks: str = "standard fields only"
    """How requests differ from a plain server's."""
    port: int | None = None
    """Where it listens unless told otherwise."""
