"""Reasons to doubt a level that lie in the server or its machine: each fires on its evidence, and on nothing less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from headcount.analysis.conclusions import Caution
from headcount.analysis.machine import counted
from headcount.analysis.machine_cautions import Machine, machine_cautions, metrics_not_visible
from headcount.records import EngineFacts, Gpu, Sample

GPU = Gpu(
    "GPU-1",
    "NVIDIA L4",
    memory_total_bytes=24_000,
    power_limit_w=72.0,
    temperature_slowdown_c=90.0,
)
Series = Mapping[str, Sequence[float]]


def machine(series: Series, of: str = "", **more: object) -> Machine:
    """A window of one reading a second."""
    samples = [
        Sample(float(second), name, float(value), of or ("GPU-1" if name.startswith("gpu_") else ""))
        for name, values in series.items()
        for second, value in enumerate(values)
    ]
    return Machine(3, 0.0, 1000.0, tuple(samples), gpus=(GPU,), **more)  # type: ignore[arg-type]


def codes(looked_at: Machine) -> list[str]:
    """Which cautions were given."""
    return [caution.code for caution in machine_cautions(looked_at)]


def only(looked_at: Machine) -> Caution:
    """The one caution that was given."""
    (caution,) = machine_cautions(looked_at)
    return caution


def throttle(*reasons: str) -> Machine:
    """One reading a second; an empty reason is none."""
    of = [f"GPU-1:{reason}" if reason else "GPU-1" for reason in reasons]
    samples = [Sample(float(i), "gpu_throttled", float(":" in o), o) for i, o in enumerate(of)]
    return Machine(1, 0.0, 1000.0, tuple(samples), gpus=(GPU,))


FINE: Series = {
    "gpu_temperature_c": [70.0] * 60,
    "gpu_power_w": [60.0] * 60,
    "gpu_sm_clock_hz": [2.0e9] * 60,
    "gpu_utilization_fraction": [1.0] * 60,
    "gpu_memory_used_bytes": [20_000.0] * 60,
    "gpu_ecc_uncorrected_errors_total": [2.0] * 60,
    "host_swap_traffic_bytes_total": [1e9] * 60,
    "host_swap_used_bytes": [5e9] * 60,
    "server_kv_used_fraction": [0.5] * 60,
    "server_preemptions_total": [7.0] * 60,
    "server_waiting_requests": [0.0, 3.0] * 30,
    "server_running_requests": [10.0, 14.0] * 30,
}


def test_a_healthy_machine_gives_no_caution() -> None:
    """Old errors, old swap and old preemptions count for nothing; nor does an empty window."""
    assert codes(machine(FINE, in_flight_mean=14.0)) == []
    assert codes(machine({})) == []


def test_only_the_window_counts() -> None:
    """What was sampled before and after it says nothing of the level."""
    samples = tuple(Sample(t, "server_kv_used_fraction", 1.0) for t in (1.0, 99.0))

    assert codes(Machine(0, 10.0, 90.0, samples)) == []


@pytest.mark.parametrize(
    ("series", "code"),
    [
        ({"gpu_temperature_c": [80.0] * 9 + [85.0]}, "hot"),
        ({"gpu_temperature_c": [70.0] * 20 + [74.0] * 20}, "still-warming"),
        ({"gpu_power_w": [71.5] * 10}, "power-limited"),
        ({"gpu_power_w": [50.0] * 10, "gpu_power_limit_w": [50.0] * 10}, "power-limited"),
        ({"gpu_sm_clock_hz": [2.0e9] * 20 + [1.8e9] * 20}, "clocks-spread"),
        ({"gpu_memory_used_bytes": [20_000.0, 23_900.0]}, "vram-full"),
        ({"gpu_ecc_uncorrected_errors_total": [2.0, 3.0]}, "ecc-errors"),
        ({"gpu_ecc_corrected_errors_total": [2.0, 30.0]}, "ecc-errors"),
        ({"gpu_lost": [1.0]}, "gpu-lost"),
        ({"host_swap_traffic_bytes_total": [0.0, 50e6]}, "swapping"),
        ({"host_swap_used_bytes": [0.0, 50e6]}, "swapping"),
        ({"server_kv_used_fraction": [0.5, 0.96]}, "kv-full"),
        ({"server_preemptions_total": [7.0, 9.0]}, "preemptions"),
        ({"server_waiting_requests": [1.0, 2.0, 5.0, 2.0, 1.0]}, "queue-never-empty"),
        ({"server_output_tokens_total": [100.0, 200.0, 5.0, 50.0]}, "server-restarted"),
        ({"server_output_tokens_total": [100.0, 5.0] * 3}, "several-workers"),
    ],
)
def test_each_caution_fires_on_its_evidence(series: Series, code: str) -> None:
    """One caution, of this level, with a remedy."""
    caution = only(machine(series))

    assert caution.code == code
    assert caution.level == 3
    assert caution.sentence
    assert caution.remedy


@pytest.mark.parametrize(
    "series",
    [
        {"gpu_temperature_c": [84.9] * 10},
        {"gpu_temperature_c": [40.0] * 20 + [50.0] * 20},
        {"gpu_power_w": [71.5] * 5 + [30.0] * 5},
        {"gpu_sm_clock_hz": [2.0e9] * 20 + [1.95e9] * 20},
        {"gpu_sm_clock_hz": [2.0e9] * 20 + [0.3e9] * 20, "gpu_utilization_fraction": [0.9] * 20 + [0.0] * 20},
        {"gpu_memory_used_bytes": [23_200.0]},
        {"host_swap_traffic_bytes_total": [0.0, 1e6], "host_swap_used_bytes": [9e9, 9e9]},
        {"server_kv_used_fraction": [0.94]},
        {"server_waiting_requests": [1.0, 2.0, 0.0, 2.0, 1.0]},
        {"server_waiting_requests": [4.0] * 4},
    ],
)
def test_no_caution_fires_on_less(series: Series) -> None:
    """Just below each bound; far from the temperature that matters; idle clocks; too few readings."""
    assert codes(machine(series)) == []


def test_throttling_names_its_reasons_and_their_share() -> None:
    """Heat for a quarter of the time; a clock set on purpose and a reading in a hundred are passed over."""
    caution = only(throttle("sw_thermal_slowdown", "", "", "applications_clocks_setting"))

    assert caution.code == "throttled"
    assert caution.sentence == "NVIDIA L4 was throttled: heat 25% of the time"
    assert codes(throttle("hw_slowdown", *[""] * 199)) == []
    assert codes(throttle(*["applications_clocks_setting"] * 10)) == []


def test_a_power_cap_is_the_power_limits_caution() -> None:
    """By the driver's word, even when no limit in watts is told."""
    samples = throttle(*["sw_power_cap"] * 10).samples + tuple(
        Sample(float(i), "gpu_power_w", 60.0, "GPU-1") for i in range(10)
    )

    caution = only(Machine(1, 0.0, 100.0, samples))

    assert caution.code == "power-limited"
    assert "100% of the time (mean 60 W)" in caution.sentence


def test_several_gpus_are_told_apart() -> None:
    """By their number; a reading of a card that is not known by its UUID."""
    gpus = (GPU, Gpu("GPU-2", "NVIDIA L4", temperature_slowdown_c=90.0))
    samples = (Sample(1.0, "gpu_temperature_c", 89.0, "GPU-2"), Sample(1.0, "gpu_lost", 1.0, "GPU-9"))

    sentences = [c.sentence for c in machine_cautions(Machine(0, 0.0, 9.0, samples, gpus=gpus))]

    assert sentences == [
        "GPU-9 stopped answering its driver in mid-level",
        "NVIDIA L4 (1) reached 89 °C and slows itself down at 90 °C",
    ]


def test_fatal_cautions_come_first() -> None:
    """A lost card before all else."""
    found = machine_cautions(machine({"server_kv_used_fraction": [1.0], "gpu_lost": [1.0]}))

    assert [(caution.code, caution.fatal) for caution in found] == [("gpu-lost", True), ("kv-full", False)]


def test_a_plateau_with_a_queue_is_the_engines_slots() -> None:
    """Running stands at its top while others wait in the server's own queue."""
    series = {"server_running_requests": [8.0] * 10, "server_waiting_requests": [0.0] + [24.0] * 9}
    engine = EngineFacts("llamacpp", slots=8)

    caution = only(machine(series, in_flight_mean=32.0, engine=engine))

    assert caution.code == "engine-slots"
    assert "8 requests at once, no more, while 32 were in flight (all its slots)" in caution.sentence


def test_a_plateau_without_a_queue_is_a_cap_before_the_server() -> None:
    """A proxy that admits 100: running stands at 100, nothing waits, 128 are in flight."""
    series = {"server_running_requests": [100.0] * 10, "server_waiting_requests": [0.0] * 10}

    assert codes(machine(series, in_flight_mean=128.0)) == ["capped-before-gpu"]


@pytest.mark.parametrize(
    ("running", "waiting", "in_flight"),
    [
        ([100.0] * 10, [0.0] * 10, 103.0),
        ([50.0, 100.0] * 5, [0.0] * 10, 200.0),
        ([0.0] * 10, [0.0] * 10, 1.0),
        ([1.0] * 10, [0.0] * 10, 2.0),
        ([100.0] * 10, [], 128.0),
        ([100.0] * 10, [0.0] * 10, None),
    ],
)
def test_no_cap_is_seen_where_there_is_none(
    running: list[float], waiting: list[float], in_flight: float | None
) -> None:
    """All run; running moves; nothing runs; small numbers; a queue that is not told; the load not known."""
    series = {"server_running_requests": running, "server_waiting_requests": waiting}

    assert codes(machine(series, in_flight_mean=in_flight)) == []


@pytest.mark.parametrize(("ours_s", "expected"), [(0.30, ["ttft-gap"]), (0.21, []), (0.16, []), (None, [])])
def test_the_servers_own_ttft_is_held_against_ours(ours_s: float | None, expected: list[str]) -> None:
    """Mean of 0.2 s by its histogram; the gap may be 50 ms or a fifth."""
    series = {"server_ttft_s_total": [10.0, 12.0], "server_ttft_requests_total": [50.0, 60.0]}

    assert codes(machine(series, ttft_mean_s=ours_s)) == expected


def test_counters_never_run_backwards() -> None:
    """After a fall they count from 0."""
    assert counted([]) == (0.0, 0)
    assert counted([5.0, 5.0, 8.0]) == (3.0, 0)
    assert counted([5.0, 8.0, 2.0, 3.0]) == (6.0, 1)


def test_metrics_in_the_dark_are_told_once_for_the_run() -> None:
    """Not for the simulated engine, which has none."""
    for engine in (None, EngineFacts("vllm", metrics="prometheus"), EngineFacts("trtllm", metrics="json")):
        assert metrics_not_visible(engine) == ()
    assert metrics_not_visible(EngineFacts("simulated")) == ()
    (caution,) = metrics_not_visible(EngineFacts("llamacpp", metrics="absent"))
    assert (caution.code, caution.level, caution.fatal) == ("metrics-not-visible", None, False)


def test_slots_that_are_not_told_are_seen_at_the_plateau() -> None:
    """vLLM does not tell them, usually: what ran, no more, with a queue behind it."""
    series: Series = {"server_running_requests": [8.0] * 30, "server_waiting_requests": [5.0, 6.0] * 15}
    untold, told = EngineFacts("vllm", metrics="prometheus"), EngineFacts("vllm", metrics="prometheus", slots=8)

    sentences = [
        next(
            one.sentence
            for one in machine_cautions(machine(series, in_flight_mean=14.0, engine=engine))
            if "ran 8" in one.sentence
        )
        for engine in (untold, told)
    ]

    assert "so it seems to have 8 slots" in sentences[0]
    assert "all its slots" in sentences[1]


def test_the_servers_word_with_each_answer_goes_before_its_counters() -> None:
    """Per-request figures are of the same requests as the client's."""
    counters: Series = {"server_ttft_s_total": [0.0, 10.0], "server_ttft_requests_total": [0.0, 10.0]}

    assert machine(counters).server_ttft_mean_s == 1.0
    assert machine(counters, told_ttft_mean_s=0.3).server_ttft_mean_s == 0.3
    assert machine({}).server_ttft_mean_s is None
    assert codes(machine({}, ttft_mean_s=0.5, told_ttft_mean_s=0.3)) == ["ttft-gap"]


def test_each_gpu_has_its_figures() -> None:
    """Most memory and heat, mean power and use; None where it does not tell."""
    (found,) = machine({"gpu_power_w": [50.0, 70.0], "gpu_temperature_c": [60.0, 64.0]}).gpu_figures()

    assert (found.uuid, found.power_mean_w, found.temperature_max_c) == ("GPU-1", 60.0, 64.0)
    assert (found.memory_used_max_bytes, found.utilization_mean_fraction) == (None, None)
