"""A server asked for a minute gives its constants back, predicts levels it was not asked for, or is refused."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headcount import virtual
from headcount.engine.simulation import Options
from headcount.errors import NotTrustedError, RunError
from headcount.mock import MockServer
from headcount.prediction.asking import calibrate_server
from headcount.prediction.calibration import Calibration, Told, read_calibration, write_calibration
from headcount.prediction.fitted import check_trust
from headcount.scenario import EngineOptions
from headcount.simulator.cost import Cost
from headcount.simulator.profiles import PROFILES


def calibrated(**options: Any) -> Calibration:
    """A simulated server, asked by the clock that jumps."""
    return virtual.run(calibrate_server(EngineOptions(kind="simulated", options=options), None))


def gap_s(cost: Cost, sequences: int, context_tokens: float) -> float:
    """One step with nothing but decoding."""
    return cost.step_s(sequences, sequences, adapted=False) + cost.context_token_s * sequences * context_tokens


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_constants_come_back(name: str) -> None:
    """With 2 % jitter steps are known to 9 % from one sequence to 30, short and long contexts; what is well determined
    lies within three of its standard errors; the server was asked for less than a minute."""
    true = PROFILES[name].cost
    found = calibrated(server=name)

    assert check_trust(found) is None
    assert found.took_s < 61.0
    for sequences in (n for n in (1, 3, 12, 30) if n <= PROFILES[name].policy.slots):
        for context_tokens in (60, 600):
            truth = gap_s(true, sequences, context_tokens)
            assert gap_s(found.cost, sequences, context_tokens) == pytest.approx(truth, rel=0.09)
    for constant in ("weights_s", "token_s", "sequence_s", "context_token_s"):
        ratio = getattr(found.cost, constant) / getattr(true, constant)
        assert 1 / (1 + 3 * found.spread[constant]) < ratio < 1 + 3 * found.spread[constant], constant


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_levels_that_were_not_fitted_are_foreseen(name: str) -> None:
    """Near half of the capacity and near it: median and tokens a second within 7 %, first tokens within 20 %."""
    checks = calibrated(server=name).checks

    assert len(checks) == 2
    for check in checks:
        errors = check.errors()
        assert abs(errors["e2e_p50_s"]) < 0.07
        assert abs(errors["output_tokens_per_s"]) < 0.07
        assert abs(errors["ttft_p95_s"]) < 0.20


def test_the_same_server_gives_the_same_calibration() -> None:
    """Under the clock that jumps nothing depends on the machine."""
    first, second = calibrated(), calibrated()

    assert first.cost == second.cost
    assert first.draws == second.draws
    assert first.checks == second.checks


def test_what_a_server_has_besides_is_seen() -> None:
    """Adapters, fewer places than are told, and a missing prefix cache."""
    found = calibrated(adapters=["one", "two"], adapter_fraction=0.2, prefix_cache=False)

    assert found.cost.adapter_fraction == pytest.approx(0.2, abs=0.06)
    assert not found.policy.prefix_cache


@pytest.mark.parametrize(
    "options",
    [
        {"drift_per_hour": 80.0},
        {"throttle_after_s": 20.0, "throttle_factor": 2.0},
        {"leak_per_request": 0.01},
        {"jitter": 0.6},
        {"proxy_limit": 4},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_server_that_does_not_keep_to_the_equation_is_refused(options: dict[str, Any]) -> None:
    """One that gets slower meanwhile, whose steps are erratic, or behind something that holds requests back."""
    refused = check_trust(calibrated(server="workstation", **options))

    assert refused is not None
    assert "%" in refused


@pytest.mark.parametrize("options", [{"buffered": True}, {"usage": False}], ids=["buffered", "uncounted"])
def test_a_server_that_shows_too_little_is_refused(options: dict[str, Any]) -> None:
    """Without streams or counts there is nothing to fit."""
    with pytest.raises(NotTrustedError, match="too little was seen"):
        calibrated(**options)


def test_the_file_holds_everything(tmp_path: Path) -> None:
    """What was written is read back; the constants against a datasheet too."""
    told = Told(gpu="RTX 4090", model="Qwen3-8B-AWQ")
    options = EngineOptions(kind="simulated", options={"server": "home"})
    found = virtual.run(calibrate_server(options, None, told))
    path = tmp_path / "calibration.toml"
    write_calibration(found, path)
    read = read_calibration(path)

    assert read.told == told
    for field in ("cost", "draws", "spread", "policy", "prefills", "decodes", "checks", "each_residual_fraction"):
        assert msgspec.to_builtins(getattr(read, field)) == msgspec.to_builtins(getattr(found, field))
    assert read.engine.model == found.engine.model
    assert len(read.costs()) == 48
    assert all(asdict(cost)["adapter_fraction"] == read.cost.adapter_fraction for cost in read.costs())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense [", "is no calibration"),
        ("format_version = 99", "calibration format 99"),
        ("format_version = 1", "is no calibration"),
        (None, "is not there"),
    ],
    ids=["no-toml", "newer", "empty", "missing"],
)
def test_other_files_are_refused(text: str | None, told: str, tmp_path: Path) -> None:
    """Each with what is wrong and what to do."""
    path = tmp_path / "calibration.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RunError, match=told) as caught:
        read_calibration(path)

    assert caught.value.hint


def test_a_real_server_is_asked_over_http() -> None:
    """The whole way: sockets, streams, counts. How well it fits depends on the machine, and is not looked at."""

    async def main() -> Calibration:
        options = Options(server="workstation", speed=3.0, slots=8)
        async with MockServer(options, "vllm") as server:
            return await calibrate_server(EngineOptions(url=server.url), None, longest_s=6.0)

    try:
        found = asyncio.run(main())
    except NotTrustedError:  # a machine under load may leave too little undisturbed
        return

    assert found.engine.engine == "vllm"
    assert found.policy.slots == 8
    assert {seen.sequences for seen in found.decodes} >= {1, 4}
    assert 0.0 < found.request_s < 0.5
