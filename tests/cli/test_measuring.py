"""The verbs that measure: what flags say, what a run that goes on takes of them, and what is said when."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headcount.cli import main, measuring
from headcount.engine import detect
from headcount.preflight import reach
from headcount.review import scenario_of
from headcount.scenario import EngineOptions
from headcount.store import open_run
from tests.playback import GOOD, Script, whole
from tests.served import served
from tests.test_cli import MODELS, Answering, said

SIMULATED = ["--engine", "simulated", "--workload", "short", "--max-users", "3", "--yes"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--max-users", "many"], "argument --max-users: must be a whole number, not 'many'"),
        (["--max-users", "0"], "argument --max-users: must be at least 1, not 0"),
        (["--seed", "1.5"], "argument --seed: must be a whole number, not '1.5'"),
        (["--max-time", "soon"], "argument --max-time: must be a time such as 90s, 20m or 1.5h, not 'soon'"),
        (["--max-time", "m"], "argument --max-time: must be a time such as 90s, 20m or 1.5h, not 'm'"),
        (["--level-time", "inf"], "argument --level-time: must be a time such as"),
        (["--headroom", "100%"], "argument --headroom: must be a share such as 5% or 0.05, below 100%, not '100%'"),
        (["--headroom", "nan"], "argument --headroom: must be a share"),
        (["--resolution", "0"], "argument --resolution: must be above 0, e.g. 5%"),
    ],
)
def test_a_flag_that_cannot_be(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2; the flag, what it takes and what was given, and nothing of how the program is written."""
    with pytest.raises(SystemExit) as left:
        main(["find", *SIMULATED, *flags])

    assert left.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--slo", "chat", "--slo", "strict"], "--slo 'chat' is a preset and stands alone, but 2 were given"),
        (["--slo", "chatt"], "--slo 'chatt' is no preset"),
        (["--workload", "chta"], "--workload 'chta' is not known"),
        (["--workload", "mix"], "workload.personas is missing"),
        (["--max-users", "9999999"], "--max-users must be a whole number at most 1048576"),
        (["--level-time", "2000h"], "--level-time must be a number at most 2592000"),
    ],
)
def test_who_gives_flags_is_told_of_flags(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2: a key of a scenario is named by its flag, where it has one."""
    assert main(["find", *SIMULATED, *flags]) == 2
    text = said(capsys)
    assert words in text
    assert "hint: " in text


def test_no_headroom_is_a_headroom(tmp_path: Path) -> None:
    """``--headroom 0`` plans for the limit itself."""
    assert main(["find", *SIMULATED, "--headroom", "0", "--max-time", "10m", "--out", str(tmp_path)]) == 0
    [run] = tmp_path.iterdir()

    assert scenario_of(open_run(run)).search.headroom == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated run that found its answer."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["find", *SIMULATED, "--out", str(folder)]) == 0
    [run] = folder.iterdir()
    return run


@pytest.mark.parametrize(
    "flags",
    [
        ["--slo", "strict"],
        ["--seed", "1"],
        ["--workload", "chat"],
        ["--engine", "simulated"],
        ["--max-users", "9"],
        ["--no-stages"],
        ["--headroom", "0"],
        ["--out", "elsewhere"],
    ],
)
def test_a_run_goes_on_by_its_own_settings(
    flags: list[str], finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 and the flag, instead of an answer to another question than was asked."""
    assert main(["find", "--resume", str(finished), *flags]) == 2
    assert f"{flags[0]} cannot be changed" in said(capsys)


def test_a_finished_run_says_so_and_shows_its_answer(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, nobody is asked; the answer and its exit code are as before."""
    before = (finished / "levels.jsonl").read_bytes()

    assert main(["find", "--resume", str(finished), "--require-users", "4"]) == 1
    shown = capsys.readouterr()
    assert "had finished: nothing is left to measure" in shown.err
    assert "At least 3 people" in shown.out
    assert (finished / "levels.jsonl").read_bytes() == before


def test_more_time_is_time_from_now_on(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was cut short goes on, says with what, and keeps what it was given for those who read it later."""
    run = tmp_path / "cut"
    shutil.copytree(finished, run)
    lines = (run / "levels.jsonl").read_bytes().splitlines(keepends=True)
    (run / "levels.jsonl").write_bytes(b"".join(lines[:4]))

    assert main(["find", "--resume", str(run), "--max-time", "30m", "--yes"]) == 0
    assert "going on with" in capsys.readouterr().err
    time_s = scenario_of(open_run(run)).search.max_time_s
    assert 1800 < time_s < 3600
    assert len((run / "levels.jsonl").read_bytes().splitlines()) > 4


def test_no_server_on_this_machine_is_about_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, as for an address where nothing answers."""
    monkeypatch.setattr(detect.find_servers, "__defaults__", ((), 1.0))

    assert main(["find"]) == 3
    assert "no model server answers" in said(capsys)


def test_who_waits_is_told_for_what() -> None:
    """After a second, once; nothing of a server that answers at once."""
    slow = Script([(0.0, b""), (1.6, MODELS)])
    told: list[str] = []

    async def reached(url: str) -> None:
        ready = await reach(EngineOptions(url=url, kind="openai"), None, tell=told.append)
        await ready.engine.close()

    with served(Answering({"/v1/models": slow, "/v1/chat/completions": GOOD})) as url:
        asyncio.run(reached(url))
        assert told[0] == f"waiting for {url} to answer (1 s)"
    told.clear()
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": GOOD})) as url:
        asyncio.run(reached(url))
    assert told == []


def test_the_model_of_a_scenario_can_be_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--model`` beside a scenario file is the one that is asked for."""
    refused = whole(b'{"error":{"message":"The model `maxi` does not exist.","code":404}}', status=404)
    with served(Answering({"/v1/models": MODELS, "/v1/chat/completions": refused})) as url:
        scenario = tmp_path / "one.toml"
        scenario.write_text(f"[engine]\nurl = '{url}'\nmodel = 'mini'\n[search]\nlevels = [1]\n")
        codes = [main([verb, str(scenario), "--model", "maxi"]) for verb in ("run", "check")]

    text = said(capsys)
    assert codes == [3, 3]
    assert text.count("maxi") >= 2


def test_flags_have_the_names_that_messages_give_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Each flag by which a key is called exists."""
    with pytest.raises(SystemExit):
        main(["find", "--help"])
    shown = capsys.readouterr().out

    assert [flag for flag in measuring.FLAGS.values() if flag.startswith("--") and flag not in shown] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_below_the_output_is_no_crash() -> None:
    """Exit 4 and a sentence."""
    run = Path(__file__).parents[1] / "data" / "run-format-1"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headcount", "report", str(run)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            env=os.environ | {"PYTHONUNBUFFERED": ""},
        )

    assert done.returncode == 4
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr
