"""Ready personas: the options of ``Chat`` that make them. Data only; a scenario may change any of them."""

from __future__ import annotations

__all__ = ["PRESETS"]

PRESETS: dict[str, dict[str, object]] = {
    "short": {"prompt_tokens": [16, 48], "output_tokens": [16, 24]},
    "chat-slow": {
        "think_s": {"kind": "lognormal", "median": 4.0, "sigma": 0.7, "max": 120.0},
        "reading_tokens_per_s": 5.0,
        "typing_tokens_per_s": 1.5,
        "prompt_tokens": {"kind": "lognormal", "median": 35, "sigma": 0.9, "min": 8, "max": 600},
        "output_tokens": [100, 500],
    },
    "autocomplete": {
        "turns": 1,
        "prompt_tokens": {"kind": "lognormal", "median": 60, "sigma": 0.8, "min": 8, "max": 400},
        "output_tokens": 16,
        "think_s": [0.2, 1.5],
        "cancel_after_s": [0.3, 1.5],
        "ask_long": False,
    },
    "question": {
        "turns": [1, 2],
        "prompt_tokens": [8, 40],
        "output_tokens": [50, 200],
        "think_s": [5.0, 20.0],
        "system_tokens": 200,
    },
    "document": {
        "turns": 2,
        "first_prompt_tokens": [3000, 20000],
        "prompt_tokens": [20, 60],
        "output_tokens": [200, 600],
        "think_s": [5.0, 20.0],
    },
    "rag": {
        "turns": [1, 3],
        "prompt_tokens": [2000, 6000],
        "output_tokens": [100, 400],
        "think_s": [3.0, 10.0],
        "system_tokens": 400,
        "stages": [{"name": "retrieval", "delay_s": [0.05, 0.3]}],
    },
    "agent": {
        "turns": [5, 15],
        "first_prompt_tokens": [500, 2000],
        "prompt_tokens": [100, 1000],
        "output_tokens": [50, 400],
        "think_s": 0.0,
        "system_tokens": 1500,
        "stages": [
            {"name": "tool", "delay_s": {"kind": "lognormal", "median": 0.5, "sigma": 1.0, "max": 10.0}, "after": True}
        ],
    },
    "long-writing": {
        "turns": [1, 2],
        "prompt_tokens": [50, 200],
        "output_tokens": 2000,
        "think_s": [10.0, 30.0],
    },
    "voice": {
        "turns": [3, 8],
        "prompt_tokens": [8, 40],
        "output_tokens": [30, 120],
        "think_s": [0.5, 2.0],
        "stages": [{"name": "speech", "delay_s": [2.0, 6.0], "after": True}],
    },
}
