"""Command lines: what people type wrong or meet ends in one sentence, a hint and the designed exit code."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from headcount.cli import main
from headcount.records import FORMAT_VERSION, EngineFacts, RunFacts
from headcount.store import RunWriter
from tests.playback import GOOD, Playback, Script, Seen, head, stream, token, whole
from tests.served import served

MODELS = whole(b'{"object":"list","data":[{"id":"mini","object":"model"}]}')
SIMULATED = """
name = "small"
slo = ["ttft_p95 <= 2 s"]
[workload]
kind = "short"
[engine]
kind = "simulated"
[engine.options]
server = "laptop"
[search]
levels = [1, 2]
level_time_s = 40
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario of two small simulated levels."""
    path = tmp_path / "small.toml"
    path.write_text(SIMULATED)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What went to stderr; never a traceback."""
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


class Answering(Playback):
    """Answers each path with its own bytes, any other with 404."""

    def __init__(self, pages: dict[str, Script | bytes], *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self.pages = {path: page if isinstance(page, Script) else Script([(0.0, page)]) for path, page in pages.items()}

    def script_for(self, seen: Seen) -> Script:
        """By path."""
        return self.pages.get(seen.line.split()[1], Script([(0.0, whole(b'{"detail":"Not Found"}', status=404))]))


def check(url: str) -> int:
    """The command that meets a server first."""
    return main(["check", url])


def test_a_server_that_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, the address named, a hint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    assert check(f"http://127.0.0.1:{port}") == 3
    text = said(capsys)
    assert str(port) in text
    assert "hint: " in text


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({"/v1/models": whole(b"<html><title>Home</title></html>", "text/html")}, "not JSON"),
        ({"/v1/models": whole(b'{"error":"Unauthorized"}', status=401)}, "401"),
        ({"/v1/models": whole(b"", "text/plain", 307, "Location: http://elsewhere/")}, "redirects"),
        ({}, "404"),
        (
            {
                "/v1/models": MODELS,
                "/v1/chat/completions": whole(
                    b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],'
                    b'"usage":{"prompt_tokens":3,"completion_tokens":1}}'
                ),
            },
            "stream",
        ),
        (
            {
                "/v1/models": MODELS,
                "/v1/chat/completions": whole(b'{"error":{"message":"no GPU left","code":500}}', status=500),
            },
            "no GPU left",
        ),
    ],
)
def test_servers_that_cannot_be_used(
    pages: dict[str, Script | bytes], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one sentence that says what is wrong, and exit 3."""
    with served(Answering(pages)) as url:
        code = check(url)

    text = said(capsys)
    assert code == 3, text
    assert words in text
    assert "hint: " in text


def test_an_unknown_model_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 and the list."""
    refused = whole(b'{"error":{"message":"The model `maxi` does not exist.","code":404}}', status=404)
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": refused})) as url:
        code = main(["check", url, "--model", "maxi"])

    text = said(capsys)
    assert code == 3
    assert "maxi" in text
    assert "mini" in text


def test_a_certificate_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, and the hint names the way out."""
    folder = Path(__file__).parent / "data" / "tls"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with served(Answering({"/v1/models": MODELS}, tls=context)) as url:
        code = check(url)

    text = said(capsys)
    assert code == 3
    assert "certificate" in text
    assert "ca_file" in text or "--ca-file" in text


def test_a_good_server_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0; engine, model and counts are on the page; the key is not."""
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": GOOD})) as url:
        code = main(["check", url, "--api-key", "very-secret"])

    captured = capsys.readouterr()
    assert code == 0
    assert "mini" in captured.out
    assert "10 prompt tokens, 2 output tokens" in captured.out
    assert "very-secret" not in captured.out + captured.err


def test_a_server_is_held_against_a_stored_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 while it is what it was; 1, and what changed, once its model is another; no key is told."""
    facts = RunFacts(
        format_version=FORMAT_VERSION,
        headcount_version="0",
        verb="find",
        started_utc="2026-12-01T10:00:00+00:00",
        seed=1,
        engine=EngineFacts("openai", address="http://elsewhere:1", model="mini"),
        slo=("ttft_p95 <= 2 s",),
    )
    same = RunWriter.create(tmp_path, "same", facts, SIMULATED)
    other = RunWriter.create(
        tmp_path, "other", replace(facts, engine=EngineFacts("openai", model="maxi"), simulated=True), SIMULATED
    )
    same.close()
    other.close()
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": GOOD})) as url:
        unchanged = main(["check", url, "--against", str(same.path)])
        kept = capsys.readouterr().out
        changed = main(["check", url, "--against", str(other.path), "--api-key", "very-secret"])
        said = capsys.readouterr().out

    assert (unchanged, changed) == (0, 1)
    assert "changed      nothing that is known to change the answer" in kept
    assert "changed      the model changed from maxi to mini: a re-test is due" in said
    assert "very-secret" not in said


def test_a_wrong_key_in_a_scenario_names_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2; the key is named, and the one that was probably meant."""
    path = tmp_path / "typo.toml"
    path.write_text(SIMULATED.replace("level_time_s", "level_tme_s"))

    assert main(["run", str(path)]) == 2
    text = said(capsys)
    assert "level_tme_s" in text
    assert "level_time_s" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "nowhere.toml"],
        ["find", "--engine", "simulated", "--slo", "fast"],
        ["find", "--engine", "simulated", "--slo", "ttft_p95<=2"],
        ["find", "--engine", "simulatd", "http://127.0.0.1:9"],
        ["find", "--engine", "simulated", "--workload", "chatt"],
    ],
)
def test_flags_and_files_that_make_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with a hint."""
    assert main(arguments) == 2
    assert "hint: " in said(capsys)


def test_an_output_folder_that_cannot_be_written(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 before anything is measured."""
    (tmp_path / "file").write_text("in the way")

    assert main(["run", str(scenario), "--out", str(tmp_path / "file" / "runs")]) == 4
    assert "--out" in said(capsys)


def test_a_run_is_reported_in_every_format(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fixed levels, then the stored run as terminal text, JSON and Markdown; simulated is said first."""
    assert main(["run", str(scenario), "--out", str(tmp_path)]) == 0
    answer = capsys.readouterr().out
    assert "simulated" in answer.splitlines()[0]
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]

    assert main(["report", str(folder), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["simulated"] is True
    assert [level["users"] for level in found["levels"]] == [1, 2]
    keys = {"limit_users", "limit_interval_users", "recommended_users", "fails_at_users", "cause", "slo", "cautions"}
    assert keys <= set(found)

    assert main(["report", str(folder), "--format", "markdown"]) == 0
    assert "| " in capsys.readouterr().out
    assert main(["report", str(folder)]) == 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda run: (run / "run.json").write_text("{"), "run.json"),
        (lambda run: (run / "run.json").unlink(), "run"),
        (lambda run: _newer(run / "run.json"), "newer"),
        (lambda run: (run / "scenario.toml").write_text("this is not TOML"), "scenario.toml"),
    ],
)
def test_damaged_and_newer_run_folders(
    damage: Callable[[Path], object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 (2 for the scenario in it) and a sentence that names the file."""
    run = tmp_path / "run"
    shutil.copytree(Path(__file__).parent / "data" / "run-format-1", run)
    damage(run)

    assert main(["report", str(run)]) in (2, 4)
    assert words in said(capsys)


def _newer(path: Path) -> None:
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"format_version": 99}))


def test_an_answer_below_what_is_required(scenario: Path, tmp_path: Path) -> None:
    """``--require-users`` makes a limit below it exit 1; a limit above it is 0."""
    flags = ["--engine", "simulated", "--workload", "short", "--max-users", "2", "--max-time", "10m", "--yes"]

    assert main(["find", *flags, "--out", str(tmp_path), "--require-users", "3"]) == 1
    assert main(["find", *flags, "--out", str(tmp_path), "--require-users", "1"]) == 0


def test_the_key_is_never_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Path) -> None:
    """Not in any file of the run folder, whether given by flag or environment."""
    monkeypatch.setitem(os.environ, "HEADCOUNT_API_KEY", "very-secret")

    assert main(["run", str(scenario), "--out", str(tmp_path / "runs")]) == 0
    stored = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert stored
    assert b"very-secret" not in stored


def test_a_stream_that_dies_is_no_server_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    """A server whose streams break off in the middle is refused before the start."""
    broken = stream((0.0, token("H")), end="reset")
    broken = Script(broken.writes[:-1] or [(0.0, head() + token("H"))], "reset")
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": broken})) as url:
        code = check(url)

    text = said(capsys)
    assert code == 3, text


def test_hostile_names_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A model's name with escape codes in it is shown without these."""
    models = whole(b'{"object":"list","data":[{"id":"mini\\u001b[31m\\u001b]0;t\\u0007","object":"model"}]}')
    with served(Answering({"/v1/models": models, "/v1/chat/completions": GOOD})) as url:
        assert check(url) == 0

    shown = capsys.readouterr()
    assert "mini" in shown.out
    assert "\x1b" not in shown.out + shown.err


def test_an_address_for_the_simulated_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2: nobody would be asked there."""
    assert main(["find", "http://127.0.0.1:9", "--engine", "simulated", "--max-time", "1s"]) == 2
    assert "has no address" in said(capsys)


@pytest.mark.parametrize("redirection", [">&-", "0<&-", "2>&-"])
def test_closed_streams_are_no_crash(redirection: str) -> None:
    """A report to nobody is still a report."""
    run = Path(__file__).parent / "data" / "run-format-1"
    command = f"exec {shlex.quote(sys.executable)} -m headcount report {shlex.quote(str(run))} {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60)

    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 5)


def test_a_terminal_without_our_letters(tmp_path: Path) -> None:
    """What it cannot show becomes ``?``; the answer is there."""
    run = Path(__file__).parent / "data" / "run-format-1"
    done = subprocess.run(
        [sys.executable, "-m", "headcount", "report", str(run)],
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )

    assert b"Traceback" not in done.stderr
    assert done.stdout
