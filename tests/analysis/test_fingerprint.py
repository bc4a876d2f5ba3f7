"""Two runs measured the same thing, or what differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headcount.analysis.fingerprint import changes
from headcount.records import FORMAT_VERSION, EngineFacts, Gpu, RunFacts

ENGINE = EngineFacts(
    engine="vllm",
    address="http://a:8000",
    version="0.32.0",
    model="m",
    adapters=("x", "y"),
    context_tokens=8192,
    quantization="fp8",
    slots=128,
    kv_pool_tokens=500_000,
    metrics="prometheus",
    details={"max_num_batched_tokens": 2048, "dtype": "bfloat16", "in_vram_fraction": 0.8},
)
GPU = Gpu("GPU-1", "L4", memory_total_bytes=24_000_000_000, power_limit_w=72.0, driver="550.1")
RUN = RunFacts(
    FORMAT_VERSION, "0.1.0", "find", "2026-12-01T10:00:00+00:00", 1, ENGINE, ("ttft_p95 <= 2 s",), gpus=(GPU,)
)


def with_engine(**facts: Any) -> RunFacts:
    """The run, with other facts of its engine."""
    return replace(RUN, engine=replace(ENGINE, **facts))


def test_the_same_server_elsewhere_and_later_is_the_same() -> None:
    """Address, time, seed, notes and our own version change nothing of the answer."""
    later = replace(
        with_engine(address="http://b:9000", metrics="absent"),
        started_utc="2027-01-01T00:00:00+00:00",
        seed=2,
        headcount_version="9.9",
        notes=("something",),
        verb="run",
    )

    assert changes(RUN, later) == []


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (with_engine(version="0.33.0"), "its version changed from 0.32.0 to 0.33.0"),
        (with_engine(model="n"), "the model changed from m to n"),
        (with_engine(adapters=("x",)), "the adapters changed from x, y to x"),
        (with_engine(context_tokens=4096), "the context changed from 8192 to 4096"),
        (with_engine(quantization="awq"), "the quantization changed from fp8 to awq"),
        (with_engine(slots=64), "the slots changed from 128 to 64"),
        (with_engine(kv_pool_tokens=1), "the KV pool's tokens changed from 500000 to 1"),
        (with_engine(details={"max_num_batched_tokens": 512}), "max_num_batched_tokens changed from 2048 to 512"),
        (replace(RUN, gpus=(replace(GPU, name="L40S"),)), "the GPUs changed from L4 to L40S"),
        (replace(RUN, gpus=(GPU, replace(GPU, uuid="GPU-2"))), "the GPUs changed from L4 to L4, L4"),
        (replace(RUN, gpus=(replace(GPU, uuid="GPU-2"),)), "the GPUs are others of the same kind (L4)"),
        (replace(RUN, gpus=(replace(GPU, power_limit_w=60.0),)), "a GPU's power limit in watts changed from 72 to 60"),
        (replace(RUN, gpus=(replace(GPU, driver="560.2"),)), "a GPU's driver changed from 550.1 to 560.2"),
        (replace(RUN, slo=("errors <= 1 %",)), "the service level changed from ttft_p95 <= 2 s to errors <= 1 %"),
        (replace(RUN, simulated=True), "one of the two is simulated"),
    ],
)
def test_each_fact_that_changes_the_answer_is_named(later: RunFacts, expected: str) -> None:
    """One phrase, with what was and what is."""
    assert changes(RUN, later) == [expected]


@pytest.mark.parametrize(
    "later",
    [
        with_engine(version=None, quantization=None, slots=None, adapters=(), details={}),
        with_engine(details={**ENGINE.details, "max_loras": 4}),
        with_engine(details={"in_vram_fraction": 0.803}),
        replace(RUN, gpus=()),
        replace(RUN, gpus=(replace(GPU, power_limit_w=None, driver=None),)),
    ],
)
def test_what_one_of_them_does_not_tell_is_no_difference(later: RunFacts) -> None:
    """A server's developer mode, or a driver, may be off; and measured shares move a little."""
    assert changes(RUN, later) == []
    assert changes(later, RUN) == []


def test_two_cards_of_one_kind_with_the_same_change_are_told_once() -> None:
    """A new power limit for all of them."""
    gpus = (GPU, replace(GPU, uuid="GPU-2"))
    later = replace(RUN, gpus=tuple(replace(gpu, power_limit_w=50.0) for gpu in gpus))

    assert changes(replace(RUN, gpus=gpus), later) == ["a GPU's power limit in watts changed from 72 to 50"]


def test_lists_of_a_file_are_the_tuples_they_were() -> None:
    """Details that were read back have not changed, and those that have are told number by number."""
    kept = with_engine(details={"adapters": ("one",), "limit_factor": (0.8, 1.2)})
    read = msgspec.json.decode(msgspec.json.encode(kept), type=RunFacts)
    other = with_engine(details={"limit_factor": (0.7, 1.2)})

    assert changes(read, kept) == []
    assert changes(read, other) == ["limit_factor changed from 0.8, 1.2 to 0.7, 1.2"]
