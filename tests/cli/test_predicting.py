"""``simulate``, ``calibrate`` and ``whatif`` from end to end: answers, files, exit codes, and what people get wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headcount.cli import main

SHORT = """
name = "short"
slo = "chat"
[workload]
kind = "short"
[search]
max_users = 6
burst = false
"""
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 22,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "quantization_config": {"quant_method": "awq"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a simulated server."""
    out = tmp_path_factory.mktemp("runs")
    flags = ["--engine", "simulated", "--max-users", "16", "--no-burst", "--yes", "--out", str(out)]
    assert main(["find", *flags]) == 0
    (folder,) = out.iterdir()
    return folder


def out_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds shows."""
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


# --- simulate --------------------------------------------------------------------------------


def test_a_server_nobody_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole report that says in its first line that it is simulated, from the scenario and the names alone."""
    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    shown = out_of(
        capsys, "simulate", str(scenario), "--gpu", "RTX PRO 6000", "--model", "Qwen3-8B-AWQ", "--engine", "sglang",
        "--context", "4096", "--adapters", "5", "--yes", "--out", str(tmp_path / "runs"), "--lang", "en",
    )  # fmt: skip

    assert shown.splitlines()[0].startswith("simulated · ")
    (folder,) = (tmp_path / "runs").iterdir()
    facts = json.loads((folder / "run.json").read_text())
    assert facts["simulated"] is True
    assert facts["engine"]["model"] == "Qwen3-8B-AWQ"
    assert facts["engine"]["context_tokens"] == 4096
    assert len(facts["engine"]["adapters"]) == 5
    again = json.loads(out_of(capsys, "report", str(folder), "--format", "json"))
    assert again["simulated"] is True


def test_a_model_of_its_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ``config.json`` and a card by its figures are enough; the quantization is the configuration's own."""
    scenario, config = tmp_path / "short.toml", tmp_path / "config.json"
    scenario.write_text(SHORT)
    config.write_text(json.dumps(LLAMA))
    shown = out_of(
        capsys, "simulate", str(scenario), "--gpu", "8 GB, 300 GB/s, 30 TFLOP/s", "--config", str(config),
        "--context", "2048", "--out", str(tmp_path / "runs"), "--format", "json",
    )  # fmt: skip

    report = json.loads(shown)
    assert report["simulated"] is True
    assert report["engine"]["quantization"] == "awq"
    assert report["limit_users"] == 6


def test_how_uncertain_the_constants_are_is_in_the_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report that is made later from the facts has it too."""
    shown = out_of(
        capsys, "simulate", "chat", "--gpu", "RTX 4060 Ti 16GB", "--model", "Qwen3-14B-AWQ", "--max-num-seqs", "8",
        "--out", str(tmp_path), "--format", "json",
    )  # fmt: skip
    report = json.loads(shown)
    (folder,) = tmp_path.iterdir()
    again = json.loads(out_of(capsys, "report", str(folder), "--format", "json"))

    factors = report["engine"]["details"]["limit_factor"]
    assert factors[0] <= 1.0 <= factors[1]
    assert factors[0] < factors[1]
    low, high = report["limit_interval_users"]
    assert low <= report["limit_users"] <= high
    assert again["limit_interval_users"] == report["limit_interval_users"]


@pytest.mark.parametrize(
    ("arguments", "told", "hint"),
    [
        (["chat"], "no GPU is named", "--gpu"),
        (["chat", "--gpu", "RTX 4090"], "no model is named", "--config"),
        (["chat", "--gpu", "RTX 9999", "--model", "Qwen3-8B"], "is not in the catalogue", "RTX"),
        (["chat", "--gpu", "24 GB, 9 furlongs", "--model", "Qwen3-8B"], "'9 furlongs' is not understood", "936 GB/s"),
        (["chat", "--gpu", "24 GB, 936 GB/s", "--model", "Qwen3-8B"], "lacks its flops", "71 TFLOP/s"),
        (["chat", "--gpu", "RTX 4090", "--model", "Qwen3-32B"], "does not fit onto RTX 4090", "awq"),
        (["chat", "--gpu", "RTX 4090", "--model", "Qwen3-8B", "--engine", "vllmm"], "'vllmm' is not known", "sglang"),
        (["chatt", "--gpu", "RTX 4090", "--model", "Qwen3-8B"], "neither a file nor a workload", "chat"),
        (["chat", "--gpu", "RTX 4090", "--config", "none.json"], "none.json cannot be read", "config.json"),
        (["chat", "--gpu", "RTX 4090", "--model", "Qwen3-8B", "--quantization", "q9"], "'q9' is not", "q8_0"),
        (["chat", "--gpu", "RTX 4090", "--calibration", "x.toml"], "are both given", "keep one"),
        (["chat", "--gpus", "2", "--calibration", "x.toml"], "--gpus are both given", "keep one"),
    ],
)
def test_what_people_get_wrong_in_simulate(
    arguments: list[str], told: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with what is at fault, a hint, exit code 2, no traceback."""
    assert main(["simulate", *arguments]) == 2
    said = capsys.readouterr().err

    assert told in said.partition("hint:")[0]
    assert hint in said.partition("hint:")[2]
    assert "Traceback" not in said


# --- calibrate and whatif --------------------------------------------------------------------


def test_a_run_is_calibrated_and_asked_what_if(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The calibration lies where it was asked for and starts what-ifs and simulations."""
    file = tmp_path / "mine.toml"
    shown = out_of(
        capsys, "calibrate", str(run), "--gpu", "RTX 4060 Ti 16GB", "--model", "Qwen3-8B-AWQ", "--out", str(file),
        "--lang", "en",
    )  # fmt: skip
    assert "by datasheet" in shown
    assert "residuals" in shown

    cases = ("--case", "model=Qwen3-14B-AWQ", "--case", "max-num-seqs=4,users=6")
    table = out_of(capsys, "whatif", str(file), "--users", "2,4", *cases, "--lang", "en")
    lines = table.splitlines()
    assert lines[0].startswith("simulated · from the calibration of ")
    assert sum(line.startswith("as it is") for line in lines) == 2
    assert sum(line.startswith("model=Qwen3-14B-AWQ") for line in lines) == 2
    assert sum(line.startswith("max-num-seqs=4") for line in lines) == 1

    asked = ["--users", "4", "--gpus", "2", "--workload", "short", "--slo", "strict", "--format", "json"]
    answer = json.loads(out_of(capsys, "whatif", str(file), *asked))
    assert answer["simulated"] is True
    assert [case["case"] for case in answer["cases"]] == ["", "gpus=2"]
    first, second = (case["levels"][0]["e2e_p50_s"] for case in answer["cases"])
    assert second["value"] < first["value"]
    assert first["low"] <= first["value"] <= first["high"]

    scenario = tmp_path / "short.toml"
    scenario.write_text(SHORT)
    told = out_of(capsys, "simulate", str(scenario), "--calibration", str(file), "--out", str(tmp_path / "runs"))
    assert told.startswith(("simulated · ", "시뮬레이션 · "))


def test_what_was_measured_stands_beside(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A what-if from a run shows the run's own figures first, in Markdown too."""
    verdict = json.loads(out_of(capsys, "report", str(run), "--format", "json"))
    shown = out_of(capsys, "whatif", str(run), "--format", "markdown", "--lang", "en")

    assert f"| measured | {verdict['limit_users']} |" in shown
    assert f"| as it is | {verdict['limit_users']} |" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["whatif", "nothing"], 4, "nothing is not there"),
        (["whatif", "{run}", "--gpus", "2"], 2, "nobody told what was measured"),
        (["whatif", "{run}", "--gpus", "two"], 2, "gpus must be a whole number"),
        (["whatif", "{run}", "--gpus", "²"], 2, "gpus must be a whole number"),
        (["whatif", "{run}", "--gpus", "9" * 5000], 2, "gpus must be a whole number"),
        (["whatif", "{run}", "--users", "999999999"], 2, "users must be at most 16384"),
        (["whatif", "{run}", "--measured-model", "Qwen3-8B"], 2, "measured on is not named"),
        (["calibrate", "{run}", "--quantization", "awq"], 2, "--quantization is given without a GPU"),
        (["whatif", "{run}", "--share", "30%"], 2, "no"),
        (["whatif", "{run}", "--case", "speed=2"], 2, "'speed' cannot be changed"),
        (["whatif", "{run}", "--context", "9999999"], 2, "context=9999999: a context of 9999999 tokens does not fit"),
        (["whatif", "{run}", "--format", "html"], 2, "format 'html' is not known"),
        (["whatif", "{run}", "--measured-gpu", "RTX 4090"], 2, "without its model"),
        (["calibrate", "{run}", "--model", "Qwen3-8B"], 2, "the GPU is not"),
        (["calibrate", "{run}", "--gpu", "RTX 4090"], 2, "the model is not"),
        (["calibrate", "{run}", "--out", "/nowhere/at/all.toml"], 4, "cannot write"),
        (["calibrate", "{empty}"], 4, "is not a run folder"),
        (["calibrate", "http://127.0.0.1:9"], 3, "127.0.0.1:9"),
    ],
)
def test_what_people_get_wrong_in_calibrate_and_whatif(
    arguments: list[str], code: int, told: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, a hint, the exit code of its kind."""
    filled = [argument.format(run=run, empty=tmp_path) if "{" in argument else argument for argument in arguments]
    assert main(filled) == code
    said = capsys.readouterr().err

    assert told in said
    assert "hint:" in said
    assert "Traceback" not in said


def test_a_run_that_does_not_keep_to_the_equation_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5; what was seen is kept, and nothing can be started from it."""
    monkeypatch.chdir(tmp_path)
    scenario = tmp_path / "erratic.toml"
    options = '[engine]\nkind = "simulated"\n[engine.options]\njitter = 0.6\n[search]\nlevels = [1, 2, 4, 8]\n'
    scenario.write_text(options + "level_time_s = 60\n")
    main(["run", str(scenario), "--out", "runs"])
    (folder,) = (tmp_path / "runs").iterdir()
    capsys.readouterr()

    assert main(["calibrate", str(folder), "--lang", "en"]) == 5
    captured = capsys.readouterr()
    assert captured.out.startswith("simulated · refused · ")
    assert "the step equation does not describe this server" in captured.err
    assert (folder / "calibration-refused.toml").exists()
    assert main(["whatif", str(folder / "calibration-refused.toml")]) == 5
