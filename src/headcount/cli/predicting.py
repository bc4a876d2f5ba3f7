"""The verbs that predict: ``simulate``, ``calibrate``, ``whatif``. They need no GPU, and but one of them a server."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.cli.arguments import LANGUAGES, Verbs, add_key, add_output, api_key, positive, say
from headcount.cli.measuring import look_around
from headcount.errors import HeadcountError, NotTrustedError, ScenarioError

if TYPE_CHECKING:
    from headcount.prediction import Start
    from headcount.prediction.calibration import Calibration, Told
    from headcount.prediction.cases import Case
    from headcount.prediction.showing import Answer
    from headcount.scenario import Scenario

__all__ = ["add"]

NOT_TRUSTED = 5
BELOW_REQUIRED = 1
INTERRUPTED = 130


def add(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """The verbs and their flags."""
    simulate = verbs.add_parser("simulate", parents=[common], help="find the limit of a server that you do not have")
    simulate.add_argument("scenario", help="a scenario file (TOML), or a workload such as chat or rag")
    _add_hardware(simulate)
    simulate.add_argument("--engine", default=None, help="schedule as vllm (default), sglang, llamacpp or ollama does")
    simulate.add_argument("--context", type=positive, metavar="TOKENS", help="the longest context (default 8192)")
    simulate.add_argument("--max-num-seqs", type=positive, metavar="N", help="sequences at once (default the engine's)")
    simulate.add_argument("--adapters", type=positive, metavar="N", help="people use N LoRA adapters")
    simulate.add_argument("--calibration", type=Path, metavar="FILE", help="a calibrated server instead of a datasheet")
    simulate.add_argument("--require-users", type=positive, metavar="N", help="exit 1 when the limit is below N")
    add_output(simulate)
    simulate.set_defaults(verb=_simulate)
    calibrate = verbs.add_parser(
        "calibrate", parents=[common], help="learn a server's constants in a minute, or from a stored run"
    )
    calibrate.add_argument("source", nargs="?", help="a server's address or a run folder; none: look on this machine")
    _add_hardware(calibrate)
    calibrate.add_argument("--engine", default="auto", help="which server it is (default: by what it answers)")
    calibrate.add_argument("--ask", metavar="MODEL", help="the model to ask (default: the server's first)")
    add_key(calibrate)
    calibrate.add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    calibrate.add_argument("--ca-file", help="a certificate authority to trust for TLS")
    calibrate.add_argument("--out", type=Path, metavar="FILE", help="where to (default: calibration.toml)")
    _add_shown(calibrate)
    calibrate.set_defaults(verb=_calibrate)
    whatif = verbs.add_parser(
        "whatif", parents=[common], help="predict other people, hardware or settings from a run or a calibration"
    )
    whatif.add_argument("start", type=Path, metavar="RUN|CALIBRATION", help="a run folder or a calibration file")
    _add_case(whatif)
    whatif.add_argument(
        "--case", action="append", default=[], metavar="CASE", help='one more row, e.g. "gpus=2,context=16384"'
    )
    whatif.add_argument("--measured-gpu", metavar="GPU", help="what the start was measured on, where it does not say")
    whatif.add_argument("--measured-gpus", type=positive, default=1, metavar="N", help="how many of them (default 1)")
    whatif.add_argument("--measured-model", metavar="MODEL", help="and with which model")
    whatif.add_argument("--workload", help="other people: chat, rag … (default: those of the run, else chat)")
    whatif.add_argument("--slo", action="append", help="another service level (default: the run's, else chat)")
    _add_shown(whatif)
    whatif.set_defaults(verb=_whatif)


def _add_hardware(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", help='one of the catalogue, or its figures: "24 GB, 936 GB/s, 71 TFLOP/s, 350 W"')
    parser.add_argument("--gpus", type=positive, default=1, metavar="N", help="cards side by side (default 1)")
    parser.add_argument("--model", help="one of the catalogue, e.g. Qwen3-8B-AWQ; a name where --config is given")
    parser.add_argument("--config", metavar="FILE", help="the model's config.json, where it is not in the catalogue")
    parser.add_argument("--quantization", metavar="KIND", help="fp16, fp8, awq, gptq, q4_k_m … (default: the model's)")


def _add_case(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", metavar="N,N", help="how many people (default: the limit)")
    parser.add_argument("--context", metavar="TOKENS", help="the longest context the server allows")
    parser.add_argument("--prompt-tokens", metavar="N", help="what a first question has, documents included")
    parser.add_argument("--gpu", help="another GPU: one of the catalogue, or its figures")
    parser.add_argument("--gpus", metavar="N", help="cards side by side")
    parser.add_argument("--model", help="another model of the catalogue")
    parser.add_argument("--max-num-seqs", metavar="N", help="sequences at once")
    parser.add_argument("--power-limit", metavar="WATTS", help="of each card (by a rough rule)")
    parser.add_argument("--with", dest="with_model", metavar="MODEL", help="a second model for a share of the people")
    parser.add_argument("--share", metavar="SHARE", help="their share (default 50%%)")
    parser.add_argument("--with-gpu", metavar="GPU", help="the second model's own card (default: on the same)")


def _add_shown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", default="terminal", help="terminal (default), markdown or json")
    parser.add_argument("--lang", choices=LANGUAGES, help="language of the answer (default: the locale's)")


def _language(options: argparse.Namespace) -> str:
    from headcount.report.words import language_of

    return options.lang or language_of(os.environ)


# --- simulate --------------------------------------------------------------------------------


def _simulate(options: argparse.Namespace) -> int:
    import msgspec

    from headcount.measure import measure
    from headcount.report import known_format, save_html, write_report
    from headcount.report.progress import Progress

    known_format(options.format)
    scenario = _simulated(_scenario(options.scenario), options)
    language = options.lang = _language(options)
    with Progress(line_every_s=math.inf, language=language) as progress:
        outcome = measure(
            msgspec.structs.replace(scenario, name=scenario.name or "simulate"),
            verb="simulate",
            out=options.out,
            api_key=None,
            watcher=progress,
            agree=lambda _: True,
        )
    assert outcome is not None  # nobody was asked
    shown = (outcome.verdict, outcome.facts, outcome.path, language)
    page = save_html(*shown)
    write_report(options.format, *shown)
    say(f"\nreport: {page}\nfacts:  {outcome.path}")
    if outcome.interrupted:
        return INTERRUPTED
    if not outcome.verdict.trusted:
        return NOT_TRUSTED
    if options.require_users is not None and (outcome.verdict.limit_users or 0) < options.require_users:
        return BELOW_REQUIRED
    return 0


def _scenario(name: str) -> Scenario:
    """A scenario file, or the people of a ready workload under the usual service level."""
    from headcount.scenario import load_scenario, make_scenario
    from headcount.workload import PRESETS

    if Path(name).exists() or name.endswith(".toml"):
        return load_scenario(name)
    if name != "chat" and name not in PRESETS:
        known = ", ".join(sorted({"chat", *PRESETS}))
        raise ScenarioError(
            f"{name!r} is neither a file nor a workload", f"workloads: {known}; or give a scenario file"
        )
    return make_scenario({"name": "simulate", "workload": {"kind": name}})


def _simulated(scenario: Scenario, options: argparse.Namespace) -> Scenario:
    """The scenario with the simulated engine in place of its own."""
    import msgspec

    from headcount.prediction import simulating
    from headcount.workload import settle

    workload = scenario.workload
    if options.adapters:
        workload = {**settle(workload), "adapters": "all"}
    scenario = msgspec.structs.replace(scenario, workload=workload)
    if options.calibration is not None:
        hardware = ("gpu", "model", "config", "engine", "quantization")
        beside = next((name for name in hardware if getattr(options, name)), "gpus" if options.gpus != 1 else None)
        if beside:
            raise ScenarioError(
                f"--calibration and --{beside} are both given",
                f"keep one of them; other hardware from a calibration: headcount whatif {options.calibration} …",
            )
        return simulating.calibrated(
            scenario, options.calibration, options.context, options.max_num_seqs, options.adapters
        )
    if options.gpu is None:
        raise ScenarioError("no GPU is named", 'give --gpu "RTX 4090" and --model Qwen3-8B-AWQ, or --calibration FILE')
    return simulating.by_datasheet(
        scenario,
        gpu=options.gpu,
        gpus=options.gpus,
        model=options.model,
        config_file=options.config,
        quantization=options.quantization,
        engine=options.engine or "vllm",
        slots=options.max_num_seqs,
        context_tokens=options.context,
        adapters=options.adapters,
    )


# --- calibrate -------------------------------------------------------------------------------


def _calibrate(options: argparse.Namespace) -> int:
    from headcount.prediction.calibration import CALIBRATION_FILE, write_calibration
    from headcount.prediction.fitted import check_trust
    from headcount.prediction.showing import calibration_text, known_format

    known_format(options.format)
    source = options.source or look_around()
    folder = Path(source)
    from_run = (folder / "run.json").is_file() or ("://" not in source and folder.is_dir())
    calibration = _from_run(folder, options) if from_run else _from_server(source, options)
    refused = check_trust(calibration)
    out: Path = options.out or (folder if from_run else Path()) / CALIBRATION_FILE
    if refused:
        out = out.with_name(out.stem + "-refused" + (out.suffix or ".toml"))
    write_calibration(calibration, out)
    sys.stdout.write(calibration_text(options.format, calibration, refused, _language(options)))
    say(f"\n{'facts' if refused else 'calibration'}: {out}")
    if refused:
        raise NotTrustedError(
            refused, f"what was seen is kept in {out}; calibrate again when nobody else uses the server"
        )
    return 0


def _from_run(folder: Path, options: argparse.Namespace) -> Calibration:
    from headcount.prediction.from_run import calibrate_run, told_of
    from headcount.store import open_run

    run = open_run(folder)
    return calibrate_run(run, _told(options) or told_of(run.facts))


def _from_server(source: str, options: argparse.Namespace) -> Calibration:
    import asyncio

    from headcount.prediction.asking import calibrate_server
    from headcount.scenario import EngineOptions

    engine = EngineOptions(
        kind=options.engine, url=source, model=options.ask, insecure=options.insecure, ca_file=options.ca_file
    )
    told = _told(options)
    say("calibrating for up to a minute; nobody else should use the server meanwhile")
    return asyncio.run(calibrate_server(engine, api_key(options), told, progress=lambda text: say(f"  {text}")))


def _told(options: argparse.Namespace) -> Told | None:
    """What the flags say of the hardware; None when they say nothing."""
    from headcount.engine.simulation import read_config
    from headcount.prediction.calibration import Told

    if options.gpu is None:
        if options.model or options.config:
            raise ScenarioError("the model is named and the GPU is not", 'give --gpu "RTX 4090" as well')
        if options.quantization or options.gpus != 1:
            flag = "--quantization" if options.quantization else "--gpus"
            raise ScenarioError(f"{flag} is given without a GPU", 'give --gpu "RTX 4090" and --model as well')
        return None
    config = read_config(options.config) if options.config else {}
    model = options.model or str(config.get("model_type", ""))
    if not model:
        raise ScenarioError("the GPU is named and the model is not", "give --model Qwen3-8B-AWQ, or --config FILE")
    told = Told(gpu=options.gpu, gpus=options.gpus, model=model, quantization=options.quantization or "", config=config)
    told.hardware()
    return told


# --- whatif ----------------------------------------------------------------------------------


def _whatif(options: argparse.Namespace) -> int:
    from headcount.prediction.cases import Case, case_of, parse_case
    from headcount.prediction.served import Change
    from headcount.prediction.showing import known_format, whatif_text

    known_format(options.format)
    own = case_of(_said(options))
    others = [parse_case(text) for text in options.case]
    cases = [Case("", Change(), own.users), *([own] if own.name else []), *others]
    start, source = _start(options)
    for case in cases:
        _checked(start, case)
    answers = [_answer(start, case, own.users) for case in cases]
    sys.stdout.write(whatif_text(options.format, start, source, answers, _language(options)))
    return 0


def _said(options: argparse.Namespace) -> dict[str, str]:
    """The flags as a case."""
    from headcount.prediction.cases import CASE_KEYS

    attributes = {key: "with_model" if key == "with" else key.replace("-", "_") for key in CASE_KEYS}
    return {key: str(value) for key, name in attributes.items() if (value := getattr(options, name)) is not None}


def _start(options: argparse.Namespace) -> tuple[Start, str]:
    """Where to start, and what it is called."""
    from headcount.prediction import start_at

    workload: dict[str, Any] | None = {"kind": options.workload} if options.workload else None
    slo = None if not options.slo else options.slo[0] if len(options.slo) == 1 else tuple(options.slo)
    told = None
    if not options.measured_gpu and (options.measured_model or options.measured_gpus != 1):
        raise ScenarioError("what was measured on is not named", 'give --measured-gpu "RTX 4090" as well')
    if options.measured_gpu:
        from headcount.prediction.calibration import Told

        if not options.measured_model:
            raise ScenarioError("--measured-gpu is given without its model", "give --measured-model as well")
        told = Told(gpu=options.measured_gpu, gpus=options.measured_gpus, model=options.measured_model)
    return start_at(options.start, told=told, workload=workload, slo=slo)


def _checked(start: Start, case: Case) -> None:
    """What cannot be is said before anything takes its time."""
    from headcount.prediction.served import changed

    try:
        changed(start.served, case.change)
    except HeadcountError as error:
        raise type(error)(f"{case.name}: {error.message}", error.hint) from error


def _answer(start: Start, case: Case, users: tuple[int, ...]) -> Answer:
    from headcount.prediction.showing import Answer
    from headcount.prediction.whatif import limit_of, predict

    limit = limit_of(start, case.change)
    asked = case.users or users or (start.limit_users or limit.limit_users or 1,)
    return Answer(case, tuple(predict(start, case.change, n) for n in asked), limit)
