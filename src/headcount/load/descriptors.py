"""Open files: how many a process may have. Knows nothing of connections."""

from __future__ import annotations

import sys

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

__all__ = ["descriptor_limit", "raise_descriptor_limit"]

WHERE_UNLIMITED = 10240
"""What a process asks for where the hard limit is none: macOS grants no more."""


def descriptor_limit() -> int:
    """The most that a process of ours can have open, once it has raised its soft limit."""
    if resource is None:
        return sys.maxsize
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return WHERE_UNLIMITED if hard == resource.RLIM_INFINITY else hard


def raise_descriptor_limit() -> None:
    """Raise the soft limit as far as can be, which needs no rights."""
    if resource is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor_limit(), hard))
