"""What is publicly known of GPUs, models and quantizations, found by the names people write.

The facts and their sources are in ``catalogue.toml``; anything else comes from a ``config.json``.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from headcount.errors import ScenarioError
from headcount.simulator.hardware import Efficiency, Gpu, Model, Quantization

__all__ = [
    "find_gpu",
    "find_model",
    "find_quantization",
    "gpus",
    "known_model",
    "model_from_config",
    "smaller_quantizations",
]

_SAYS_NOTHING = {
    "nvidia",
    "geforce",
    "amd",
    "apple",
    "meta",
    "instruct",
    "it",
    "chat",
    "edition",
    "workstation",
    "thinking",
    "2507",
}
"""Words of a name that do not tell one thing from another."""


def gpus() -> list[Gpu]:
    """All of them, the smallest memory first."""
    return sorted(map(find_gpu, _catalogue()["gpu"]), key=lambda gpu: gpu.memory_bytes)


def find_gpu(name: str) -> Gpu:
    """By its name in the catalogue, or by its figures: ``24 GB, 936 GB/s, 71 TFLOP/s, 350 W`` (memory, bandwidth, dense
    fp16 and, if power matters, its limit). ``ScenarioError`` names the nearest."""
    if "," in name:
        return _gpu_of_figures(name)
    found_name, found = _find("gpu", name)
    default = {key: value for key, value in _catalogue()["efficiency"]["default"].items() if key != "source"}
    given = {key: value for key, value in found.get("efficiency", default).items() if key != "source"}
    return Gpu(
        name=found_name,
        memory_bytes=found["memory_bytes"],
        bandwidth_bytes_per_s=found["bandwidth_bytes_per_s"],
        flops_per_s={kind: found[kind] for kind in ("fp16", "fp8", "fp4") if kind in found},
        power_w=found["power_w"],
        efficiency=Efficiency(**given),
        **{key: found[key] for key in ("link_bytes_per_s",) if key in found},
    )


def find_model(name: str) -> tuple[Model, Quantization]:
    """By its name, which may end in a quantization: ``Qwen3-8B-AWQ``; fp16 without one (mxfp4 for gpt-oss)."""
    kinds = sorted(_catalogue()["quantization"], key=len, reverse=True)
    plain = _plain(name)
    kind = next((kind for kind in kinds if plain.endswith(_plain(kind))), None)
    base = plain.removesuffix(_plain(kind)) if kind else plain
    found_name, found = _find("model", base, shown=name)
    kind = kind or ("mxfp4" if found_name.startswith("gpt-oss") else "fp16")
    return model_from_config(found_name, found["config"]), find_quantization(kind)


def find_quantization(name: str) -> Quantization:
    """By its name in the catalogue; ``ScenarioError`` names the nearest."""
    found_name, found = _find("quantization", "fp16" if _plain(name) == "bf16" else name)
    return Quantization(found_name, **{key: value for key, value in found.items() if key != "source"})


def model_from_config(name: str, config: Mapping[str, Any]) -> Model:
    """From the contents of a Hugging Face ``config.json``; ``ScenarioError`` names what is missing."""
    config = {**config, **config.get("text_config", {})}
    try:
        layers, heads, hidden = (config[key] for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
        experts = config.get("num_experts") or config.get("num_local_experts") or config.get("n_routed_experts") or 0
        inner = config.get("moe_intermediate_size") if experts else None
        return Model(
            name=name,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // heads,
            vocabulary=config["vocab_size"],
            feed_forward=inner or config["intermediate_size"],
            tied=bool(config.get("tie_word_embeddings", False)),
            experts=experts,
            experts_used=config.get("num_experts_per_tok") or config.get("experts_per_token") or 0,
            full_layers=_full_layers(config, layers),
        )
    except KeyError as missing:
        hint = "give the config.json of a decoder model"
        raise ScenarioError(f"the configuration of {name} lacks {missing}", hint) from missing


def known_model(name: str, config: Mapping[str, Any]) -> tuple[Model, Quantization]:
    """A model of a ``config.json`` and what that says of its own weights; fp16 where it says nothing."""
    told = config.get("quantization_config") or {}
    kind = str(told.get("quant_method") or told.get("quant_algo") or "fp16").lower()
    kind = {"compressed-tensors": "fp8", "modelopt": "nvfp4"}.get(kind, kind)
    return model_from_config(name, config), find_quantization(kind)


def smaller_quantizations(than: Quantization) -> list[Quantization]:
    """Those of fewer bytes a weight, the largest first; GGUF's among themselves."""

    def of_gguf(quantization: Quantization) -> bool:
        return quantization.name.startswith(("q", "iq"))

    known = [one for one in map(find_quantization, _catalogue()["quantization"]) if of_gguf(one) == of_gguf(than)]
    smaller = [one for one in known if one.weight_bytes < 0.95 * than.weight_bytes]
    return sorted(smaller, key=lambda one: -one.weight_bytes)


_FIGURE = re.compile(r"([\d.]+)\s*(TB/s|GB/s|TB|GB|PFLOPS?|TFLOPS?|TFLOP/s|PFLOP/s|W)", re.IGNORECASE)
_UNITS = {"tb/s": 1e12, "gb/s": 1e9, "tb": 1e12, "gb": 1e9, "w": 1.0}


def _gpu_of_figures(text: str) -> Gpu:
    figures: dict[str, float] = {}
    for part in text.split(","):
        found = _FIGURE.fullmatch(part.strip())
        if found is None:
            raise ScenarioError(
                f"gpu: {part.strip()!r} is not understood", 'write e.g. "24 GB, 936 GB/s, 71 TFLOP/s, 350 W"'
            )
        unit = found[2].lower()
        if unit[1:].startswith("flop"):
            figures["flops"] = float(found[1]) * (1e15 if unit[0] == "p" else 1e12)
        else:
            kind = "bandwidth" if unit.endswith("/s") else "power" if unit == "w" else "memory"
            figures[kind] = float(found[1]) * _UNITS[unit]
    missing = [kind for kind in ("memory", "bandwidth", "flops") if not figures.get(kind)]
    if missing:
        raise ScenarioError(f"gpu {text!r} lacks its {missing[0]}", 'write e.g. "24 GB, 936 GB/s, 71 TFLOP/s, 350 W"')
    default = {key: value for key, value in _catalogue()["efficiency"]["default"].items() if key != "source"}
    return Gpu(
        name=" ".join(text.replace(",", " ").split()),
        memory_bytes=figures["memory"],
        bandwidth_bytes_per_s=figures["bandwidth"],
        flops_per_s={"fp16": figures["flops"]},
        power_w=figures.get("power", 300.0),
        efficiency=Efficiency(**default),
    )


def _full_layers(config: Mapping[str, Any], layers: int) -> int | None:
    """Layers without a sliding window; None when all are."""
    if kinds := config.get("layer_types"):
        return [*kinds].count("full_attention")
    pattern: int | None = config.get("sliding_window_pattern")
    return layers // pattern if pattern and config.get("sliding_window") else None


@cache
def _catalogue() -> dict[str, dict[str, dict[str, Any]]]:
    text = files("headcount.simulator").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _plain(name: str) -> str:
    """A name without its owner, case, dashes and words that say nothing."""
    words = re.split(r"[^a-z0-9.]+", name.lower().rpartition("/")[2])
    return "".join(word for word in words if word not in _SAYS_NOTHING)


def _find(table: str, name: str, shown: str = "") -> tuple[str, dict[str, Any]]:
    known = _catalogue()[table]
    by_plain = {_plain(key): key for key in known}
    wanted = _plain(name)
    if wanted in by_plain:
        return by_plain[wanted], known[by_plain[wanted]]
    near = difflib.get_close_matches(wanted, by_plain, 3, 0.4)
    hint = f"did you mean {', '.join(by_plain[plain] for plain in near)}?" if near else f"known: {', '.join(known)}"
    raise ScenarioError(f"{table} {shown or name!r} is not in the catalogue", hint)
