"""Run the commands in the docs' ``console`` blocks and renew, or check, the output written under them.

    python docs/renew.py           rewrite every page whose output has changed
    python docs/renew.py --check   say which pages have, and exit 1

A page is one session: its commands run in order in one empty folder. In a page, ``...`` stands for any text, for what
differs from run to run. Blocks marked otherwise (``sh``, ``text``) are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


def renewed_page(text: str) -> str:
    """A page with all its console blocks renewed, run in one folder of its own."""
    with tempfile.TemporaryDirectory(prefix="headcount-docs-") as folder:

        def fresh(found: re.Match[str]) -> str:
            return f"```console\n{renewed(found[1], folder)}```"

        return BLOCK.sub(fresh, text)


def main(check: bool) -> int:
    """Go through all pages; gives the exit code."""
    stale = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fresh = renewed_page(text)
        if fresh == text:
            continue
        stale += 1
        print(f"{page.relative_to(ROOT)} {'shows output that has changed' if check else 'renewed'}")
        if not check:
            page.write_text(fresh, encoding="utf-8")
    if check and stale:
        print("renew with: .venv/bin/python docs/renew.py")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
