"""Progress is drawn by the run's own time, calm where nobody watches, and gone when the answer comes."""

from __future__ import annotations

import io
import math

import msgspec
from rich.console import Console

from headcount.report.progress import Moment, Progress

MOMENT = Moment(
    at_s=0.0, users=12, purpose="bracket", in_flight=5, n_requests=80, ttft_p95_s=0.42, output_tokens_per_s=310.0,
    left_s=600.0,
)  # fmt: skip


def drawn(every_s: float | None, *, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, color_system=None, legacy_windows=False)
    progress = Progress(console, every_s=every_s)
    progress.level_begins(MOMENT)
    for at_s in range(1, 61):
        progress.update(msgspec.structs.replace(MOMENT, at_s=float(at_s)))
    progress.level_ends(msgspec.structs.replace(MOMENT, at_s=60.0, n_errors=2), "holds")
    progress.say("\x1b[2J[red]found[/red] vllm")
    progress.close()
    return text.getvalue()


def test_plain_lines_come_every_fifteen_seconds() -> None:
    """Where stderr is no terminal: the beginning, the end, and a few lines between."""
    lines = drawn(None, terminal=False).splitlines()

    assert len(lines) == 1 + 4 + 1 + 1
    assert "12 people" in lines[0]
    assert "at most 10 min 00 s left" in lines[0]
    assert "5 in flight" in lines[1]
    assert "TTFT p95 420 ms" in lines[1]
    assert "holds" in lines[5]
    assert "2 errors" in lines[5]
    assert lines[6] == "[2J[red]found[/red] vllm"


def test_a_simulated_run_shows_only_levels() -> None:
    """Hours of virtual time pass in seconds: drawing them all would take longer than simulating."""
    assert len(drawn(math.inf, terminal=False).splitlines()) == 3


def test_the_live_line_is_taken_away() -> None:
    """On a terminal the live line is redrawn in place and erased; the level's own line stays."""
    text = drawn(None, terminal=True)

    assert text.count("bracket") > 10
    stays = [line for line in text.split("\n") if "holds" in line]
    assert len(stays) == 1
    assert text.rindex("bracket") < text.index("holds")
    assert "\x1b[2J" not in text
