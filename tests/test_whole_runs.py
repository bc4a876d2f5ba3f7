"""Whole runs on the simulated engine under the virtual clock: the session's own code, from scenario to verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headcount.analysis.conclusions import LevelSummary, Plan
from headcount.errors import RunError
from headcount.measure import Intent, Outcome, measure
from headcount.records import Level
from headcount.review import review, summaries_of
from headcount.scenario import Scenario, make_scenario
from headcount.slo import parse_slo
from headcount.store import open_run

SMALL = {
    "name": "small",
    "slo": ["ttft_p95 <= 2 s", "tpot_p95 <= 0.1 s"],
    "workload": {"kind": "short"},
    "engine": {"kind": "simulated", "options": {"server": "laptop"}},
    "search": {"max_users": 64, "max_time_s": 3600, "level_time_s": 120},
}
"""Four slots, short answers: a limit of a few people, found in a second."""


class Quiet:
    """Watches in silence; may act when a level has ended."""

    def __init__(self, on_level: Callable[[Level], None] | None = None) -> None:
        self.levels: list[tuple[Level, LevelSummary]] = []
        self._on_level = on_level

    def level_began(self, level: Level, plan: Plan) -> None:
        """Nothing to do."""

    def level_goes_on(self, level: Level, summary: LevelSummary, in_flight: int) -> None:
        """Nothing to do."""

    def level_ended(self, level: Level, summary: LevelSummary) -> None:
        """Keep it, and act."""
        self.levels.append((level, summary))
        if self._on_level is not None:
            self._on_level(level)


def agreed(intent: Intent) -> bool:
    """Yes to everything."""
    assert intent.simulated
    return True


def run(scenario: Scenario, out: Path, watcher: Quiet | None = None, resume: Path | None = None) -> Outcome:
    """One measurement."""
    outcome = measure(
        scenario, verb="find", out=out, api_key=None, watcher=watcher or Quiet(), agree=agreed, resume=resume
    )
    assert outcome is not None
    return outcome


def facts_of(path: Path) -> dict[str, bytes]:
    """The bytes of every file of facts."""
    return {file.name: file.read_bytes() for file in path.glob("*.jsonl")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A finished search."""
    return run(make_scenario(SMALL), tmp_path_factory.mktemp("runs"))


def test_a_search_gives_a_limit_between_what_held_and_what_failed(found: Outcome) -> None:
    """The limit lies inside its interval and below the first failing level; headroom is kept."""
    verdict = found.verdict

    assert verdict.trusted
    assert verdict.complete
    assert verdict.limit_users is not None
    assert verdict.limit_interval_users is not None
    assert verdict.fails_at_users is not None
    assert verdict.recommended_users is not None
    low, high = verdict.limit_interval_users
    assert low <= verdict.limit_users <= high
    assert verdict.recommended_users <= verdict.limit_users < verdict.fails_at_users


def test_two_runs_with_one_seed_give_the_same_bytes(found: Outcome, tmp_path: Path) -> None:
    """Facts are byte-identical; another seed gives others."""
    again = run(make_scenario(SMALL), tmp_path)
    other = run(make_scenario(SMALL | {"seed": 2}), tmp_path)

    assert facts_of(again.path) == facts_of(found.path)
    assert facts_of(other.path) != facts_of(found.path)


def test_the_stored_facts_give_the_same_verdict(found: Outcome) -> None:
    """What is judged live and what is judged from the run folder agree."""
    assert review(open_run(found.path)) == found.verdict


def test_every_request_ends_in_exactly_one_state(found: Outcome) -> None:
    """No turn of a conversation is recorded twice, and each one has ended, cut ones included."""
    seen = set()
    for request in open_run(found.path).requests():
        place = (request.level, request.person, request.conversation, request.turn)
        assert place not in seen
        seen.add(place)
        assert request.ended_at_s >= request.scheduled_at_s
    assert seen


def test_fixed_levels_are_held_in_their_order(tmp_path: Path) -> None:
    """A scenario with levels measures those and no others."""
    watcher = Quiet()
    search = {"levels": [3, 1, 2], "level_time_s": 30}

    verdict = run(make_scenario(SMALL | {"search": search}), tmp_path, watcher).verdict

    assert [level.users for level, _ in watcher.levels] == [3, 1, 2]
    assert verdict.confirmations > 0 or verdict.sentence.startswith("Probably")


def test_a_resumed_search_ends_like_one_that_was_not_cut(found: Outcome, tmp_path: Path) -> None:
    """A run cut after its third level goes on with the same settings and a new level, and comes to an answer."""
    cut = _cut_after(3, found.path, tmp_path / "cut")

    resumed = run(make_scenario(SMALL), tmp_path, resume=cut)

    assert resumed.path == cut
    assert resumed.facts == open_run(cut).facts
    indices = [level.index for level in open_run(cut).levels()]
    assert indices == sorted(set(indices))
    kept = summaries_of(open_run(found.path), parse_slo(found.facts.slo))[:3]
    assert summaries_of(open_run(cut), parse_slo(found.facts.slo))[:3] == kept
    assert resumed.verdict.limit_users is not None
    assert found.verdict.limit_interval_users is not None
    low, high = found.verdict.limit_interval_users
    assert low - 1 <= resumed.verdict.limit_users <= high + 1


def test_a_changed_server_is_not_continued(found: Outcome, tmp_path: Path) -> None:
    """Resuming against a server with other facts is refused with a sentence that names the difference."""
    cut = _cut_after(3, found.path, tmp_path / "cut")
    engine = {"kind": "simulated", "options": {"server": "laptop", "slots": 8}}

    with pytest.raises(RunError, match="8"):
        run(make_scenario(SMALL | {"engine": engine}), tmp_path, resume=cut)


def test_a_run_killed_in_mid_level_still_reports(found: Outcome, tmp_path: Path) -> None:
    """Half a line at the end, and a level without an end: the report works on what is there."""
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in found.path.iterdir():
        data = file.read_bytes()
        keep = len(data) * 2 // 3 if file.suffix == ".jsonl" and file.name != "samples.jsonl" else len(data)
        (killed / file.name).write_bytes(data[:keep])

    verdict = review(open_run(killed))

    assert verdict.levels
    assert not verdict.complete or verdict.limit_users is not None


def _cut_after(levels: int, source: Path, target: Path) -> Path:
    """A copy of a run as if it had been killed after so many levels."""
    target.mkdir()
    for file in source.iterdir():
        data = file.read_bytes()
        if file.name == "levels.jsonl":
            lines = [
                line for line in data.splitlines(keepends=True) if msgspec.json.decode(line).get("index", 0) < levels
            ]
            data = b"".join(lines)
        elif file.name.startswith("requests"):
            lines = [line for line in data.splitlines(keepends=True) if msgspec.json.decode(line)["level"] < levels]
            data = b"".join(lines)
        (target / file.name).write_bytes(data)
    return target


def test_a_server_faster_than_guessed_is_measured_all_the_same(tmp_path: Path) -> None:
    """What people ask takes a fifth of the time that was guessed: the starts are spread by what was seen."""
    engine = {"kind": "simulated", "options": {"slots": 6, "speed": 3.0}}
    table = SMALL | {"workload": {"kind": "chat"}, "engine": engine, "search": {"max_users": 16, "max_time_s": 900}}

    verdict = run(make_scenario(table), tmp_path).verdict

    assert verdict.complete
    assert verdict.limit_users is not None
    assert 7 <= verdict.limit_users <= 13


def test_a_server_that_answers_nobody_in_time_ends_the_search(tmp_path: Path) -> None:
    """No turn ever ends within the time a level may take: a few tries, then the answer that there is none."""
    engine = {"kind": "simulated", "options": {"server": "laptop", "speed": 0.001}}

    outcome = run(make_scenario(SMALL | {"engine": engine}), tmp_path)

    assert not outcome.verdict.trusted or outcome.verdict.limit_users == 0
    assert len(outcome.verdict.levels) <= 8
