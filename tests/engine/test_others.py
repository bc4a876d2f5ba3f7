"""The servers that were not run: pages made from their documents and sources, every fact and figure asserted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headcount.engine.litellm import LiteLlm
from headcount.engine.lmdeploy import LmDeploy
from headcount.engine.lmstudio import LmStudio
from headcount.engine.mlx import Mlx
from headcount.engine.ollama import Ollama
from headcount.engine.openai import OpenAI
from headcount.engine.sglang import Sglang
from headcount.engine.tgi import Tgi
from headcount.engine.transformers import Transformers
from headcount.engine.trtllm import TrtLlm
from headcount.errors import ServerError
from headcount.records import EngineFacts, Prompt, Reply
from tests.pages import ANSWER, MODELS, PROMPT, json_page, opened, page, recorded

NAMES = Path(__file__).parent.parent / "data" / "servers"


def facts(kind: type[OpenAI], pages: dict[str, bytes], model: str | None = None) -> EngineFacts:
    """What is known of a server of ``pages``."""

    async def main() -> EngineFacts:
        async with opened(kind, pages, model) as (engine, _):
            return await engine.facts()

    return asyncio.run(main())


def gauges(kind: type[OpenAI], pages: dict[str, bytes]) -> dict[str, float]:
    """Its figures, once its facts are known."""

    async def main() -> dict[str, float]:
        async with opened(kind, pages) as (engine, _):
            await engine.facts()
            return await engine.gauges()

    return asyncio.run(main())


def asked(kind: type[OpenAI], pages: dict[str, bytes], prompt: Prompt = PROMPT, **options: Any) -> dict[str, Any]:
    """The body of one prompt."""

    async def main() -> dict[str, Any]:
        async with opened(kind, pages, **options) as (engine, _):
            await engine.facts()
            return engine.body(prompt)

    return asyncio.run(main())


def notes(kind: type[OpenAI], pages: dict[str, bytes]) -> tuple[str, ...]:
    """What ``prepare`` notes."""

    async def main() -> tuple[str, ...]:
        async with opened(kind, {"/v1/chat/completions": ANSWER, **pages}) as (engine, _):
            return await engine.prepare(await engine.facts(), PROMPT)

    return asyncio.run(main())


def metric_names(path: str) -> set[str]:
    """The names a server's source knows; a histogram stands for its sum and its count."""
    names = {line.split("\t")[0] for line in (NAMES / path).read_text().splitlines()}
    return names | {f"{name}{end}" for name in names for end in ("_sum", "_count")}


@pytest.mark.parametrize(
    ("kind", "path"),
    [(Sglang, "sglang/metric_names_0.5.23.txt"), (LmDeploy, "lmdeploy/metric_names_0.18.0.txt")],
)
def test_every_name_in_a_table_is_in_the_source(kind: type[Sglang] | type[LmDeploy], path: str) -> None:
    """No name is invented."""
    wanted = {name for gauge in kind.meter.table.values() for name in gauge.names}

    assert wanted <= metric_names(path)


# --- SGLang ------------------------------------------------------------------------------------

SGLANG_MODELS = json_page(
    {
        "data": [
            {"id": "llama", "owned_by": "sglang", "root": "/m/llama", "parent": None, "max_model_len": 8192},
            {"id": "french", "owned_by": "sglang", "root": "/m/fr", "parent": "llama", "max_model_len": None},
        ]
    }
)
SGLANG_INFO = {
    "version": "0.5.23",
    "model_path": "/m/llama",
    "quantization": "fp8",
    "dtype": "bfloat16",
    "tp_size": 2,
    "dp_size": 2,
    "max_running_requests": None,
    "api_key": "SECRET",
    "launch_command": "python -m sglang --api-key SECRET",
    "max_total_num_tokens": 100_000,
    "internal_states": [{"effective_max_running_requests_per_dp": 48}, {"effective_max_running_requests_per_dp": 48}],
}
SGLANG_LOADS = {
    "loads": [
        {"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 1, "token_usage": 0.2},
        {"dp_rank": 1, "num_running_reqs": 5, "num_waiting_reqs": 0, "token_usage": 0.8},
    ]
}
SGLANG = {"/v1/models": SGLANG_MODELS, "/server_info": json_page(SGLANG_INFO)}


def test_sglang_facts() -> None:
    """Slots and KV pool of both data-parallel engines; nothing of its launch command."""
    found = facts(Sglang, SGLANG)

    assert (found.version, found.model, found.quantization) == ("0.5.23", "llama", "fp8")
    assert (found.adapters, found.adapter_bases) == (("french",), {"french": "llama"})
    assert (found.context_tokens, found.slots, found.kv_pool_tokens) == (8192, 96, 200_000)
    assert found.metrics == "absent"
    assert found.details == {"dtype": "bfloat16", "tp_size": 2, "dp_size": 2}
    assert "SECRET" not in repr(found)


def test_sglang_before_0_5() -> None:
    """The page's old name; the configured limit where the effective one is not told."""
    info = {"version": "0.4.6", "max_running_requests": 32, "context_length": 4096, "max_total_num_tokens": 5000}
    found = facts(Sglang, {"/v1/models": MODELS, "/get_server_info": json_page(info)})

    assert (found.version, found.slots, found.context_tokens, found.kv_pool_tokens) == ("0.4.6", 32, 4096, 5000)


def test_sglang_figures_with_and_without_metrics() -> None:
    """``/v1/loads`` stands in; nothing is noted then, and the flag is when neither is there."""
    expected = {
        "server_running_requests": 8.0,
        "server_waiting_requests": 1.0,
        "server_kv_used_fraction": 0.8,
        "server_kv_used_mean_fraction": 0.5,
    }
    metrics = (
        'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3\nsglang:num_running_reqs{dp_rank="1",tp_rank="1"} 5\n'
        'sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 1\nsglang:token_usage{dp_rank="0"} 0.2\n'
        'sglang:token_usage{dp_rank="1"} 0.8\n'
    )
    loads = {**SGLANG, "/v1/loads": json_page(SGLANG_LOADS)}

    assert gauges(Sglang, {**SGLANG, "/metrics": page(metrics)}) == expected
    assert gauges(Sglang, loads) == expected
    assert notes(Sglang, loads) == ()
    assert notes(Sglang, SGLANG) == ("the server shows no metrics at /metrics: start it with --enable-metrics",)


def test_sglang_names_an_adapter_after_its_base() -> None:
    """``base:adapter`` in the model's place."""
    assert asked(Sglang, SGLANG, Prompt(PROMPT.messages, 2, adapter="french"))["model"] == "llama:french"
    assert asked(Sglang, SGLANG)["model"] == "llama"
    assert asked(Sglang, SGLANG)["ignore_eos"] is True


# --- TGI ---------------------------------------------------------------------------------------

TGI_INFO = {
    "model_id": "org/model",
    "model_dtype": "torch.float16",
    "max_concurrent_requests": 128,
    "max_input_tokens": 4095,
    "max_total_tokens": 4096,
    "max_batch_total_tokens": 20_000,
    "max_batch_size": None,
    "version": "3.3.4",
    "docker_label": "sha-1",
}
TGI = {
    "/info": json_page(TGI_INFO),
    "/metrics": page("tgi_batch_current_size 7\ntgi_queue_size 2\ntgi_batch_current_max_tokens 15000\n"),
}


def test_tgi_facts_and_figures() -> None:
    """The batch is bounded by tokens, which are the KV pool; its use is the batch's tokens over that."""
    found = facts(Tgi, {**TGI, "/v1/models": MODELS})

    assert (found.version, found.model, found.context_tokens) == ("3.3.4", "m", 4096)
    assert (found.slots, found.kv_pool_tokens, found.metrics) == (None, 20_000, "prometheus")
    assert found.details["max_concurrent_requests"] == 128
    assert gauges(Tgi, {**TGI, "/v1/models": MODELS}) == {
        "server_running_requests": 7.0,
        "server_waiting_requests": 2.0,
        "server_batch_tokens": 15_000.0,
        "server_kv_used_fraction": 0.75,
    }


def test_an_old_tgi_without_a_list_of_models() -> None:
    """``/info`` names the one it has; without that either it is an error."""
    assert facts(Tgi, TGI).model == "org/model"
    with pytest.raises(ServerError):
        facts(Tgi, {})


def test_an_idle_tgi_has_no_figures_yet() -> None:
    """Its page is empty until there was a request: no figure, and no wrong note of a malformed page."""
    assert facts(Tgi, {**TGI, "/metrics": page("")}).metrics == "prometheus"


# --- TensorRT-LLM ------------------------------------------------------------------------------

TRT = {"/v1/models": MODELS, "/version": json_page({"version": "1.2.0"})}
TRT_METRICS = """\
trtllm_num_requests_running 6
trtllm_num_requests_waiting 3
trtllm_max_num_active_requests 64
trtllm_kv_cache_utilization 0.91
trtllm_kv_cache_max_blocks 1000
trtllm_kv_cache_tokens_per_block 32
trtllm_model_config_info{quant_algo="FP8",dtype="bfloat16",model_path="/m",hf_token="SECRET"} 1
"""
ITERATIONS = [
    {"iter": 1, "numActiveRequests": 1, "numQueuedRequests": 0},
    {
        "iter": 2,
        "numActiveRequests": 6,
        "numQueuedRequests": 3,
        "maxNumActiveRequests": 64,
        "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 910, "freeNumBlocks": 90, "tokensPerBlock": 32},
    },
]


def test_trtllm_with_prometheus_metrics() -> None:
    """At a path of their own."""
    pages = {**TRT, "/prometheus/metrics": page(TRT_METRICS)}
    found = facts(TrtLlm, pages)

    assert (found.version, found.quantization, found.slots) == ("1.2.0", "FP8", 64)
    assert (found.kv_pool_tokens, found.metrics) == (32_000, "prometheus")
    assert found.details == {"quant_algo": "FP8", "dtype": "bfloat16"}
    assert gauges(TrtLlm, pages) == {
        "server_running_requests": 6.0,
        "server_waiting_requests": 3.0,
        "server_kv_used_fraction": 0.91,
    }


def test_trtllm_with_json_metrics() -> None:
    """A list of iterations, the last of which counts; an idle server's list is empty and says nothing."""
    pages = {**TRT, "/metrics": json_page(ITERATIONS)}
    found = facts(TrtLlm, pages)

    assert (found.slots, found.kv_pool_tokens, found.metrics) == (64, 32_000, "json")
    assert gauges(TrtLlm, pages) == {
        "server_running_requests": 6.0,
        "server_waiting_requests": 3.0,
        "server_kv_used_fraction": 0.91,
    }
    assert gauges(TrtLlm, {**TRT, "/metrics": json_page([])}) == {}
    assert notes(TrtLlm, pages) == ()
    assert "return_perf_metrics" in notes(TrtLlm, TRT)[0]


# --- LMDeploy ----------------------------------------------------------------------------------


def test_lmdeploy_facts_and_figures() -> None:
    """Requests that no engine has taken yet wait too."""
    metrics = (
        'lmdeploy:backend_config{session_len="8192",max_batch_size="128",model_format="awq",tp="2"} 1\n'
        "lmdeploy:num_requests_running 5\nlmdeploy:num_requests_waiting 2\nlmdeploy:num_api_requests_waiting 4\n"
        "lmdeploy:gpu_cache_usage_perc 0.5\n"
    )
    pages = {"/v1/models": MODELS, "/metrics": page(metrics)}
    found = facts(LmDeploy, pages)

    assert (found.context_tokens, found.slots, found.quantization) == (8192, 128, "awq")
    assert found.details == {"tp": "2"}
    assert gauges(LmDeploy, pages) == {
        "server_running_requests": 5.0,
        "server_waiting_requests": 6.0,
        "server_kv_used_fraction": 0.5,
        "server_kv_used_mean_fraction": 0.5,
    }
    assert gauges(LmDeploy, {"/v1/models": MODELS}) == {}


# --- Ollama ------------------------------------------------------------------------------------

OLLAMA_MODELS = json_page(
    {"data": [{"id": "big:7b", "owned_by": "library"}, {"id": "m:latest", "owned_by": "library"}]}
)
OLLAMA_LOADED = json_page(
    {
        "models": [
            {
                "name": "m:latest",
                "model": "m:latest",
                "size": 1000,
                "size_vram": 810,
                "context_length": 4096,
                "details": {"family": "llama", "parameter_size": "8.0B", "quantization_level": "Q4_K_M"},
            }
        ]
    }
)
OLLAMA = {"/v1/models": OLLAMA_MODELS, "/api/version": json_page({"version": "0.40.1"}), "/api/ps": OLLAMA_LOADED}
OLLAMA_ANSWER = page(
    '{"message":{"role":"assistant","content":"Hi"},"done":false}\n'
    '{"message":{"role":"assistant","content":"!"},"done":false}\n'
    '{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","prompt_eval_count":9,'
    '"eval_count":2,"prompt_eval_duration":50000000,"eval_duration":20000000}\n',
    "application/x-ndjson",
)


def test_ollama_facts() -> None:
    """The loaded model is the one asked; its context is the one it was loaded with."""
    found = facts(Ollama, OLLAMA)

    assert (found.version, found.model, found.models) == ("0.40.1", "m:latest", ("big:7b", "m:latest"))
    assert (found.context_tokens, found.quantization, found.slots) == (4096, "Q4_K_M", None)
    assert found.details["in_vram_fraction"] == 0.81
    assert (found.metrics, found.details["model_bytes"]) == ("absent", 1000)


def test_ollama_is_made_to_load_a_model() -> None:
    """An empty request loads it; what cannot be loaded is an error before anything is measured."""

    async def main() -> list[Any]:
        async with opened(Ollama, {**OLLAMA, "/api/generate": json_page({"done": True})}, "big:7b") as (engine, server):
            await engine.facts()
            return server.bodies("/api/generate")

    assert asyncio.run(main()) == [{"model": "big:7b", "stream": False}]
    with pytest.raises(ServerError, match="cannot load 'none'"):
        facts(Ollama, OLLAMA, "none")


def test_ollama_is_asked_by_its_own_api() -> None:
    """Length and temperature are options there; OpenAI's API remains to be chosen."""
    assert asked(Ollama, OLLAMA, temperature=0.5) == {
        "messages": PROMPT.messages,
        "model": "m:latest",
        "stream": True,
        "options": {"num_predict": 2, "temperature": 0.5},
    }
    assert asked(Ollama, OLLAMA, body={"options": {"num_ctx": 8192}})["options"] == {"num_predict": 2, "num_ctx": 8192}
    assert asked(Ollama, OLLAMA, api="chat")["max_tokens"] == 2


def test_ollamas_own_durations_are_kept() -> None:
    """Server truth beside the client's figures; usage from the last line; what stays invisible is noted."""

    async def main() -> tuple[tuple[str, ...], Reply]:
        async with opened(Ollama, {**OLLAMA, "/api/chat": OLLAMA_ANSWER}) as (engine, _):
            said = await engine.prepare(await engine.facts(), PROMPT)
            reply = Reply()
            await engine.send(PROMPT, reply)
            return said, reply

    said, reply = asyncio.run(main())

    assert (reply.error, reply.prompt_tokens, reply.output_tokens) == (None, 9, 2)
    assert reply.server == {"prefill_s": 0.05, "decode_s": 0.02}
    assert any("OLLAMA_NUM_PARALLEL" in note for note in said)
    assert any("only 81% of the model is in video memory" in note for note in said)


# --- LM Studio, transformers, MLX, LiteLLM -----------------------------------------------------


def test_lmstudio_by_its_newer_api() -> None:
    """A loaded instance is asked, with its own context and parallelism."""
    models = [
        {"key": "other", "loaded_instances": [], "max_context_length": 4096, "quantization": {"name": "Q8_0"}},
        {
            "key": "org/m",
            "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
            "max_context_length": 131072,
            "loaded_instances": [
                {"id": "m", "config": {"context_length": 8192, "parallel": 4, "flash_attention": True}}
            ],
        },
    ]
    listed = json_page({"data": [{"id": "other"}, {"id": "m"}]})
    found = facts(LmStudio, {"/v1/models": listed, "/api/v1/models": json_page({"models": models})})

    assert (found.model, found.context_tokens, found.quantization, found.slots) == ("m", 8192, "Q4_K_M", 4)
    assert found.details == {"max_context_length": 131072, "flash_attention": True}


def test_lmstudio_by_its_older_api() -> None:
    """Before 0.4; a model that is not loaded has no context yet."""
    models = [
        {"id": "a", "state": "not-loaded", "max_context_length": 4096, "quantization": "4bit"},
        {"id": "b", "state": "loaded", "loaded_context_length": 2048, "quantization": "Q4_0", "arch": "llama"},
    ]
    pages = {
        "/v1/models": json_page({"data": [{"id": "a"}, {"id": "b"}]}),
        "/api/v0/models": json_page({"data": models}),
    }

    assert (facts(LmStudio, pages).model, facts(LmStudio, pages).context_tokens) == ("b", 2048)
    assert (facts(LmStudio, pages, "a").context_tokens, facts(LmStudio, pages, "a").quantization) == (None, "4bit")
    assert "neither its queue" in notes(LmStudio, pages)[0]


def test_transformers_serve_as_recorded() -> None:
    """It lists nothing, so the model must be named; unknown fields would be refused, so none is sent."""
    pages = {
        "/v1/models": recorded("transformers/idle_v1_models"),
        "/metrics": recorded("transformers/idle_metrics"),
        "/v1/chat/completions": recorded("transformers/sse_cb_usage"),
    }
    named = facts(Transformers, pages, "tiny")

    assert (named.engine, named.model, named.context_tokens, named.slots) == ("transformers", "tiny", None, None)
    for listing in ("transformers/idle_v1_models", "transformers/idle_v1_models_with_cache_dir"):
        with pytest.raises(ServerError):
            facts(Transformers, {**pages, "/v1/models": recorded(listing)})
    assert "ignore_eos" not in asked(Transformers, {**pages, "/v1/models": MODELS})
    assert any("neither its queue" in note for note in notes(Transformers, {**pages, "/v1/models": MODELS}))


def test_mlx_and_litellm_say_what_stays_invisible() -> None:
    """Nothing but models; a proxy's version is in its headers."""
    proxied = {"/v1/models": json_page({"data": [{"id": "m"}]}, headers="x-litellm-version: 1.93.0\r\n")}

    assert facts(Mlx, {"/v1/models": MODELS}).engine == "mlx"
    assert "--decode-concurrency" in notes(Mlx, {"/v1/models": MODELS})[0]
    assert facts(LiteLlm, proxied).version == "1.93.0"
    assert "proxy" in notes(LiteLlm, proxied)[0]
    assert gauges(Mlx, {"/v1/models": MODELS}) == gauges(LiteLlm, proxied) == {}
