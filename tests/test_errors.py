"""Every error that a user can meet comes with a remedy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from headcount import errors

SOURCE = Path(errors.__file__).parent
KINDS = {name for name in errors.__all__ if name.endswith("Error")}


def without_hint() -> Iterator[str]:
    """Where an error is made with a message alone, or with an empty remedy."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            hint = node.args[1] if len(node.args) > 1 else None
            empty = hint is None or (isinstance(hint, ast.Constant) and not hint.value)
            if name in KINDS and empty and not any(word.arg == "hint" for word in node.keywords):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_every_error_has_a_hint() -> None:
    """A sentence says what is wrong; the hint says what to do about it."""
    assert list(without_hint()) == []
