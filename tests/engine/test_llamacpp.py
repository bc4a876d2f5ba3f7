"""llama.cpp's server, replayed: its slots, its adapters, its metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headcount.engine.llamacpp import LlamaCpp
from headcount.errors import ServerError
from headcount.records import EngineFacts, Prompt
from tests.pages import ANSWER, MISSING, PROMPT, json_page, opened, page, recorded

IDLE = {
    "/v1/models": recorded("llamacpp/idle_v1_models"),
    "/props": recorded("llamacpp/idle_props"),
    "/slots": recorded("llamacpp/idle_slots"),
    "/metrics": recorded("llamacpp/idle_metrics"),
    "/lora-adapters": json_page([]),
    "/v1/chat/completions": ANSWER,
}
BUSY = {
    **IDLE,
    "/props": recorded("llamacpp/overload8on2_props"),
    "/slots": recorded("llamacpp/overload8on2_slots"),
    "/metrics": recorded("llamacpp/overload8on2_metrics"),
}
ADAPTED = {**IDLE, "/lora-adapters": recorded("llamacpp/idle_lora-adapters")}


def facts(pages: dict[str, bytes]) -> EngineFacts:
    """What is known of a server of ``pages``."""

    async def main() -> EngineFacts:
        async with opened(LlamaCpp, pages) as (engine, _):
            return await engine.facts()

    return asyncio.run(main())


def gauges(pages: dict[str, bytes]) -> dict[str, float]:
    """Its figures."""

    async def main() -> dict[str, float]:
        async with opened(LlamaCpp, pages) as (engine, _):
            return await engine.gauges()

    return asyncio.run(main())


def asked(pages: dict[str, bytes], *prompts: Prompt, **options: Any) -> tuple[tuple[str, ...], list[Any]]:
    """The notes of ``prepare`` with the first prompt, and the body of each prompt."""

    async def main() -> tuple[tuple[str, ...], list[Any]]:
        async with opened(LlamaCpp, pages, **options) as (engine, _):
            notes = await engine.prepare(await engine.facts(), prompts[0])
            return notes, [engine.body(prompt) for prompt in prompts]

    return asyncio.run(main())


def test_facts_of_an_idle_server() -> None:
    """Four slots of 1,024 tokens; whether they share one cache is not told, so the pool is unknown."""
    found = facts(IDLE)

    assert found.engine == "llamacpp"
    assert found.version == "b0-unknown"
    assert (found.model, found.models) == ("smollm2", ("smollm2",))
    assert (found.context_tokens, found.slots, found.kv_pool_tokens) == (1024, 4, None)
    assert found.quantization == "Q4_1"
    assert found.metrics == "prometheus"
    assert found.adapters == ()
    assert found.details == {
        "n_ctx_train": 8192,
        "n_params": 134515008,
        "model_file": "SmolLM2-135M-Instruct.Q4_1.gguf",
    }


def test_facts_without_the_properties() -> None:
    """A server that hides ``/props``: context and quantization from the models' page, slots unknown."""
    found = facts({**IDLE, "/props": MISSING})

    assert (found.context_tokens, found.quantization, found.slots, found.version) == (1024, "Q4_1", None, None)


def test_adapters_have_their_files_names() -> None:
    """Each belongs to the one base there is."""
    found = facts(ADAPTED)

    assert found.adapters == ("lora0", "lora1", "lora2")
    assert found.adapter_bases == dict.fromkeys(found.adapters, "smollm2")


def test_an_overloaded_servers_figures() -> None:
    """Two slots run, four requests are deferred; what was asked of the cache is computed and cached tokens together."""
    assert gauges(BUSY) == {
        "server_running_requests": 2.0,
        "server_waiting_requests": 4.0,
        "server_prompt_tokens_total": 176.0,
        "server_output_tokens_total": 128.0,
        "server_cache_hit_tokens_total": 52.0,
        "server_cache_query_tokens_total": 228.0,
        "server_prefill_s_total": 1.34701,
        "server_decode_s_total": 4.76328,
    }


def test_slots_stand_in_for_missing_metrics() -> None:
    """Without ``--metrics``: how many run is still known, the queue is not."""
    assert gauges({**BUSY, "/metrics": MISSING}) == {"server_running_requests": 2.0}
    assert gauges({**IDLE, "/metrics": MISSING}) == {"server_running_requests": 0.0}
    assert gauges({**IDLE, "/metrics": MISSING, "/slots": MISSING}) == {}


def test_an_older_builds_name_is_found() -> None:
    """Builds that still told the KV cache's use."""
    assert gauges({**IDLE, "/metrics": page("llamacpp:kv_cache_usage_ratio 0.5\n")}) == {"server_kv_used_fraction": 0.5}


def test_a_request_without_adapters() -> None:
    """Nothing is said of adapters and caching."""
    notes, (body,) = asked(IDLE, PROMPT)

    assert body["ignore_eos"] is True
    assert {"lora", "cache_prompt"} & set(body) == set()
    assert not any("metrics" in note for note in notes)


def test_every_request_to_a_server_with_adapters_names_all_of_them() -> None:
    """One at full scale, or none, the same shape each time; no cache, which would mix them up; noted."""
    notes, (with_one, with_none) = asked(ADAPTED, Prompt(PROMPT.messages, 2, adapter="lora1"), PROMPT)

    assert with_one["model"] == with_none["model"] == "smollm2"
    assert [entry["scale"] for entry in with_one["lora"]] == [0.0, 1.0, 0.0]
    assert [entry["scale"] for entry in with_none["lora"]] == [0.0, 0.0, 0.0]
    assert [entry["id"] for entry in with_one["lora"]] == [0, 1, 2]
    assert with_one["cache_prompt"] is with_none["cache_prompt"] is False
    assert with_one.keys() == with_none.keys()
    assert any("cache" in note for note in notes)


def test_what_the_user_adds_comes_last() -> None:
    """A field of the scenario wins over ours."""
    _, (body,) = asked(ADAPTED, PROMPT, body={"cache_prompt": True})

    assert body["cache_prompt"] is True


def test_an_adapter_nobody_has_is_refused_before_measuring() -> None:
    """The server itself would answer with the base model and say nothing."""
    with pytest.raises(ServerError, match="no adapter 'lora9'") as caught:
        asked(ADAPTED, Prompt(PROMPT.messages, 2, adapter="lora9"))

    assert caught.value.hint == "it has: lora0, lora1, lora2"


def test_missing_metrics_are_noted_with_the_flag() -> None:
    """One note."""
    notes, _ = asked({**IDLE, "/metrics": MISSING}, PROMPT)

    assert "the server shows no metrics at /metrics: start it with --metrics" in notes
