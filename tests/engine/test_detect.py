"""Which engine answers, by what it says."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from headcount.engine import ENGINES, engine_class
from headcount.engine.detect import Found, detect, find_servers
from headcount.errors import ServerError
from headcount.http import Client, Target
from tests.pages import MODELS, Pages, json_page, page, recorded


def named(owner: str) -> bytes:
    """A list of one model of ``owner``."""
    return json_page({"object": "list", "data": [{"id": "m", "owned_by": owner}]})


SERVERS: list[tuple[str, dict[str, bytes]]] = [
    ("vllm", {"/v1/models": recorded("vllm/idle_v1_models")}),
    (
        "vllm",
        {"/v1/models": recorded("vllm/apikey_noauth_v1_models"), "/metrics": recorded("vllm/idle_metrics")},
    ),
    ("llamacpp", {"/v1/models": recorded("llamacpp/idle_v1_models")}),
    ("llamacpp", {"/v1/models": named("llamacpp")}),
    ("sglang", {"/v1/models": named("sglang")}),
    ("sglang", {"/v1/models": json_page({"data": []}), "/server_info": json_page({"max_total_num_tokens": 5})}),
    ("trtllm", {"/v1/models": named("tensorrt_llm")}),
    ("lmdeploy", {"/v1/models": named("lmdeploy")}),
    ("ollama", {"/v1/models": named("library")}),
    ("ollama", {"/v1/models": json_page({"object": "list", "data": None}), "/": page("Ollama is running")}),
    ("tgi", {"/info": json_page({"model_id": "m", "docker_label": None, "max_concurrent_requests": 128})}),
    ("tgi", {"/v1/models": MODELS, "/metrics": page("tgi_queue_size 0\n")}),
    (
        "lmstudio",
        {
            "/v1/models": named("organization_owner"),
            "/api/v0/models": json_page({"data": [{"compatibility_type": "gguf"}]}),
        },
    ),
    (
        "lmstudio",
        {
            "/v1/models": named("organization_owner"),
            "/api/v1/models": json_page({"models": [{"loaded_instances": []}]}),
        },
    ),
    ("mlx", {"/v1/models": json_page({"data": [{"id": "m"}]}, headers="Server: BaseHTTP/0.6 Python/3.12.1\r\n")}),
    ("litellm", {"/v1/models": json_page({"data": []}, headers="x-litellm-version: 1.93.0\r\n")}),
    (
        "transformers",
        {
            "/v1/models": recorded("transformers/idle_v1_models"),
            "/health": recorded("transformers/idle_health"),
            "/version": recorded("transformers/idle_version"),
        },
    ),
    (
        "transformers",
        {
            "/v1/models": recorded("transformers/idle_v1_models_with_cache_dir"),
            "/health": recorded("transformers/idle_health"),
        },
    ),
    ("openai", {"/v1/models": MODELS}),
    ("openai", {"/v1/models": MODELS, "/health": page("ok"), "/info": json_page({"name": "gateway"})}),
    ("openai", {}),
]


@pytest.mark.parametrize(("engine", "pages"), SERVERS)
def test_each_server_is_known_by_what_it_says(engine: str, pages: dict[str, bytes]) -> None:
    """Recorded pages, and those that documents and sources promise; plain OpenAI for anything else."""

    async def main() -> str:
        async with Pages(pages) as server:
            client = Client(Target(url=server.url))
            found = await detect(client)
            await client.close()
            return found

    assert asyncio.run(main()) == engine


def test_every_engine_can_be_made() -> None:
    """Each row of the table names a class that bears the row's name."""
    assert {name: engine_class(name).name for name in ENGINES} == {name: name for name in ENGINES}


def test_nobody_there_is_an_error() -> None:
    """Nothing is guessed of a server that does not answer."""

    async def main() -> str:
        return await detect(Client(Target(url="http://127.0.0.1:1")))

    with pytest.raises(ServerError):
        asyncio.run(main())


def test_servers_on_this_machine_are_found() -> None:
    """Those that list models, in the order of the ports; not a web page, a silent port, or one of nobody."""

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        writer.close()

    async def main() -> tuple[list[Found], list[Found]]:
        async with (
            Pages({"/v1/models": recorded("vllm/idle_v1_models")}) as vllm,
            Pages({"/": page("<html>", "text/html"), "/v1/models": page("<html>", "text/html")}) as web,
            Pages({"/v1/models": MODELS}) as plain,
        ):
            mute = await asyncio.start_server(silent, "127.0.0.1", 0)
            ports = (1, port(plain), port(web), port(vllm), int(mute.sockets[0].getsockname()[1]))
            found = await find_servers(ports, timeout_s=0.3)
            mute.close()
            return found, [Found(plain.url, "openai"), Found(vllm.url, "vllm")]

    found, expected = asyncio.run(main())

    assert found == expected


def port(server: Pages) -> int:
    """Where it listens."""
    return int(server.url.rpartition(":")[2])
