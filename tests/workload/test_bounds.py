"""What nobody means is refused in one sentence that names the key, before anything could hang on it."""

from __future__ import annotations

import tomllib

import pytest

from headcount.engine.simulation import read_options
from headcount.errors import ScenarioError
from headcount.scenario import parse_scenario
from headcount.workload.presets import PRESETS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[workload]\nthink_s = 1e308", "workload.think_s must be a number at most 1000000000, not 1e+308"),
        ("[workload]\nthink_s = [1, 1e6]", "workload: think_s can reach 1e+06, which is above 86400"),
        ("[workload]\nthink_s = nan", "workload.think_s must be a number"),
        ("[workload]\nturns = 1000000000000000000", "workload.turns must be a number at most"),
        ("[workload]\nturns = 5000", "workload: turns can reach 5000, which is above 1000"),
        ("[workload]\nturns = 0", "workload: turns can be 0, which is below 1"),
        ("[workload]\nturns = [0, 3]", "workload: turns can be 0, which is below 1"),
        ("[workload]\noutput_tokens = 0", "workload: output_tokens can be 0, which is below 1"),
        ("[workload]\nprompt_tokens = 0", "workload: prompt_tokens can be 0, which is below 1"),
        ("[workload]\noutput_tokens = 1e8", "workload: output_tokens can reach 1e+08, which is above 1e+06"),
        (
            "[workload]\noutput_tokens = { kind = 'lognormal', median = 100, sigma = 5 }",
            "workload: output_tokens can reach",
        ),
        (
            "[workload]\noutput_tokens = { kind = 'normal', mean = 0, sd = 0, max = 0.5 }",
            "workload: output_tokens can be 0.5, which is below 1",
        ),
        (
            "[workload]\nturns = 1000\nprompt_tokens = 1000000",
            "workload: turns times prompt_tokens can reach 1e+09 tokens in one conversation",
        ),
        ("[workload]\nsystem_tokens = 100000000", "workload.system_tokens must be a whole number at most 10000000"),
        ("[workload]\nreading_tokens_per_s = 1e-300", "workload.reading_tokens_per_s must be a number at least 0.01"),
        ("[workload.tokens_per_word]\nenglish = 1e-300", "at least 0.01"),
        ("[[workload.stages]]\nname = 'tool'\ndelay_s = 1e7", "delay_s can reach 1e+07, which is above 86400"),
        ("[workload]\nkind = 'mix'\n[workload.personas.chat]\nweight = 1e300", "weight must be a number from 0 to 1e9"),
        ("[workload]\nmodels = { a = 1e308, b = 1e308 }", "at most 1000000000"),
        ("[search]\nmax_users = 1000000000000", "search.max_users must be a whole number at most 1048576"),
        ("[search]\nlevels = [10000000]", "search.levels[0] must be a whole number at most 1048576"),
        ("[search]\nmax_time_s = 1e308", "search.max_time_s must be a number at most 2592000"),
        ("[search]\nlevel_time_s = inf", "search.level_time_s must be a number at most 2592000"),
        ("processes = 1000000", "processes must be a whole number at most 1000"),
        ("[engine]\nidle_timeout_s = inf", "engine.idle_timeout_s must be a number at most 86400"),
        ("[arrivals]\nkind = 'open'\nrates_per_s = [1e300]", "arrivals.rates_per_s[0] must be a number at most 100000"),
        ("[arrivals]\nkind = 'open'\nrates_per_s = [1e-300]", "arrivals.rates_per_s[0] must be a number at least"),
        (
            "[arrivals]\nkind = 'open'\nrates_per_s = [1]\ngap_cv = 1e200",
            "arrivals.gap_cv must be a number at most 100",
        ),
        ("[arrivals]\nkind = 'synchronised'\nevery_s = 1e300", "arrivals.every_s must be a number at most 86400"),
        ("[comfort]\nwhole_s = [7, 4, 12]", "comfort: whole_s must rise from comfortable on"),
        ("[comfort]\nttft_s = [1, 3, inf]", "comfort: ttft_s must be numbers above 0"),
        ("[comfort]\nuser_tokens_per_s = [5, 10]", "comfort: user_tokens_per_s must fall from comfortable on"),
        ("slo = ['ttft_p95 <= 1.2.3 s']", "is not understood"),
        ("slo = ['chat', 'strict']", "slo 'chat' is a preset and stands alone, but 2 were given"),
    ],
)
def test_what_nobody_means_is_refused(text: str, message: str) -> None:
    """A value beyond what could be held is named by its key, with what may be, and there is a remedy."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text)

    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("kind", PRESETS)
def test_ready_personas_are_within_bounds(kind: str) -> None:
    """Bounds refuse none of our own."""
    assert parse_scenario(f"[workload]\nkind = '{kind}'").workload == {"kind": kind}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("speed = 1e-300", "engine.options.speed must be a number at least 0.001, not 1e-300"),
        ("round_trip_s = 1e308", "engine.options.round_trip_s must be a number at most 3600"),
        ("weights_s = nan", "engine.options.weights_s must be a number at least 0, not nan"),
        ("jitter = 1e9", "engine.options.jitter must be a number at most 2"),
        ("tokens_per_chunk = 0", "engine.options.tokens_per_chunk must be a whole number at least 1, not 0"),
        ("error_share = 7", "engine.options.error_share must be a number at most 1, not 7"),
        ("error_every_s = 0", "engine.options.error_every_s must be a number at least 0.001, not 0"),
        ("slots = 'many'", "engine.options.slots must be a whole number, not 'many'"),
    ],
)
def test_a_simulated_server_that_cannot_be_is_refused(option: str, message: str) -> None:
    """Nothing hangs, divides by nothing or goes backward."""
    options = tomllib.loads(option)
    with pytest.raises(ScenarioError) as caught:
        read_options(options)

    assert message in caught.value.message
    assert caught.value.hint
