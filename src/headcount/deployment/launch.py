"""Launch lines of a plan's servers: vLLM, SGLang, llama.cpp and Ollama, each with the plan's sizes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from headcount.deployment.capacity import Measured
from headcount.deployment.places import Place
from headcount.http.target import parse_url

__all__ = ["LAUNCHES", "keys_file", "launch_script"]

_CONTEXT_TOKENS = 8192
"""Where the run does not know: room for an ordinary chat's history."""


def _vllm(place: Place, context_tokens: int, port: int) -> str:
    """vLLM's; its prefix cache is on by default."""
    return (
        f"vllm serve {shlex.quote(place.name)} --max-num-seqs {place.cap_requests} "
        f'--max-model-len {context_tokens} --api-key "${place.key_variable}" --port {port}'
    )


def _sglang(place: Place, context_tokens: int, port: int) -> str:
    """SGLang's; its radix cache is on by default."""
    return (
        f"python -m sglang.launch_server --model-path {shlex.quote(place.name)} "
        f"--served-model-name {shlex.quote(place.name)} --max-running-requests {place.cap_requests} "
        f'--context-length {context_tokens} --api-key "${place.key_variable}" --port {port} --enable-metrics'
    )


def _llamacpp(place: Place, context_tokens: int, port: int) -> str:
    """llama.cpp's; ``-c`` is shared out between its slots."""
    return (
        f"llama-server -m {shlex.quote(place.name + '.gguf')} --alias {shlex.quote(place.name)} "
        f"--parallel {place.cap_requests} -c {place.cap_requests * context_tokens} "
        f'--api-key "${place.key_variable}" --port {port} --metrics'
    )


def _ollama(place: Place, context_tokens: int, port: int) -> str:
    """Ollama's; it has no keys, so it must not be reachable by others than the gateway."""
    return (
        f"OLLAMA_NUM_PARALLEL={place.cap_requests} OLLAMA_CONTEXT_LENGTH={context_tokens} OLLAMA_KEEP_ALIVE=-1 "
        f"OLLAMA_HOST=127.0.0.1:{port} ollama serve"
    )


LAUNCHES: dict[str, Callable[[Place, int, int], str]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "llamacpp": _llamacpp,
    "ollama": _ollama,
}


def launch_script(places: Sequence[Place], measured: Sequence[Measured]) -> str:
    """A shell script with one function for each server and engine: ``sh launch.sh qwen3_8b_1_vllm``. The engine that
    was measured stands first."""
    facts = {each.name: each.facts for each in measured}
    lines = [
        "#!/bin/sh",
        "# sh launch.sh NAME     starts one server of the plan; keys come from the environment, see keys.env",
        "# Concurrency is the plan's cap: the server refuses to run what the gateway ought not to let through.",
    ]
    for place in places:
        engine = facts[place.name].engine
        context_tokens = engine.context_tokens or _CONTEXT_TOKENS
        port = parse_url(place.url).port
        order = sorted(LAUNCHES, key=lambda name, known=engine.engine: name != known)  # type: ignore[misc]
        for name in order:
            note = "   # as measured" if name == engine.engine else ""
            line = LAUNCHES[name](place, context_tokens, port)
            lines += ["", f"{place.label}_{name}() {{{note}", f"    {line}", "}"]
    names = " ".join(f"{place.label}_{name}" for place in places for name in LAUNCHES)
    lines += [
        "",
        f'case " {names} " in',
        '*" ${1:-none} "*) "$1" ;;',
        f'*) echo "sh launch.sh NAME, one of: {names}" >&2; exit 2 ;;',
        "esac",
    ]
    return "\n".join(lines) + "\n"


def keys_file(places: Sequence[Place]) -> str:
    """Every environment variable that the other files read, without a value."""
    names = dict.fromkeys(["LITELLM_MASTER_KEY", "GATEWAY_API_KEY", *(place.key_variable for place in places)])
    return (
        "\n".join(
            [
                "# The keys that the other files read from the environment. Fill them in, keep this file to yourself:",
                "#   set -a; . ./keys.env; set +a",
                *(f"{name}=" for name in names),
            ]
        )
        + "\n"
    )
