"""Renew, or check, what the docs show of the code: the output of commands, and the fields of types.

    python docs/renew.py           rewrite every page where something has changed
    python docs/renew.py --check   say which pages those are, and exit 1

The commands in a page's ``console`` blocks run in order in one empty folder, and their output is written under them.
In a page, ``...`` stands for any text, for what differs from run to run. Blocks marked otherwise (``sh``, ``text``) are
not run. Between ``<!-- fields of module:Class -->`` and ``<!-- end -->`` stands a table of the class's fields.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIELDS = re.compile(r"^<!-- fields of (\S+):(\S+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
COMMAND_TIMEOUT_S = 100


def pages() -> list[Path]:
    """Every page a reader can meet."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def output_of(command: str, folder: str) -> str:
    """What a person would see of ``command`` in a terminal 100 columns wide, without colours."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    surroundings = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())


def holds(written: str, seen: str) -> bool:
    """Whether the output is as written; ``...`` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in written.strip().split("..."))
    return re.fullmatch(pattern, seen.strip(), re.DOTALL) is not None


def renewed(block: str, folder: str) -> str:
    """The block with the output its commands give now; an output that still holds stays as it is written."""
    lines = []
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        command, _, written = part.partition("\n")
        if not command.startswith("$ "):
            lines.append(part)
            continue
        seen = output_of(command.removeprefix("$ "), folder)
        lines.append(f"{command}\n{written if holds(written, seen) else seen}")
    return "".join(lines)


def fields_table(found: re.Match[str]) -> str:
    """A row for each field: its name, its type and default as written in the code, and its docstring."""
    module, name = found.groups()
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    rows = ["| field | type | default | is |", "|---|---|---|---|"]
    for field, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(field, ast.AnnAssign):
            continue
        says = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
        default = f"`{ast.unparse(field.value)}`" if field.value else ""
        cells = (
            f"`{ast.unparse(field.target)}`",
            f"`{ast.unparse(field.annotation)}`",
            default,
            " ".join(says.split()),
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("``", "`") for cell in cells) + " |")
    return "\n".join([f"<!-- fields of {module}:{name} -->", *rows, "<!-- end -->"])


def renewed_page(text: str) -> str:
    """A page with its tables of fields and its console blocks renewed."""
    with tempfile.TemporaryDirectory(prefix="headcount-docs-") as folder:

        def fresh(found: re.Match[str]) -> str:
            return f"```console\n{renewed(found[1], folder)}```"

        return BLOCK.sub(fresh, FIELDS.sub(fields_table, text))


def main(check: bool) -> int:
    """Go through all pages; gives the exit code."""
    stale = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fresh = renewed_page(text)
        if fresh == text:
            continue
        stale += 1
        print(f"{page.relative_to(ROOT)} {'shows what has changed' if check else 'renewed'}")
        if not check:
            page.write_text(fresh, encoding="utf-8")
    if check and stale:
        print("renew with: .venv/bin/python docs/renew.py")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
