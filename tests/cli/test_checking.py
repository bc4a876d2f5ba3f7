"""The verbs that look before measuring: in the reader's language, with the exit code of their own question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from headcount import ceiling
from headcount.ceiling import Step
from headcount.cli import main
from headcount.records import EngineFacts, RunFacts
from headcount.store import RunWriter
from tests.playback import GOOD, Script, Seen, whole
from tests.served import served
from tests.test_cli import MODELS, SIMULATED, Answering

FACTS = RunFacts(
    format_version=1,
    headcount_version="0",
    verb="find",
    started_utc="2026-12-01T10:00:00+00:00",
    seed=1,
    engine=EngineFacts("openai", model="mini"),
    slo=("ttft_p95 <= 2 s",),
)


def stored(folder: Path, address: str) -> Path:
    """A run of the server at an address."""
    facts = replace(FACTS, engine=replace(FACTS.engine, address=address))
    with RunWriter.create(folder, "stored", facts, SIMULATED) as writer:
        return writer.path


class FailingLater(Answering):
    """Answers the first questions and then says that it is out of memory."""

    def __init__(self, good: int) -> None:
        super().__init__({"/v1/models": MODELS, "/v1/chat/completions": GOOD})
        self.left = good

    def script_for(self, seen: Seen) -> Script:
        """By path, while answers are left."""
        script = super().script_for(seen)
        if "chat/completions" not in seen.line:
            return script
        self.left -= 1
        return script if self.left >= 0 else Script([(0.0, whole(b'{"error":{"message":"no memory"}}', status=500))])


def test_a_page_in_korean(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and sentences; what a server calls itself stays."""
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": GOOD})) as url:
        assert main(["check", url, "--lang", "ko"]) == 0

    shown = capsys.readouterr().out
    assert "모델         mini" in shown
    assert "입력 10 토큰, 출력 2 토큰" in shown


def test_a_preview_in_korean(capsys: pytest.CaptureFixture[str]) -> None:
    """Of whoever is in it."""
    scenario = Path(__file__).parents[2] / "scenarios" / "office.toml"
    assert main(["preview", str(scenario), "--lang", "ko"]) == 0

    head = capsys.readouterr().out.split("\n\n")[0]
    assert "20명: 요청" in head
    assert not re.search(r"\b(requests|people|tokens a|half of)\b", head)


def test_a_server_that_does_not_answer_is_not_fine(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3: it was reached, but the one question it was asked failed."""
    with served(FailingLater(good=1)) as url:
        assert main(["check", url]) == 3

    assert "no: http_500" in capsys.readouterr().out


def test_a_stored_run_names_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--against`` alone asks the server that the run had measured."""
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": GOOD})) as url:
        assert main(["check", "--against", str(stored(tmp_path, url))]) == 0

    assert "nothing that is known to change the answer" in capsys.readouterr().out


def test_a_client_that_can_be_trusted_at_no_load_is_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 5 where only the built-in server was seen to be late, which says nothing of the client."""
    late = Step(128, 6000, 0.002, 0.5, 0.001, server_late_s=0.05)

    async def measured(_processes: int) -> list[Step]:
        return [late]

    monkeypatch.setattr(ceiling, "measure_ceiling", measured)
    assert main(["check", "--client"]) == 5
