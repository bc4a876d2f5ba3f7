"""Which engine answers at an address, by what it says and never by its port; and which ports answer on this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headcount.engine import inquiry
from headcount.errors import ServerError
from headcount.http import Client, Response, Target

__all__ = ["PORTS", "Found", "detect", "find_servers"]

PORTS = (8000, 30000, 8080, 11434, 1234, 3000, 23333, 4000, 8001, 8888)
"""Where servers of these kinds usually listen: vLLM, TensorRT-LLM and transformers; SGLang; llama.cpp, TGI and MLX;
Ollama; LM Studio; TGI; LMDeploy; LiteLLM; and second servers of the first kind."""

_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "lmdeploy": "lmdeploy",
    "tensorrt_llm": "trtllm",
    "tensorrt-llm": "trtllm",
    "library": "ollama",
}
"""``owned_by`` in ``/v1/models`` where a server names itself there."""

_PREFIXES = {b"vllm:": "vllm", b"sglang:": "sglang", b"lmdeploy:": "lmdeploy", b"tgi_": "tgi", b"llamacpp:": "llamacpp"}
"""How the names of their metrics begin."""


class Found(msgspec.Struct, frozen=True):
    """A model server on this machine."""

    url: str
    engine: str
    """A key of ``ENGINES``."""


async def detect(client: Client) -> str:
    """A key of ``ENGINES``: ``openai`` for a server that shows no sign of a kind we know.

    Raises ``ServerError`` when nothing answers.
    """
    return await _recognised(client) or "openai"


async def find_servers(ports: tuple[int, ...] = PORTS, timeout_s: float = 1.0) -> list[Found]:
    """Model servers that answer on loopback within ``timeout_s``, in the order of ``ports``."""
    found = await asyncio.gather(*(_at_port(port, timeout_s) for port in ports))
    return [server for server in found if server is not None]


async def _at_port(port: int, timeout_s: float) -> Found | None:
    client = Client(Target(url=f"http://127.0.0.1:{port}", connect_timeout_s=timeout_s))
    try:
        async with asyncio.timeout(4 * timeout_s):
            engine = await _recognised(client)
    except (ServerError, TimeoutError):
        return None
    finally:
        await client.close()
    return None if engine is None else Found(client.target.url, engine)


async def _recognised(client: Client) -> str | None:
    """The surest signs first; None for what does not even list models."""
    models = await client.get("/v1/models", inquiry.TIMEOUT_S)
    if (engine := _by_headers(models)) is not None:
        return engine
    listed = _listed(models)
    if (engine := _by_owner(listed or [])) is not None:
        return engine
    if (engine := await _by_own_pages(client)) is not None:
        return engine
    if await _is_transformers(client, models):
        return "transformers"
    return "openai" if listed is not None else None


def _by_headers(response: Response) -> str | None:
    """``Server`` is the engine's own name in llama.cpp, Python's plain server in MLX; LiteLLM marks its answers."""
    server = response.headers.get("server", "")
    if any(name.startswith("x-litellm-") for name in response.headers):
        return "litellm"
    if server == "llama.cpp":
        return "llamacpp"
    if server.startswith("BaseHTTP/") and _listed(response) is not None:
        return "mlx"
    return None


def _listed(response: Response) -> list[dict[str, Any]] | None:
    """The entries of ``/v1/models``; None when it is no such page."""
    if response.status != 200:
        return None
    try:
        said = msgspec.json.decode(response.body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    # Ollama without models says null.
    return inquiry.entries(said["data"]) if isinstance(said, dict) and "data" in said else None


def _by_owner(listed: list[dict[str, Any]]) -> str | None:
    owners = (str(model.get("owned_by", "")).lower() for model in listed)
    return next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)


async def _by_own_pages(client: Client) -> str | None:
    """Pages that only one kind of server has. They tell even where ``/v1`` is protected or empty."""
    front = await inquiry.get(client, "/")
    if front is not None and front.body.startswith(b"Ollama is running"):
        return "ollama"
    if {"docker_label", "model_id"} & set(info := inquiry.fields(await inquiry.get_json(client, "/info"))):
        return "tgi" if "max_concurrent_requests" in info else None
    own = inquiry.fields(await inquiry.get_json(client, "/api/v0/models"))
    if any("compatibility_type" in model for model in inquiry.entries(own.get("data"))):
        return "lmstudio"
    own = inquiry.fields(await inquiry.get_json(client, "/api/v1/models"))
    if any("loaded_instances" in model for model in inquiry.entries(own.get("models"))):
        return "lmstudio"
    if "max_total_num_tokens" in inquiry.fields(await inquiry.get_json(client, "/server_info")):
        return "sglang"
    metrics = await inquiry.get(client, "/metrics")
    if metrics is not None and metrics.status == 200:
        for prefix, engine in (
            (b"vllm:", "vllm"),
            (b"sglang:", "sglang"),
            (b"lmdeploy:", "lmdeploy"),
            (b"tgi_", "tgi"),
        ):
            if prefix in metrics.body:
                return engine
    return None


async def _is_transformers(client: Client, models: Response) -> bool:
    """``transformers serve`` names itself nowhere: FastAPI's health page with a request id, on uvicorn, without
    ``/version``; its list of models may fail with 500."""
    health = await inquiry.get(client, "/health")
    return (
        health is not None
        and health.status == 200
        and "x-request-id" in health.headers
        and health.headers.get("server") == "uvicorn"
        and models.status in (200, 500)
        and await inquiry.get_json(client, "/version") is None
    )
