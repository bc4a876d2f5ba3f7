"""Where predictions start: from hardware alone, from a calibration file, from a stored run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from headcount.errors import NotTrustedError, RunError, ScenarioError
from headcount.prediction.calibration import CALIBRATION_FILE, Calibration, Told, read_calibration
from headcount.prediction.fitted import check_trust
from headcount.prediction.from_run import calibrate_run, told_of
from headcount.prediction.served import Hardware, Served, Start, draws_of, fitting_pool
from headcount.simulator.catalogue import find_gpu, find_model, find_quantization, known_model
from headcount.simulator.hardware import Model, Quantization
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.profiles import USUAL_SLOTS
from headcount.slo import parse_slo
from headcount.store import open_run

__all__ = ["hardware_from", "model_of", "start_at", "start_of_calibration", "start_of_file", "start_of_hardware"]


def model_of(
    name: str | None, config: Mapping[str, Any] | None = None, quantization: str | None = None
) -> tuple[Model, Quantization]:
    """A model by its name in the catalogue, or of a ``config.json``; the quantization by name where that says more."""
    if config is not None:
        model, found = known_model(name or str(config.get("model_type", "model")), config)
    elif name is None:
        raise ScenarioError("no model is named", "give --model Qwen3-8B-AWQ, or --config config.json")
    else:
        model, found = find_model(name)
    return model, find_quantization(quantization) if quantization else found


def hardware_from(
    gpu: str, model: str | None, gpus: int = 1, config: Mapping[str, Any] | None = None, quantization: str | None = None
) -> Hardware:
    """By the names people write."""
    return Hardware(find_gpu(gpu), *model_of(model, config, quantization), gpus)


def start_of_hardware(
    hardware: Hardware,
    *,
    engine: str = "vllm",
    slots: int | None = None,
    context_tokens: int = 8192,
    workload: Mapping[str, object] | None = None,
    slo: str | tuple[str, ...] = "chat",
    seed: int = 1,
) -> Start:
    """Nothing was measured: datasheet, public configuration, and the engine's usual settings. ``ScenarioError`` when a
    context does not fit into memory, with what would."""
    if engine not in POLICIES:
        raise ScenarioError(f"engine {engine!r} is not known to the simulator", f"known: {', '.join(POLICIES)}")
    policy = _policy(hardware, engine, slots or USUAL_SLOTS[engine], context_tokens)
    served = Served(hardware.cost(), policy, draws_of(hardware), hardware=hardware)
    return Start(
        served=served, workload=dict(workload or {"kind": "chat"}), slo=parse_slo(slo), basis="catalogue", seed=seed
    )


def _policy(hardware: Hardware, engine: str, slots: int, context_tokens: int) -> Policy:
    pool = fitting_pool(hardware, context_tokens, context_tokens)
    if engine in ("vllm", "sglang"):
        return POLICIES[engine](slots=slots, pool_tokens=pool, context_tokens=context_tokens)
    if slots * context_tokens > pool:
        raise ScenarioError(
            f"{slots} slots of {context_tokens} tokens do not fit: memory holds {pool} tokens",
            "fewer slots, or a shorter context",
        )
    whole = context_tokens * slots if engine == "llamacpp" else context_tokens
    return POLICIES[engine](slots=slots, context_tokens=whole)


def start_of_file(
    path: Path, *, workload: Mapping[str, object] | None = None, slo: str | tuple[str, ...] | None = None
) -> Start:
    """A calibration file, with its own people and service level, or other ones. Raises ``RunError``."""
    return start_of_calibration(read_calibration(path), workload=workload, slo=slo)


def start_of_calibration(
    calibration: Calibration,
    *,
    workload: Mapping[str, object] | None = None,
    slo: str | tuple[str, ...] | None = None,
) -> Start:
    """The same of a calibration that was just made."""
    served = Served(
        cost=calibration.cost,
        policy=calibration.policy,
        draws=calibration.costs(),
        request_s=calibration.request_s,
        tail_s=calibration.tail_s,
        hardware=calibration.told.hardware() if calibration.told else None,
    )
    same_people = workload is None or workload == calibration.workload
    return Start(
        served=served,
        workload=dict(workload or calibration.workload or {"kind": "chat"}),
        slo=parse_slo(slo or calibration.slo or "chat"),
        basis="calibrated",
        seed=calibration.seed,
        answer_share=calibration.answer_share or (1.0,),
        template_tokens=calibration.template_tokens,
        measured=calibration.measured if same_people else (),
        limit_users=calibration.limit_users if same_people and slo is None else None,
    )


def start_at(
    path: Path,
    *,
    told: Told | None = None,
    workload: Mapping[str, object] | None = None,
    slo: str | tuple[str, ...] | None = None,
) -> tuple[Start, str]:
    """The start that a calibration file gives, a run folder that has one, or a run folder that is calibrated now; and
    what it is called. ``told`` is what it runs on, where that is not known from it.

    Raises ``RunError`` when there is nothing to start from, ``NotTrustedError`` when it must not be believed.
    """
    if path.is_dir() and not (path / CALIBRATION_FILE).is_file():
        run = open_run(path)
        calibration = calibrate_run(run, told or told_of(run.facts))
    elif not path.exists():
        raise RunError(f"{path} is not there", "give a run folder, or the file that headcount calibrate wrote")
    else:
        calibration = read_calibration(path / CALIBRATION_FILE if path.is_dir() else path)
    if refused := check_trust(calibration):
        raise NotTrustedError(refused, "calibrate the server itself: headcount calibrate http://HOST:PORT")
    if told is not None:
        calibration = msgspec.structs.replace(calibration, told=told)
    return start_of_calibration(calibration, workload=workload, slo=slo), calibration.source
