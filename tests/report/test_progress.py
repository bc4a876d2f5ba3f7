"""Progress is calm where nobody watches, live where somebody does, and gone when the answer comes."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from headcount.analysis.conclusions import Plan
from headcount.records import EngineFacts, Level
from headcount.report.plan import plan_text
from headcount.report.progress import Progress
from headcount.scenario import Scenario, SearchOptions
from tests.report.invented import LAG, level

LEVEL = Level(index=0, users=12, began_at_s=0.0, purpose="bracket")
SUMMARY = level(0, 12, p95_s=0.42)


def drawn(*, terminal: bool, line_every_s: float = 15.0, language: str = "en") -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, color_system=None, legacy_windows=False)
    with Progress(console, line_every_s=line_every_s, language=language) as progress:
        progress.level_began(LEVEL, Plan(users=12, purpose="bracket", time_s=600.0))
        for at_s in range(1, 61):
            progress.level_goes_on(LEVEL, msgspec.structs.replace(SUMMARY, ended_at_s=float(at_s)), 5)
        progress.level_ended(LEVEL, msgspec.structs.replace(SUMMARY, ended_at_s=60.0, n_errors=2))
        progress.say("\x1b[2J[red]found[/red] vllm")
    return text.getvalue()


def test_plain_lines_come_every_fifteen_seconds() -> None:
    """Where stderr is no terminal: the beginning, the end, and a few lines between."""
    lines = drawn(terminal=False).splitlines()

    assert len(lines) == 1 + 4 + 1 + 1
    assert lines[0].split() == ["12", "people", "bracket", "at", "most", "10", "min", "00", "s", "left"]
    assert "5 in flight  120 answers  TTFT p95 420 ms" in lines[1]
    assert lines[1].endswith("at most 9 min 45 s left")
    assert "holds" in lines[5]
    assert "2 errors" in lines[5]
    assert lines[6] == "[2J[red]found[/red] vllm"


def test_the_live_line_is_taken_away() -> None:
    """On a terminal the live line is erased; the level's own line stays."""
    text = drawn(terminal=True)

    assert "bracket" in text
    assert text.rindex("bracket") < text.index("holds")
    assert "\x1b[2J" not in text


def test_a_void_level_says_why() -> None:
    """The fatal caution stands below its level, while it can still be mended."""
    text = io.StringIO()
    progress = Progress(Console(file=text, width=120))
    progress.level_ended(LEVEL, msgspec.structs.replace(SUMMARY, decision="void", cautions=(LAG,)))

    assert "event loop was late" in text.getvalue()


def test_the_plan_names_all_that_will_happen() -> None:
    """Server, service level, levels and the most it can take, before the first request; simulated said first."""
    facts = EngineFacts(engine="vllm", version="0.11.2", model="tiny\x1b[2J", address="http://h:1", context_tokens=8192)
    text = plan_text(Scenario(search=SearchOptions(max_users=64)), facts, 300.0, ("usage is told",), simulated=True)

    assert text.splitlines() == [
        "simulated: no server is asked, nothing real is measured",
        "tiny [2J · vllm 0.11.2 · http://h:1 · context 8,192 tokens",
        "service level: ttft_p95 <= 2 s, tpot_p95 <= 0.1 s, errors <= 1 %",
        "people talk: chat",
        "search: up to 64 people",
        "time: about 5 min 00 s, at most 1 h 00 min",
        "note: usage is told",
    ]
    fixed = plan_text(Scenario(search=SearchOptions(levels=(5, 10))), facts, 300.0, (), simulated=False)
    assert "levels: 5, 10 people" in fixed
