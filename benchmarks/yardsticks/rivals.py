"""Other tools that load model servers, each from an environment of its own: how it is called and what it says it saw.

Every tool is asked for the same: so many people or requests a second, answers of so many tokens, streamed. None is
needed; ``benchmarks/fidelity.py`` says how to install them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from yardsticks.case import TOKENS, Case, Client, Report, script, script_report
from yardsticks.truth import HERE, Tools

PROMPT_TOKENS = 20
TOKENIZER = "tokenizer"
"""The link in the folder of environments to a tokenizer's folder, which most of them want for their prompts."""


def _tool(python: str | None, name: str) -> str:
    return str(Path(python or "").with_name(name))


def _tokenizer(python: str | None) -> str:
    return str(Path(python or "").parent.parent.parent / TOKENIZER)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


# --- vllm bench serve ------------------------------------------------------------------------


def _vllm_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    rate = ["--request-rate", "inf" if case.rate_per_s is None else str(case.rate_per_s)]
    people = ["--max-concurrency", str(case.people)] if case.rate_per_s is None else []
    lengths = ["--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS)]
    kind = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--dataset-name", "random"]
    where = ["--base-url", _url(port), "--model", "mock", "--tokenizer", _tokenizer(python)]
    result = ["--save-result", "--result-dir", str(folder), "--result-filename", "report.txt"]
    percentiles = ["--percentile-metrics", "ttft,itl", "--metric-percentiles", "95", "--ignore-eos"]
    start = [_tool(python, "vllm"), "bench", "serve", "--num-prompts", str(case.answers)]
    return [*start, *kind, *where, *lengths, *rate, *people, *result, *percentiles]


def _vllm_report(case: Case, folder: Path) -> Report:
    return Report(None, None, None, _said(folder / "report.txt")["p95_ttft_ms"] / 1000)


# --- sglang's client in Rust -----------------------------------------------------------------


def _sglang_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    rate = ["--max-concurrency", str(case.people)]
    if case.rate_per_s is not None:
        rate = ["--request-rate", str(case.rate_per_s)]
    kind = ["--backend", "vllm-chat", "--dataset-name", "random-ids", "--random-range-ratio", "1"]
    lengths = ["--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS)]
    where = ["--base-url", _url(port), "--model", "mock", "--tokenizer", _tokenizer(python), "--worker-threads", "1"]
    result = ["--output-file", str(folder / "report.txt"), "--disable-tqdm", "--disable-retokenize", "--output-details"]
    start = [python or "", str(HERE / "sglang_rust.py"), "--num-prompts", str(case.answers)]
    return [*start, *kind, *lengths, *where, *rate, *result]


def _sglang_report(case: Case, folder: Path) -> Report:
    said = _said(folder / "report.txt")
    ttft_s = sorted(one for one in said["ttfts"] if one > 0)
    return Report(None, None, None, ttft_s[int(0.95 * len(ttft_s))])


# --- aiperf ----------------------------------------------------------------------------------


def _aiperf_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    rate = ["--concurrency", str(case.people)]
    if case.rate_per_s is not None:
        rate = ["--request-rate", str(case.rate_per_s), "--arrival-pattern", "poisson"]
    kind = ["--endpoint-type", "chat", "--streaming", "--use-server-token-count", "--model", "mock"]
    lengths = ["--isl", str(PROMPT_TOKENS), "--osl", str(TOKENS), "--extra-inputs", "ignore_eos:true"]
    where = ["--url", _url(port), "--tokenizer", _tokenizer(python)]
    quiet = ["--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"]
    result = ["--artifact-dir", str(folder / "aiperf"), "--profile-export-level", "summary"]
    start = [_tool(python, "aiperf"), "profile", "--request-count", str(case.answers), "--num-prompts", "100"]
    return [*start, *kind, *lengths, *where, *rate, *quiet, *result]


def _aiperf_report(case: Case, folder: Path) -> Report:
    said = _said(next((folder / "aiperf").rglob("profile_export_aiperf.json")))
    return Report(None, None, None, said["time_to_first_token"]["p95"] / 1000)


# --- guidellm --------------------------------------------------------------------------------


def _guidellm_command(case: Case, port: int, tools: Tools, folder: Path, python: str | None) -> list[str]:
    profile = f"kind=concurrent,streams={case.people}"
    if case.rate_per_s is not None:
        profile = f"kind=poisson,rate={case.rate_per_s}"
    backend = f"kind=openai_http,target={_url(port)},model=mock,http2=false"
    data = f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={TOKENS}"
    how = ["--profile", profile, "--backend", backend, "--data", data]
    tokens = ["--tokenizer", f"kind=huggingface_auto,model={_tokenizer(python)}"]
    until = ["--constraint", f"kind=max_requests,count={case.answers}"]
    result = ["--output", f"kind=json,path={folder / 'report.json'}", "--disable-console"]
    return [_tool(python, "guidellm"), "run", *how, *tokens, *until, *result]


def _guidellm_report(case: Case, folder: Path) -> Report:
    (benchmark,) = _said(folder / "report.json")["benchmarks"]
    waits_ms = benchmark["metrics"]["time_to_first_token_ms"]["successful"]["percentiles"]
    return Report(None, None, None, waits_ms["p95"] / 1000)


def _said(file: Path) -> Any:
    return json.loads(file.read_text())


RIVALS: dict[str, Client] = {
    "aiohttp": Client(script("stock_aiohttp"), script_report, lambda case: case.rate_per_s is None),
    "locust": Client(script("locust_people"), script_report, lambda case: case.rate_per_s is None),
    "vllm": Client(_vllm_command, _vllm_report, lambda case: case.processes == 1),
    "sglang": Client(_sglang_command, _sglang_report, lambda case: case.processes == 1),
    "aiperf": Client(_aiperf_command, _aiperf_report, lambda case: case.processes == 1),
    "guidellm": Client(_guidellm_command, _guidellm_report, lambda case: case.processes == 1),
}
"""By the name of their environment."""
