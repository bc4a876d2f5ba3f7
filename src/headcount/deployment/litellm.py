"""A LiteLLM proxy's ``config.yaml`` for a plan. Key names as of LiteLLM 1.108; keys of servers stay in the environment.

A request beyond a cap is answered by the fallback, or refused with 429 where there is none; nothing is retried, so that
no queue forms where nobody sees it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from headcount.deployment.places import AUTO, Place, by_model

__all__ = ["STREAM_TIMEOUT_S", "WHOLE_TIMEOUT_S", "litellm_config"]

WHOLE_TIMEOUT_S = 600
"""The longest whole answer."""
STREAM_TIMEOUT_S = 60
"""The longest silence of a streamed one, the wait for its first token included."""
COOLDOWN_S = 5
"""How long a server that failed is left alone before it is asked again."""


def litellm_config(places: Sequence[Place]) -> str:
    """The file's text."""
    models = by_model(places)
    lines = [
        "# start:  litellm --config config.yaml --port 4000     (keys: see keys.env)",
        "# Run it with one worker: each worker counts requests in flight for itself.",
        "model_list:",
        *(line for place in places for line in _deployment(place)),
    ]
    simple = [name for name, them in models.items() if them[0].role == "simple"]
    complex_models = [name for name, them in models.items() if them[0].role == "complex"]
    if simple and complex_models:
        lines += _automatic(simple[0], complex_models[0])
    several = any(len(them) > 1 for them in models.values())
    lines += [
        "",
        "router_settings:",
        f"  routing_strategy: {'least-busy' if several else 'simple-shuffle'}",
        "  num_retries: 0            # what is refused is refused at once, and seen",
        f"  cooldown_time: {COOLDOWN_S}",
    ]
    if simple and complex_models:
        lines += ["  fallbacks:                # beyond its cap, or when it is down"]
        lines += [f"    - {_text(name)}: [{_text(simple[0])}]" for name in complex_models]
    lines += [
        "",
        "litellm_settings:",
        f"  request_timeout: {WHOLE_TIMEOUT_S}",
        "",
        "general_settings:",
        "  master_key: os.environ/LITELLM_MASTER_KEY",
    ]
    return "\n".join(lines) + "\n"


def _deployment(place: Place) -> list[str]:
    return [
        f"  - model_name: {_text(place.name)}",
        "    litellm_params:",
        f"      model: {_text(f'openai/{place.name}')}",
        f"      api_base: {_text(f'{place.url}/v1')}",
        f"      api_key: os.environ/{place.key_variable}",
        f"      max_parallel_requests: {place.cap_requests}",
        f"      timeout: {WHOLE_TIMEOUT_S}",
        f"      stream_timeout: {STREAM_TIMEOUT_S}",
        "    model_info:",
        f"      id: {place.label}",
    ]


def _automatic(simple: str, complex_model: str) -> list[str]:
    """One more model, which is whichever fits the question by the router's own rules."""
    return [
        f"  - model_name: {AUTO}          # the gateway decides; ask for a model by name to decide yourself",
        "    litellm_params:",
        "      model: auto_router/complexity_router",
        "      complexity_router_config:",
        "        max_tokens_from_tier_model: false   # as long an answer as the client asks for",
        "        tiers:",
        f"          SIMPLE: {_text(simple)}",
        f"          MEDIUM: {_text(simple)}",
        f"          COMPLEX: {_text(complex_model)}",
        f"          REASONING: {_text(complex_model)}",
        f"      complexity_router_default_model: {_text(simple)}",
    ]


def _text(value: str) -> str:
    """A YAML text: JSON's quotes are YAML's too."""
    return json.dumps(value)
