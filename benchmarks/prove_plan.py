"""A plan proved on a real LiteLLM proxy before two simulated servers as fast as the published 8B and 32B.

    python3 -m venv litellm && litellm/bin/pip install 'litellm[proxy]'
    python benchmarks/prove_plan.py --litellm litellm/bin/litellm

Five cases, each with the exit code it must have: the configuration as it was written; the same without its caps; a
wrong key; a server that is gone; caps of one request, so that the queue is full with the people planned for. The proxy
needs about a core; the answers come in pieces of many tokens, so that it is not the proxy which is measured.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).parent
HEADCOUNT = [sys.executable, "-m", "headcount"]
SPEEDS = {
    # Fitted to the published rows by headcount.deployment.from_figures: a step, and what each answer in it adds.
    "Qwen3-8B-AWQ": {"weights_s": 0.00706, "sequence_s": 0.000219, "output_share": 0.65},
    "Qwen3-32B-AWQ": {"weights_s": 0.0172, "sequence_s": 0.000575, "output_share": 0.75},
}
PIECES = {"tokens_per_chunk": 40, "output_spread": 0.3, "slots": 256, "kv_pool_tokens": 4_000_000}
NOTHING_ELSE = dict.fromkeys(("overhead_s", "token_s", "context_token_s", "pair_s"), 0)
MASTER_KEY = "sk-proof"
STARTS_WITHIN_S = 300


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def key_variable(model: str) -> str:
    """As the plan names it."""
    return re.sub(r"[^A-Z0-9]+", "_", model.upper()) + "_API_KEY"


def runs(folder: Path) -> list[str]:
    """The published rows as run folders."""
    tables = tomllib.loads((HERE / "published.toml").read_text())["model"]
    paths = []
    for model in SPEEDS:
        text = io.StringIO()
        table = csv.writer(text)
        table.writerow(["users", "model", "e2e_p50_s", "e2e_p95_s", "output_tokens_per_s"])
        for row in tables[model]["rows"]:
            table.writerow([row["users"], model, row["median_s"], row["p95_s"], row["output_tokens_per_s"]])
        file = folder / f"{model}.csv"
        file.write_text(text.getvalue())
        made = subprocess.run(
            [*HEADCOUNT, "import", str(file), "--slo", "whole", "--out", str(folder / model)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        paths.append(made.stdout.strip())
    return paths


@contextmanager
def started(command: list[str], url: str, log: Path, environment: dict[str, str]) -> Iterator[None]:
    """A server that answers at ``url``, and its end."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environment})
    try:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < until_s and process.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=2).close()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.3)
        else:
            raise SystemExit(f"{command[0]} did not start, see {log}")
        yield
    finally:
        process.terminate()
        process.wait(30)


def mock(model: str, port: int) -> list[str]:
    """The command that serves a published model's speed."""
    options = {**SPEEDS[model], **PIECES, **NOTHING_ELSE, "server": "workstation"}
    return [
        *HEADCOUNT, "mock", "--port", str(port), "--model", model, "--api-key", f"key-{port}",
        *(f"{name}={value}" for name, value in options.items()),
    ]  # fmt: skip


class Bench:
    """Two servers, a plan for them, and a proxy that is started anew for each case."""

    def __init__(self, folder: Path, litellm: str, people: int, level_time: str) -> None:
        self.folder = folder
        self.litellm = litellm
        self.ports = {model: free_port() for model in SPEEDS}
        self.keys = {key_variable(model): f"key-{port}" for model, port in self.ports.items()}
        servers = [f"--server={model}=http://127.0.0.1:{port}" for model, port in self.ports.items()]
        self.plan = [*HEADCOUNT, "plan", *runs(folder), "--people", str(people), *servers]
        self.level_time = level_time
        subprocess.run([*self.plan, "--write", str(folder)], check=True)

    def case(self, name: str, expected: int, config: str, key: str = MASTER_KEY, without: str = "") -> bool:
        """One proof; prints what it said."""
        print(f"\n== {name}: exit {expected} expected", flush=True)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        file = self.folder / "used.yaml"
        file.write_text(config)
        environment = {**self.keys, "LITELLM_MASTER_KEY": MASTER_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        proxy = [self.litellm, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        with ExitStack() as stack:
            for model, at in self.ports.items():
                if model != without:
                    log = self.folder / f"{model}.log"
                    stack.enter_context(started(mock(model, at), f"http://127.0.0.1:{at}/v1/models", log, {}))
            stack.enter_context(started(proxy, f"{url}/health/liveliness", self.folder / "litellm.log", environment))
            proved = subprocess.run(
                [*self.plan, "--verify", url, "--api-key", key, "--level-time", self.level_time,
                 "--out", str(self.folder / "proofs")],
                env={**os.environ, **self.keys}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        print(proved.stdout or proved.stderr, flush=True)
        right = proved.returncode == expected and "Traceback" not in proved.stderr
        print(f"{'as it should' if right else 'WRONG'}: exit {proved.returncode}", flush=True)
        return right


def main() -> int:
    """Every case; exit code 1 when one does not end as it must."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", default=shutil.which("litellm"), help="the proxy's program")
    parser.add_argument("--people", type=int, default=25)
    parser.add_argument("--level-time", default="45s")
    asked = parser.parse_args()
    if not asked.litellm:
        parser.error("litellm is not on the path; name it with --litellm")
    with tempfile.TemporaryDirectory(prefix="headcount-plan-") as folder:
        bench = Bench(Path(folder), asked.litellm, asked.people, asked.level_time)
        config = (Path(folder) / "config.yaml").read_text()
        without_caps = re.sub(r"(?m)^ +max_parallel_requests: .*\n", "", config)
        full = re.sub(r"max_parallel_requests: \d+", "max_parallel_requests: 1", config)
        results = [
            bench.case("as written", 0, config),
            bench.case("without caps", 1, without_caps),
            bench.case("a wrong key", 3, config, key="sk-wrong"),
            bench.case("a server that is gone", 3, config, without="Qwen3-32B-AWQ"),
            bench.case("a full queue", 1, full),
        ]
    print(f"\n{sum(results)} of {len(results)} ended as they must")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
