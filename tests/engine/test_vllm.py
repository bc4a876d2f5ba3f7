"""vLLM, replayed: what it tells of itself, how it is asked, what its metrics become."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headcount.engine.vllm import Vllm
from headcount.records import EngineFacts, Prompt, Reply
from tests.pages import ANSWER, MISSING, PROMPT, json_page, opened, page, recorded

PLAIN = {
    "/v1/models": recorded("vllm/idle_v1_models"),
    "/version": recorded("vllm/idle_version"),
    "/metrics": recorded("vllm/idle_metrics"),
    "/server_info": recorded("vllm/nodev_smallkv_server_info"),
    "/v1/chat/completions": ANSWER,
}
DEVELOPER = {**PLAIN, "/server_info": recorded("vllm/idle_server_info_json")}
ADAPTERS = ("lora0", "lora1", "lora2", "lora3", "lora4")


def facts(pages: dict[str, bytes], **options: Any) -> EngineFacts:
    """What is known of a server of ``pages``."""

    async def main() -> EngineFacts:
        async with opened(Vllm, pages, **options) as (engine, _):
            return await engine.facts()

    return asyncio.run(main())


def gauges(metrics: bytes) -> dict[str, float]:
    """What becomes of a page of metrics."""

    async def main() -> dict[str, float]:
        async with opened(Vllm, {**PLAIN, "/metrics": metrics}) as (engine, _):
            return await engine.gauges()

    return asyncio.run(main())


def prepared(pages: dict[str, bytes], prompt: Prompt = PROMPT) -> tuple[tuple[str, ...], list[Any]]:
    """The notes of ``prepare``, and every body that was sent."""

    async def main() -> tuple[tuple[str, ...], list[Any]]:
        async with opened(Vllm, pages) as (engine, server):
            known = await engine.facts()
            notes = await engine.prepare(known, prompt)
            return notes, server.bodies("/v1/chat/completions")

    return asyncio.run(main())


def test_a_developers_server_tells_everything() -> None:
    """With ``VLLM_SERVER_DEV_MODE=1``: also slots, and the scheduler's limits by their own names."""
    found = facts(DEVELOPER)

    assert found.engine == "vllm"
    assert found.version == "0.32.0"
    assert found.model == "tiny-qwen3"
    assert found.models == ("tiny-qwen3",)
    assert found.adapters == ADAPTERS
    assert found.adapter_bases == dict.fromkeys(ADAPTERS, "tiny-qwen3")
    assert found.context_tokens == 2048
    assert found.quantization is None
    assert found.slots == 8
    assert found.kv_pool_tokens == 2_097_152
    assert found.metrics == "prometheus"
    assert found.details["max_num_batched_tokens"] == 2048
    assert found.details["max_loras"] == 4
    assert found.details["tensor_parallel_size"] == 1
    assert found.details["enable_prefix_caching"] == "True"
    assert "max_num_queued_reqs" not in found.details


def test_an_ordinary_server_keeps_its_slots_to_itself() -> None:
    """Without developer mode slots and quantization are unknown, never guessed; the KV pool is told by the metrics."""
    found = facts(PLAIN)

    assert (found.slots, found.quantization) == (None, None)
    assert found.kv_pool_tokens == 2_097_152
    assert found.version == "0.32.0"


def test_adapters_loaded_since_are_seen() -> None:
    """The list as it is now."""
    assert facts({**PLAIN, "/v1/models": recorded("vllm/models_after_lora_swap")}).adapters == (
        "lora0",
        "lora1",
        "lora2",
        "lora3",
        "lora4b",
    )


def test_an_old_servers_pool_is_blocks_times_their_size() -> None:
    """Before the tokens were told; two engines have two pools; an unknown version is no hindrance."""
    metrics = (
        'vllm:cache_config_info{engine="0",num_gpu_blocks="100",block_size="16"} 1.0\n'
        'vllm:cache_config_info{engine="1",num_gpu_blocks="50",block_size="16"} 1.0\n'
    )
    found = facts({**PLAIN, "/metrics": page(metrics), "/version": json_page({"version": "99.0.dev1+g1234"})})

    assert found.kv_pool_tokens == 2400
    assert found.details["engines"] == 2
    assert found.version == "99.0.dev1+g1234"


def test_slots_of_data_parallel_engines_add_up() -> None:
    """Each has its own scheduler."""
    config = {"scheduler_config": {"max_num_seqs": 128}, "parallel_config": {"data_parallel_size": 2}}

    assert facts({**PLAIN, "/server_info": json_page({"vllm_config": config})}).slots == 256


def test_no_secret_gets_into_the_facts() -> None:
    """The server's whole configuration passes by; only fields asked for by name are kept."""
    config = {"model_config": {"hf_token": "hf_SECRET", "dtype": "bfloat16"}, "instance_id": "SECRET"}
    said = {"vllm_config": config, "vllm_env": {"VLLM_API_KEY": "SECRET"}}

    found = facts({**PLAIN, "/server_info": json_page(said)})

    assert found.details["dtype"] == "bfloat16"
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize(
    ("metrics", "state"),
    [(MISSING, "absent"), (page("", status=401), "protected"), (page("<html>"), "malformed")],
)
def test_facts_go_on_without_metrics(metrics: bytes, state: str) -> None:
    """Absent, protected or malformed: said so, and the rest is known."""
    found = facts({**PLAIN, "/metrics": metrics})

    assert (found.metrics, found.kv_pool_tokens, found.version) == (state, None, "0.32.0")


def test_answers_that_are_no_json_leave_facts_unknown() -> None:
    """A page of something else at every path but the models'."""
    found = facts({**PLAIN, "/version": page("<html>"), "/server_info": json_page([1, 2]), "/metrics": MISSING})

    assert (found.version, found.slots, found.details) == (None, None, {})


def test_an_idle_servers_figures() -> None:
    """Every figure is there and 0; no adapter was ever asked for."""
    assert gauges(recorded("vllm/idle_metrics")) == dict.fromkeys(
        (
            "server_running_requests",
            "server_waiting_requests",
            "server_kv_used_fraction",
            "server_kv_used_mean_fraction",
            "server_preemptions_total",
            "server_rejections_total",
            "server_prompt_tokens_total",
            "server_output_tokens_total",
            "server_cache_hit_tokens_total",
            "server_cache_query_tokens_total",
            "server_ttft_s_total",
            "server_ttft_requests_total",
            "server_queue_s_total",
        ),
        0.0,
    )


def test_a_server_with_five_adapters_under_load() -> None:
    """The adapters in use are those of the latest series, not of all that ever were."""
    found = gauges(recorded("vllm/lora5_load_metrics"))

    assert found["server_running_requests"] == 14.0
    assert found["server_waiting_requests"] == 2.0
    assert found["server_adapters_in_use"] == 4.0
    assert found["server_kv_used_fraction"] == pytest.approx(0.000854544)
    assert found["server_ttft_requests_total"] > 0


def test_a_server_short_of_memory() -> None:
    """A full KV cache, a queue, preemptions."""
    queued = gauges(recorded("vllm/smallkv_40users_metrics_1"))
    preempted = gauges(recorded("vllm/smallkv_8users_preempt_metrics"))

    assert queued["server_waiting_requests"] > queued["server_running_requests"] > 0
    assert queued["server_kv_used_fraction"] == pytest.approx(32 / 39)
    assert (queued["server_preemptions_total"], preempted["server_preemptions_total"]) == (28.0, 0.0)


@pytest.mark.parametrize(
    ("name", "expected"), [("vllm:gpu_cache_usage_perc", 0.42), ("vllm:kv_cache_usage_perc", 0.42), ("vllm:x", None)]
)
def test_a_renamed_metric_is_found(name: str, expected: float | None) -> None:
    """Under the old name, under the new one; under neither the figure is absent."""
    assert gauges(page(f'{name}{{engine="0"}} 0.42\n')).get("server_kv_used_fraction") == expected


def test_every_request_asks_alike() -> None:
    """The planned length is really generated; usage is asked for; the adapter takes the model's place."""
    notes, bodies = prepared(PLAIN, Prompt(PROMPT.messages, 2, adapter="lora1"))

    assert notes == ()
    assert bodies == [
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 2,
            "model": "lora1",
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
        }
    ]


def test_missing_metrics_are_noted_with_the_flag() -> None:
    """One note, after an answer was had."""
    notes, _ = prepared({**PLAIN, "/metrics": MISSING})

    assert notes == ("the server shows no metrics at /metrics: start it without --disable-log-stats",)


def test_a_full_queue_inside_a_good_status_is_an_error() -> None:
    """Recorded: HTTP 200, a stream, and in it an error object with code 503."""

    async def main() -> Reply:
        pages = {**PLAIN, "/v1/chat/completions": recorded("vllm/err_queue_full_IN_STREAM_http200")}
        async with opened(Vllm, pages, model="tiny-qwen3") as (engine, _):
            reply = Reply()
            await engine.send(PROMPT, reply)
            return reply

    reply = asyncio.run(main())

    assert (reply.status, reply.error) == (200, "server_error")
    assert "cannot accept new requests" in (reply.error_text or "")
    assert reply.chunk_at_s == []
