"""The verb that counts servers instead of people: ``fleet-size``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.cli.arguments import LANGUAGES, Verbs, amount, at_most, fraction, positive, say, whole
from headcount.errors import ScenarioError

if TYPE_CHECKING:
    from headcount.prediction import Start

__all__ = ["add"]

_OF_HARDWARE = ("gpu", "gpus", "model", "config", "quantization", "engine", "context", "max_num_seqs", "seed")
"""What a calibration or a run says already."""


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verb and its flags."""
    fleet = verbs.add_parser("fleet-size", parents=[common], help="how many replicas some number of people needs")
    fleet.add_argument(
        "start", nargs="?", type=Path, metavar="RUN|CALIBRATION", help="measured, instead of --gpu and --model"
    )
    fleet.add_argument("--people", type=positive, required=True, metavar="N", help="who may use it at all")
    fleet.add_argument(
        "--active-share", type=_share, default=0.05, metavar="SHARE", help="of them at the busiest time (default 5%%)"
    )
    fleet.add_argument("--gpu", help='one of the catalogue, or its figures: "24 GB, 936 GB/s, 71 TFLOP/s, 350 W"')
    fleet.add_argument("--gpus", type=positive, default=1, metavar="N", help="cards of one replica (default 1)")
    fleet.add_argument("--model", help="one of the catalogue, e.g. Qwen3-8B-AWQ; a name where --config is given")
    fleet.add_argument("--config", metavar="FILE", help="the model's config.json, where it is not in the catalogue")
    fleet.add_argument("--quantization", metavar="KIND", help="fp16, fp8, awq, gptq, q4_k_m … (default: the model's)")
    fleet.add_argument("--engine", default="vllm", help="schedule as vllm (default), sglang, llamacpp or ollama does")
    fleet.add_argument(
        "--context", type=positive, default=8192, metavar="TOKENS", help="the longest context (default 8192)"
    )
    fleet.add_argument("--max-num-seqs", type=positive, metavar="N", help="sequences at once (default the engine's)")
    fleet.add_argument("--workload", help="what people do: chat, chat-slow, rag … (default chat)")
    fleet.add_argument("--scenario", type=Path, metavar="FILE", help="the people and service level of a scenario file")
    fleet.add_argument("--slo", action="append", help='a preset (chat, strict …) or "ttft_p95<=2s" (default chat)')
    fleet.add_argument(
        "--routing", default="least-loaded", choices=("least-loaded", "sticky"), help="which the answer counts with"
    )
    fleet.add_argument(
        "--redundancy",
        type=at_most(1000, least=0),
        default=1,
        metavar="K",
        help="replicas that may fail at once (default 1)",
    )
    fleet.add_argument("--cost-per-hour", type=amount, metavar="MONEY", help="of one GPU, in any currency")
    fleet.add_argument("--seed", type=whole, default=1, metavar="N", help="of everything random (default 1)")
    fleet.add_argument("--format", choices=("terminal", "json"), default="terminal", help="terminal (default) or json")
    fleet.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")
    fleet.set_defaults(verb=_fleet_size, usual=fleet.get_default)


def _fleet_size(options: argparse.Namespace) -> int:
    from headcount.replicas import fleet_size
    from headcount.replicas.showing import fleet_text
    from headcount.report.words import language_of

    start, source = _start(options)
    if sys.stderr.isatty():
        say("simulating a pool of replicas; this takes some seconds …")
    size = fleet_size(
        start,
        options.people,
        options.active_share,
        routing=options.routing,
        redundancy=options.redundancy,
        card_cost_per_hour=options.cost_per_hour,
    )
    language = options.lang or language_of(os.environ)
    sys.stdout.write(fleet_text(options.format, size, start, source, language))
    return 0


def _start(options: argparse.Namespace) -> tuple[Start, str]:
    """Where to start, and what it is called."""
    from headcount.prediction import hardware_from, start_at, start_of_hardware

    workload, slo = _people(options)
    if options.start is not None:
        if beside := [name for name in _OF_HARDWARE if getattr(options, name) != options.usual(name)]:
            raise ScenarioError(
                f"{options.start} and --{beside[0].replace('_', '-')} are both given",
                "keep one of them; see also headcount whatif",
            )
        return start_at(options.start, workload=workload, slo=slo)
    if options.gpu is None:
        raise ScenarioError("no GPU is named", "give --gpu H100 and --model Qwen3-8B, or a calibration")
    hardware = hardware_from(options.gpu, options.model, options.gpus, _config(options), options.quantization)
    start = start_of_hardware(
        hardware,
        engine=options.engine,
        slots=options.max_num_seqs,
        context_tokens=options.context,
        workload=workload,
        slo=slo or "chat",
        seed=options.seed,
    )
    return start, str(hardware)


def _people(options: argparse.Namespace) -> tuple[dict[str, Any] | None, str | tuple[str, ...] | None]:
    """Workload and service level as the flags or the scenario say; None where they do not."""
    from headcount.scenario import load_scenario, make_scenario

    slo = None if not options.slo else options.slo[0] if len(options.slo) == 1 else tuple(options.slo)
    if options.scenario is None:
        if options.workload is None:
            return None, slo
        return dict(make_scenario({"workload": {"kind": options.workload}}).workload), slo
    if options.workload:
        raise ScenarioError("--scenario and --workload are both given", "keep one of them")
    scenario = load_scenario(options.scenario)
    return dict(scenario.workload), slo or scenario.slo


def _config(options: argparse.Namespace) -> dict[str, Any] | None:
    from headcount.engine.simulation import read_config

    return read_config(options.config) if options.config else None


def _share(text: str) -> float:
    """A share up to the whole."""
    return 1.0 if text in ("1", "1.0", "100%") else fraction(text)
