"""How many people can use your model server at once before it stops feeling good, and what gives out first.

For scripts and notebooks: ``headcount.open_run(path)`` and ``headcount.compare(a, b)``. Both load what they need when
they are first asked for, so that ``headcount --help`` does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headcount.stored import Compared, Picture, StoredRun, compare, open_run

__all__ = ["Compared", "Picture", "StoredRun", "compare", "open_run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headcount import stored

    return getattr(stored, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
