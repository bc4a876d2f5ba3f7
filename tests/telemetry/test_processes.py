"""Who serves an address on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from headcount.telemetry.processes import environment, is_local, serving


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://localhost:8000/v1", True),
        ("http://[::1]:8000", True),
        ("unix:/run/model.sock", True),
        ("http://192.0.2.1:8000", False),
        ("http://no-such-host.invalid:8000", False),
        ("", False),
    ],
)
def test_an_address_is_local_when_it_can_be_bound(address: str, expected: bool) -> None:
    """Loopback by any name; not an address of nobody, nor a name that does not resolve."""
    assert is_local(address) is expected


def test_listener_children_and_grandchildren_are_found() -> None:
    """A worker two generations down, in a session of its own, still belongs to the server."""
    spawn = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], start_new_session=True);"
        "print(p.pid, flush=True); p.wait()"
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            [sys.executable, "-c", spawn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as child,
    ):
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())

        found = serving(listener.getsockname()[1])

        assert {os.getpid(), child.pid, grandchild} <= found
        child.communicate()


def test_nobody_serves_a_free_port() -> None:
    """Bound but not listening is not serving; nor is a port of nobody, nor a system without ``/proc``."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        assert serving(bound.getsockname()[1]) == frozenset()
        assert serving(bound.getsockname()[1], proc="/nonexistent") == frozenset()


def test_one_variable_of_another_process_is_read() -> None:
    """Set, empty and unset are told apart; a process that is gone has none."""
    variables = {**os.environ, "GIVEN": "a=b", "EMPTY": ""}
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert environment(process.pid, "GIVEN") == "a=b"
        assert environment(process.pid, "EMPTY") == ""
        assert environment(process.pid, "GIVE") is None
        process.communicate(b"\n")
    assert environment(process.pid, "GIVEN") is None
