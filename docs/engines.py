"""Write, or check, docs/reference/engines.md from the tables in the engines' own files.

python docs/engines.py           rewrite the page
python docs/engines.py --check   exit 1 when it is not what the tables say
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from headcount.engine import ENGINES, engine_class
from headcount.engine.gauges import Meter
from headcount.records import EngineFacts

PAGE = Path(__file__).parent / "reference" / "engines.md"
FACTS = ("version", "model", "adapters", "context_tokens", "quantization", "slots", "kv_pool_tokens")
HEAD = """\
# Engines

<!-- Made by docs/engines.py from the engines' own files; change those, then run it. -->

An engine is recognised by what it answers, never by its port alone; `[engine] kind` in a scenario names one outright.
Each is an OpenAI-compatible server first; here is what it tells beyond that, how requests to it differ, and which of
its metrics become ours. A fact without a place stays unknown, never 0. Only engines marked *run* were seen running; the
others are read from their documents and sources.

Of several names for one figure the first that is on the page counts, so that renamed metrics go on being found. Where
several data-parallel engines answer, their values are summed unless the table says otherwise.
"""
ACROSS = {"sum": "", "max": "the fullest engine", "mean": "mean of the engines"}


def overview(kinds: list[Any]) -> list[str]:
    """Which engine tells what."""
    rows = [
        "## What each tells",
        "",
        "| engine | " + " | ".join(FACTS) + " | metrics |",
        "|---" * (len(FACTS) + 2) + "|",
    ]
    for kind in kinds:
        cells = ["yes" if fact in kind.about.told else "–" for fact in FACTS]
        rows.append(f"| `{kind.name}` | " + " | ".join(cells) + f" | {'yes' if hasattr(kind, 'meter') else '–'} |")
    return rows


def section(kind: Any) -> list[str]:
    """One engine: how sure we are, where its facts are, how it is asked, its metrics."""
    about = kind.about
    port = f" Usually at port {about.port}." if about.port else ""
    lines = [f"## {about.title}", "", f"`{kind.name}`; {about.tried}.{port}", "", f"Requests: {about.asks}.", ""]
    lines += ["| fact | read from |", "|---|---|"]
    lines += [f"| `{fact}` | {where} |" for fact, where in about.told.items()]
    meter = getattr(kind, "meter", None)
    return lines + (metrics(meter) if meter is not None else ["", "It shows no metrics: queue and memory stay unseen."])


def metrics(meter: Meter) -> list[str]:
    """Our names and theirs."""
    lines = ["", f"Metrics at `{meter.path}`; when there are none: {meter.turn_on}.", ""]
    lines += ["| ours | theirs, newest first | of several engines |", "|---|---|---|"]
    for ours, gauge in meter.table.items():
        lines.append(f"| `{ours}` | {', '.join(f'`{name}`' for name in gauge.names)} | {ACROSS[gauge.across]} |")
    return lines


def page() -> str:
    """The whole page."""
    kinds = [kind for kind in map(engine_class, ENGINES) if hasattr(kind, "about")]
    unknown = {fact for kind in kinds for fact in kind.about.told} - {
        f.name for f in msgspec.structs.fields(EngineFacts)
    }
    assert not unknown, f"no such fact: {unknown}"
    parts = [HEAD.rstrip(), "\n".join(overview(kinds)), *("\n".join(section(kind)) for kind in kinds)]
    return "\n\n".join(parts) + "\n"


def main(check: bool) -> int:
    """Gives the exit code."""
    fresh = page()
    if check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh
        print("renew docs/reference/engines.md with: .venv/bin/python docs/engines.py" if stale else "up to date")
        return int(stale)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
