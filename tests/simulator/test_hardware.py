"""The catalogue agrees with what is published of each model, and constants follow from datasheets."""

import random
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from headcount.errors import ScenarioError
from headcount.simulator.catalogue import find_gpu, find_model, find_quantization, model_from_config
from headcount.simulator.hardware import Efficiency, cost_of, memory_of

CATALOGUE: dict[str, Any] = tomllib.loads(files("headcount.simulator").joinpath("catalogue.toml").read_text())


@pytest.mark.parametrize("name", CATALOGUE["model"])
def test_parameters_counted_equal_parameters_published(name: str) -> None:
    """Counting from the configuration gives the published number within 2 %: no field is mistyped."""
    model, _ = find_model(name)

    assert model.parameters == pytest.approx(CATALOGUE["model"][name]["parameters"], rel=0.02)


@pytest.mark.parametrize("name", CATALOGUE["gpu"])
def test_every_gpu_is_complete_and_plausible(name: str) -> None:
    """Every entry has its source; figures are in base units."""
    gpu = find_gpu(name)

    assert CATALOGUE["gpu"][name]["source"]
    assert 8e9 <= gpu.memory_bytes <= 600e9
    assert 1e11 <= gpu.bandwidth_bytes_per_s <= 1e13
    assert 4e12 <= gpu.flops_per_s["fp16"] <= 3e15
    assert 30 <= gpu.power_w <= 1200


GPUS = """
    RTX 3060, RTX 3060 Ti, RTX 3070, RTX 3070 Ti, RTX 3080, RTX 3080 Ti, RTX 3090, RTX 3090 Ti,
    RTX 4060, RTX 4060 Ti 16GB, RTX 4070, RTX 4070 Super, RTX 4070 Ti, RTX 4070 Ti Super, RTX 4080, RTX 4080 Super,
    RTX 4090, RTX 5060, RTX 5060 Ti 16GB, RTX 5070, RTX 5070 Ti, RTX 5080, RTX 5090, RTX PRO 6000,
    A10, L4, L40S, A100, A100 40GB, H100, H200, B200, MI300X, DGX Spark,
    Apple M2 Ultra, Apple M3 Max, Apple M3 Ultra, Apple M4, Apple M4 Pro, Apple M4 Max
"""
MODELS = """
    Qwen3-0.6B, Qwen3-1.7B, Qwen3-4B, Qwen3-8B, Qwen3-14B, Qwen3-32B, Qwen3-30B-A3B, Qwen3-235B-A22B,
    Llama-3.1-8B, Llama-3.1-70B, Llama-3.2-1B, Llama-3.2-3B, Llama-3.3-70B,
    Gemma-3-1B, Gemma-3-4B, Gemma-3-12B, Gemma-3-27B, Mistral-7B, Mistral-Nemo-12B, Mistral-Small-24B,
    gpt-oss-20b, gpt-oss-120b, SmolLM2-135M, SmolLM2-360M, SmolLM2-1.7B
"""
QUANTIZATIONS = "fp16, bf16, fp8, int8, awq, gptq, nvfp4, mxfp4, q8_0, q6_k, q5_k_m, q4_k_m, q4_0, iq4_xs, q3_k_m, q2_k"


def listed(names: str) -> list[str]:
    """The names of a list."""
    return [" ".join(name.split()) for name in names.split(",")]


def test_what_people_have_is_in_the_catalogue() -> None:
    """Every card, model and quantization that was promised is found by its name, and has a source."""
    assert [find_gpu(name).name for name in listed(GPUS)] == listed(GPUS)
    assert [find_model(name)[0].name for name in listed(MODELS)] == listed(MODELS)
    assert len({find_quantization(name).name for name in listed(QUANTIZATIONS)}) == len(listed(QUANTIZATIONS)) - 1
    for table in ("gpu", "model", "quantization"):
        assert [name for name, entry in CATALOGUE[table].items() if not entry.get("source")] == []


@pytest.mark.parametrize(
    ("written", "model", "quantization"),
    [
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B", "awq"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen3-30B-A3B", "fp8"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B", "fp16"),
        ("google/gemma-3-27b-it-q4_k_m", "Gemma-3-27B", "q4_k_m"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
    ],
)
def test_names_as_people_write_them(written: str, model: str, quantization: str) -> None:
    """With the owner before and the quantization behind."""
    found, kind = find_model(written)

    assert (found.name, kind.name) == (model, quantization)


@pytest.mark.parametrize("name", CATALOGUE["quantization"])
def test_every_quantization_is_complete(name: str) -> None:
    """Between 3 and 16 bits a weight, and no kernel beyond what the card reaches."""
    quantization = find_quantization(name)

    assert 0.3 < quantization.weight_bytes <= 2.0
    assert 0.3 < quantization.kernel <= 1.0
    assert 0.3 < quantization.compute_kernel <= 1.0


def test_constants_follow_the_equations() -> None:
    """Qwen3-8B in AWQ on an RTX PRO 6000, by hand."""
    model, awq = find_model("Qwen3-8B-AWQ")
    cost = cost_of(find_gpu("RTX PRO 6000"), model, awq, efficiency=Efficiency(1.0, 1.0, 1.0))
    linear = 36 * (4096 * 128 * 2 * (32 + 8) + 3 * 4096 * 12288)
    head = 151936 * 4096

    assert cost.weights_s == pytest.approx((linear * 0.5195 + head * 2) / (1792e9 * 0.85))
    assert cost.token_s == pytest.approx(2 * (linear + head) / (503.8e12 * 0.5))
    assert cost.context_token_s == pytest.approx(2 * 36 * 8 * 128 * 2 / 1792e9)


def test_experts_are_read_as_they_are_touched() -> None:
    """A mixture of experts multiplies few weights for a token but keeps all of them in memory."""
    model, fp16 = find_model("Qwen3-30B-A3B")
    cost = cost_of(find_gpu("H100"), model, fp16)

    assert model.active_parameters == pytest.approx(3.3e9, rel=0.1)
    assert cost.expert_fraction == 8 / 128
    assert cost.step_s(1, 1, adapted=False) < 0.3 * cost.step_s(100, 100, adapted=False)
    assert memory_of(find_gpu("H100"), model, fp16).weights_bytes == pytest.approx(61e9, rel=0.02)


def test_two_cards_share_and_talk() -> None:
    """Tensor parallel: half the reading, more overhead, twice the memory."""
    gpu = find_gpu("H100")
    model, fp16 = find_model("Llama-3.1-8B")
    one, two = (cost_of(gpu, model, fp16, gpus) for gpus in (1, 2))

    assert two.weights_s == pytest.approx(one.weights_s / 2)
    assert two.overhead_s > one.overhead_s
    assert memory_of(gpu, model, fp16, 2).kv_pool_tokens > 2 * memory_of(gpu, model, fp16).kv_pool_tokens


def test_memory_says_what_does_not_fit() -> None:
    """A 32B in 16 bits does not fit into 24 GB, in 4 bits it does, with little room for contexts."""
    gpu = find_gpu("RTX 4090")
    model, awq = find_model("Qwen3-32B-AWQ")

    assert not memory_of(gpu, model, find_quantization("fp16")).fits(4096)
    assert memory_of(gpu, model, awq).fits(1024)
    assert not memory_of(gpu, model, awq).fits(65_536)


def test_windowed_layers_keep_little() -> None:
    """Only layers with full attention count for the pool."""
    gemma, _ = find_model("Gemma-3-27B")
    oss, quantization = find_model("gpt-oss-20b")

    assert gemma.full_layers == 10
    assert oss.kv_bytes_per_token() == 2 * 12 * 8 * 64 * 2
    assert quantization.name == "mxfp4"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("nvidia geforce rtx 4090", "RTX 4090"),
        ("RTX-PRO-6000", "RTX PRO 6000"),
        ("m4 max", "Apple M4 Max"),
    ],
)
def test_gpus_are_found_by_loose_names(asked: str, found: str) -> None:
    """Case, dashes and makers do not matter."""
    assert find_gpu(asked).name == found


@pytest.mark.parametrize(
    ("asked", "model", "quantization"),
    [
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B", "awq"),
        ("qwen3-8b", "Qwen3-8B", "fp16"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B", "fp16"),
        ("SmolLM2-135M-Q4_K_M", "SmolLM2-135M", "q4_k_m"),
        ("google/gemma-3-27b-it", "Gemma-3-27B", "fp16"),
    ],
)
def test_models_are_found_with_their_quantization(asked: str, model: str, quantization: str) -> None:
    """Names as people write them."""
    found, kind = find_model(asked)

    assert (found.name, kind.name) == (model, quantization)


def test_unknown_names_say_the_nearest() -> None:
    """One sentence and what would do."""
    with pytest.raises(ScenarioError) as caught:
        find_gpu("RTX 4099")

    assert "RTX 4090" in caught.value.hint


def test_a_configuration_file_will_do() -> None:
    """Any decoder's config.json, text parts of multimodal ones included; what is missing is named."""
    text = {
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
    }
    model = model_from_config("tiny", {"text_config": text})

    assert (model.head_dim, model.kv_heads, model.full_layers) == (16, 4, 2)
    with pytest.raises(ScenarioError, match="vocab_size"):
        model_from_config("tiny", {key: value for key, value in text.items() if key != "vocab_size"})


def test_efficiencies_are_drawn_around_their_middle() -> None:
    """For intervals; never more than the datasheet promises."""
    rng = random.Random(1)
    drawn = [Efficiency(0.8, 0.8, 0.6, spread=0.2).draw(rng) for _ in range(500)]

    assert max(each.weights for each in drawn) <= 1.0
    assert sorted(each.compute for each in drawn)[250] == pytest.approx(0.6, rel=0.05)
