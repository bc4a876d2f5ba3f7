"""Configuration of a plan: the gateways' own syntax, caps where they belong, and no key anywhere."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from headcount.deployment.advice import Demand, advise
from headcount.deployment.capacity import Measured
from headcount.deployment.files import plan_files, write_files
from headcount.deployment.places import places_of
from headcount.errors import RunError, ScenarioError
from headcount.scenario import parse_scenario
from headcount.workload import make_workload
from tests.deployment.reference import LARGE, SMALL, reference_runs

GOLDEN = Path(__file__).parent / "golden"
SERVERS = [(SMALL, "http://10.0.0.5:8000"), (LARGE, "https://gpu2.example/llm"), (LARGE, "https://gpu3.example/llm")]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Measured]:
    """The published load test."""
    return [each for _, each in reference_runs(tmp_path_factory.mktemp("reference"))]


@pytest.fixture(scope="module")
def files(measured: list[Measured]) -> dict[str, str]:
    """A plan for 100 people, on one server of the 8B and two of the 32B."""
    advice = advise(measured, Demand(people=100))
    return plan_files(advice, measured, places_of(advice, measured, SERVERS))


@pytest.mark.parametrize("name", ["config.yaml", "nginx.conf", "haproxy.cfg", "launch.sh", "keys.env", "mix.toml"])
def test_files_are_as_reviewed(name: str, files: dict[str, str]) -> None:
    """Every line of them was looked at, and run, by somebody: see benchmarks/prove_plan.py."""
    golden = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(files[name])

    assert files[name] == golden.read_text()


def test_litellm_gets_caps_fallbacks_and_time_outs(files: dict[str, str]) -> None:
    """Its YAML parses; every server has its cap, and the large model falls back to the small one."""
    config = msgspec.yaml.decode(files["config.yaml"])
    models = {entry["model_info"]["id"]: entry for entry in config["model_list"] if "model_info" in entry}

    assert {name: entry["litellm_params"]["max_parallel_requests"] for name, entry in models.items()} == {
        "qwen3_8b_awq_1": 100,
        "qwen3_32b_awq_1": 20,
        "qwen3_32b_awq_2": 20,
    }
    assert models["qwen3_32b_awq_2"]["litellm_params"]["api_base"] == "https://gpu3.example/llm/v1"
    assert all(entry["litellm_params"]["stream_timeout"] == 60 for entry in models.values())
    assert config["router_settings"]["fallbacks"] == [{LARGE: [SMALL]}]
    assert config["router_settings"]["routing_strategy"] == "least-busy"
    (automatic,) = [entry for entry in config["model_list"] if entry["model_name"] == "auto"]
    assert automatic["litellm_params"]["complexity_router_config"]["tiers"]["COMPLEX"] == LARGE


def test_keys_are_placeholders(files: dict[str, str]) -> None:
    """Whatever is a key is a name of the environment, and keys.env lists them all without values."""
    config = msgspec.yaml.decode(files["config.yaml"])
    keys = [entry["litellm_params"].get("api_key", "os.environ/") for entry in config["model_list"]]

    assert all(key.startswith("os.environ/") for key in keys)
    read = set(re.findall(r"\$\{?([A-Z0-9_]+_KEY)\}?|os\.environ/(\w+)", "".join(files.values())))
    named = set(re.findall(r"(?m)^([A-Z0-9_]+)=$", files["keys.env"]))
    assert {one or other for one, other in read} == named


def test_the_launch_script_is_shell(files: dict[str, str]) -> None:
    """It parses, names its servers, and refuses others."""
    script = files["launch.sh"]
    ran = subprocess.run(["sh", "-c", script, "launch.sh"], capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "qwen3_32b_awq_2_sglang" in ran.stderr
    assert "--max-num-seqs 20" in script
    assert "OLLAMA_NUM_PARALLEL=20" in script


def test_the_mix_asks_each_model_for_its_share(files: dict[str, str]) -> None:
    """A scenario that headcount reads: people of the smaller model four times as many."""
    scenario = parse_scenario(files["mix.toml"])
    workload = make_workload(scenario.workload, 1)
    asked = [next(workload.conversations(person, "")).model for person in range(100)]

    assert asked.count(SMALL) == pytest.approx(80, abs=2)
    assert asked.count(LARGE) == 100 - asked.count(SMALL)
    assert scenario.search.levels == (100,)


def test_keys_that_were_filled_in_are_kept(tmp_path: Path, files: dict[str, str]) -> None:
    """Writing again renews everything else; nobody else may read the keys."""
    write_files(tmp_path / "plan", files)
    keys = tmp_path / "plan" / "keys.env"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    keys.write_text("LITELLM_MASTER_KEY=mine\n")

    assert keys not in write_files(tmp_path / "plan", files)
    assert keys.read_text() == "LITELLM_MASTER_KEY=mine\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, files: dict[str, str]) -> None:
    """A file stands in its place."""
    (tmp_path / "plan").write_text("")

    with pytest.raises(RunError, match="cannot write"):
        write_files(tmp_path / "plan", files)


def test_a_server_of_no_model_is_refused(measured: list[Measured]) -> None:
    """With the models there are."""
    advice = advise(measured, Demand(people=100))

    with pytest.raises(ScenarioError, match="the plan has no such model"):
        places_of(advice, measured, [("70B", "http://10.0.0.5:8000")])


def test_servers_without_an_address_stand_on_this_machine(measured: list[Measured]) -> None:
    """One port after the other, the same in every file."""
    advice = advise(measured, Demand(people=100))

    assert [place.url for place in places_of(advice, measured)] == ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]


def test_proxies_accept_their_files(tmp_path: Path, files: dict[str, str]) -> None:
    """Whichever of nginx and HAProxy is installed here checks its file itself."""
    servers = re.sub(r"server \S+\.example", "server 127.0.0.1", files["nginx.conf"])
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {servers} }}")
    haproxy = re.sub(r" \S+\.example", " 127.0.0.1", files["haproxy.cfg"])
    haproxy = haproxy.replace(" ca-file /etc/ssl/certs/ca-certificates.crt", "").replace(
        "verify required", "verify none"
    )
    (tmp_path / "haproxy.cfg").write_text(haproxy)
    checks = {
        "nginx": ["nginx", "-t", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")],
        "haproxy": ["haproxy", "-c", "-f", str(tmp_path / "haproxy.cfg")],
    }
    keys = dict.fromkeys(re.findall(r"(?m)^([A-Z0-9_]+)=$", files["keys.env"]), "key")
    for name, command in checks.items():
        if shutil.which(name):
            ran = subprocess.run(command, env={**os.environ, **keys}, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
