"""A scenario whose server is simulated: from hardware by name, or from a calibration, with how uncertain that makes the
limit. What comes out is measured as any other server is. Knows nothing of arguments.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import msgspec

from headcount.engine.simulation import read_config
from headcount.prediction.calibration import read_calibration
from headcount.prediction.served import Change, Start, changed
from headcount.prediction.start import hardware_from, start_of_calibration, start_of_hardware
from headcount.prediction.whatif import limit_of
from headcount.scenario import EngineOptions, Scenario

__all__ = ["by_datasheet", "calibrated"]

_DRAWS = 10
_UNTOLD_CONTEXT_TOKENS = 8192


def by_datasheet(
    scenario: Scenario,
    *,
    gpu: str,
    model: str | None,
    gpus: int = 1,
    config_file: str | None = None,
    quantization: str | None = None,
    engine: str = "vllm",
    slots: int | None = None,
    context_tokens: int | None = None,
    adapters: int | None = None,
) -> Scenario:
    """The scenario on hardware of the catalogue. Raises ``ScenarioError`` where that is not known or does not fit."""
    config = None if config_file is None else read_config(config_file)
    if config is not None:
        model = model or str(config.get("model_type", "model"))
    hardware = hardware_from(gpu, model, gpus, config, quantization)
    context_tokens = context_tokens or _UNTOLD_CONTEXT_TOKENS
    start = start_of_hardware(
        hardware,
        engine=engine,
        slots=slots,
        context_tokens=context_tokens,
        workload=_without_adapters(scenario.workload),
        slo=scenario.slo,
        seed=scenario.seed,
    )
    options = {
        "gpu": gpu,
        "gpus": gpus,
        "policy": engine,
        "context_tokens": context_tokens,
        "slots": slots,
        "quantization": quantization,
        "config_file": config_file,
    }
    return _simulated(scenario, model, options, start, adapters)


def calibrated(
    scenario: Scenario,
    path: Path,
    context_tokens: int | None = None,
    slots: int | None = None,
    adapters: int | None = None,
) -> Scenario:
    """The scenario on a server that was calibrated. Raises ``RunError`` when the file is none."""
    calibration = read_calibration(path)
    start = start_of_calibration(calibration, workload=_without_adapters(scenario.workload), slo=scenario.slo)
    served = changed(start.served, Change(context_tokens=context_tokens, slots=slots))
    start = msgspec.structs.replace(start, served=served)
    policy = served.policy
    options = {
        "policy": policy.name,
        "slots": policy.slots,
        "kv_pool_tokens": policy.pool_tokens,
        "max_batched_tokens": policy.max_batched_tokens,
        "context_tokens": policy.context_tokens,
        "block_tokens": policy.block_tokens,
        "prefix_cache": policy.prefix_cache,
        "round_trip_s": served.request_s,
        **asdict(served.cost),
    }
    if calibration.answer_share:
        options["output_share"] = sum(start.answer_share) / len(start.answer_share)
    return _simulated(scenario, calibration.engine.model, options, start, adapters)


def _simulated(
    scenario: Scenario, model: str | None, options: dict[str, object], start: Start, adapters: int | None
) -> Scenario:
    if adapters:
        options["adapters"] = [f"adapter-{number}" for number in range(1, adapters + 1)]
    limit = limit_of(start, Change(), draws=_DRAWS, most_users=scenario.search.max_users)
    if limit.limit_users:
        options["limit_factor"] = [limit.low_users / limit.limit_users, limit.high_users / limit.limit_users]
    given = {key: value for key, value in options.items() if value is not None}
    return msgspec.structs.replace(scenario, engine=EngineOptions(kind="simulated", model=model, options=given))


def _without_adapters(table: dict[str, object]) -> dict[str, object]:
    """For the fast look, which has no server to ask for its adapters."""
    return {key: value for key, value in table.items() if key != "adapters" or value != "all"}
