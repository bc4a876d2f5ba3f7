"""A plan is proved through a real gateway before two real servers over HTTP; without its caps it is not."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.cli import main
from headcount.engine.simulation import Options, read_options
from headcount.mock import MockServer
from tests.deployment.gateway import Gateway, Route

SCENARIO = """
name = "{name}"
slo = ["ttft_p95 <= 2 s"]
[engine]
kind = "simulated"
model = "{name}"
[engine.options]
overhead_s = {step_s}
weights_s = 0.0
token_s = 0.0
[workload]
kind = "chat"
turns = 2
prompt_tokens = 20
output_tokens = 40
think_s = 0.05
[search]
levels = {levels}
level_time_s = 60
"""
STEPS_S = {"small": 0.01, "large": 0.02}
CARRIES = {"small": 4, "large": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Both models measured, as far as the levels go: 4 people and 2."""
    folder = tmp_path_factory.mktemp("runs")
    paths = []
    for name, step_s in STEPS_S.items():
        levels = [1, CARRIES[name]]
        scenario = folder / f"{name}.toml"
        scenario.write_text(SCENARIO.format(name=name, step_s=step_s, levels=levels))
        assert main(["run", str(scenario), "--out", str(folder / name)]) == 0
        paths.append(str(next((folder / name).iterdir())))
    return paths


class Site:
    """Two servers and a gateway before them, on a loop of their own."""

    def __init__(self) -> None:
        self.servers = {name: MockServer(_options(step_s), model=name) for name, step_s in STEPS_S.items()}
        self.gateway = Gateway({}, api_key="right")

    async def __aenter__(self) -> Site:
        for server in self.servers.values():
            await server.__aenter__()
        caps: dict[str, int | None] = {**CARRIES}
        self.gateway.routes = {name: Route(server.url, caps[name]) for name, server in self.servers.items()}
        self.gateway.routes["large"].fallback = "small"
        await self.gateway.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.gateway.__aexit__()
        for server in self.servers.values():
            await server.__aexit__()

    def flags(self) -> list[str]:
        """Of ``headcount plan``."""
        servers = [f"--server={name}={server.url}" for name, server in self.servers.items()]
        return [*servers, "--verify", self.gateway.url, "--level-time", "5s", "--complex-share", "0.3", "--lang", "en"]


def _options(step_s: float) -> Options:
    return read_options({"overhead_s": step_s, "weights_s": 0.0, "token_s": 0.0})


@pytest.fixture
def site() -> Iterator[Site]:
    """Servers and gateway, served until the test ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def made() -> Site:
        return await Site().__aenter__()

    found = asyncio.run_coroutine_threadsafe(made(), loop).result(30)
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(found.__aexit__(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def proved(runs: list[str], site: Site, out: Path, *flags: str, key: str = "right") -> int:
    """The exit code of a proof."""
    return main(["plan", *runs, *site.flags(), "--api-key", key, "--out", str(out), *flags])


def test_a_plan_that_holds(runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Comfort as planned, caps kept, the overflow refused at once, and the gateway's own share told."""
    code = proved(runs, site, tmp_path)
    said = capsys.readouterr().out

    assert code == 0, said
    assert said.startswith("The plan holds.")
    assert re.search("small had at most [34] requests in flight, cap 4", said)
    assert re.search("large had at most [12] requests? in flight, cap 2", said)
    assert "http_429" in said
    assert "the gateway adds" in said
    assert len(list(tmp_path.glob("*/run.json"))) == 2


def test_without_caps_it_does_not_hold(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More requests than the cap reach a server, and its own count shows it."""
    for route in site.gateway.routes.values():
        route.cap = None

    assert proved(runs, site, tmp_path) == 1
    said = capsys.readouterr().out
    assert said.startswith("The plan does not hold.")
    assert re.search(r"✗ With 11 people small had at most [67] requests in flight, cap 4\.", said), said


def test_a_full_queue_is_told_in_one_line(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refusals with the people planned for are failures, with the gateway's own words."""
    site.gateway.routes["small"].cap = 1

    assert proved(runs, site, tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    (full,) = [line for line in lines if "requests to small failed" in line]
    assert "http_429" in full
    assert "all slots are in use" in full


def test_a_wrong_key_is_told_in_one_line(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""
    assert proved(runs, site, tmp_path, key="wrong") == 3
    assert f"error: {site.gateway.url} refuses the API key\n" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_dead_server_is_told_in_one_line(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By model and address, though the gateway would let another model answer for it."""
    gone = "http://127.0.0.1:9"
    site.gateway.routes["large"].url = gone
    flags = [flag for flag in site.flags() if not flag.startswith("--server=large")]

    code = main(["plan", *runs, *flags, f"--server=large={gone}", "--api-key", "right", "--out", str(tmp_path)])
    assert code == 3
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert error.startswith(f"error: large: its server at {gone} does not answer")


def test_a_gateway_that_answers_from_another_model_is_found_out(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server lives, but the gateway does not reach it."""
    site.gateway.routes["large"].url = "http://127.0.0.1:9"

    assert proved(runs, site, tmp_path) == 3
    assert "lets another model answer for large" in capsys.readouterr().err


def test_a_model_the_gateway_does_not_have_is_named(
    runs: list[str], site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With those it has."""
    del site.gateway.routes["large"]

    assert proved(runs, site, tmp_path) == 3
    said = capsys.readouterr().err
    assert "has no model 'large'" in said
    assert "it has: small" in said
