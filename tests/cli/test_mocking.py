"""``headcount mock``: it says where it is, is found as the engine it plays, and what cannot work is one sentence."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headcount.cli import main


@contextmanager
def mock(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A mock server in a process of its own, and the address it printed."""
    command = [sys.executable, "-m", "headcount", "mock", "--for", "60s", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), "vllm"),
        (("--engine", "sglang"), "sglang"),
        (("server=laptop", "--adapters", "law,tax"), "llamacpp"),
        (("--gpu", "RTX 4090", "--model", "Qwen3-8B-AWQ", "--engine", "sglang"), "sglang"),
    ],
)
def test_it_is_found_as_the_engine_it_plays(
    arguments: tuple[str, ...], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its words, on a Unix socket as on a port; its version says that it is a mock."""
    with mock("--unix", str(tmp_path / "s"), *arguments) as (url, _):
        assert main(["check", url]) == 0

    shown = capsys.readouterr().out
    assert f"engine       {found}" in shown
    assert "mock" in shown.splitlines()[1]
    if "--adapters" in arguments:
        assert "law, tax" in shown


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to(how: signal.Signals) -> None:
    """Without a word more, and with exit code 0; before that it has said how to measure it."""
    with mock("--port", "0") as (url, process):
        process.send_signal(how)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 0
    assert f"headcount find {url}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("slot=3",), "did you mean 'slots'"),
        (("nonsense",), "NAME=VALUE"),
        (("--gpu", "H100"), "needs a model"),
        (("--gpu", "RTX 3060", "--model", "Qwen3-32B"), "does not fit"),
        (("--gpus", "2"), "--gpus is given without a GPU"),
        (("--adapters", "99999999999"), "too many"),
        (("--speed", "0"), "speed must be"),
        (("--host", "nowhere.invalid"), "cannot listen on nowhere.invalid"),
        (("--unix", "/nowhere/socket"), "cannot listen on /nowhere/socket"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and the option at fault."""
    assert main(["mock", "--for", "1s", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("port", ["x", "", "65536", "-1"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it must be."""
    with pytest.raises(SystemExit, match="2"):
        main(["mock", f"--port={port}"])
    assert "argument --port: must be " in capsys.readouterr().err


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["mock", "--port", str(port)]) == 2

    said = capsys.readouterr().err
    assert f"port {port} is in use" in said
    assert "--port 0" in said
