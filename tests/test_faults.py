"""Faults that real load clients have had, each with the tests that show ours has not.

By the number under which the docstrings of tests name them. What is seen on the wire lies byte for byte in
``tests/data/wire.json``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parent
WIRE = "engine/test_wire.py::test_wire"

SICK_MACHINE = "analysis/test_machine_cautions.py"
FAULTS = {
    # --- on the wire ---
    "A01 characters cut between two reads": WIRE,
    "A02 lines split at other marks than CR and LF": WIRE,
    "A03 one read taken for one event": WIRE,
    "A04 several events in one read": WIRE,
    "A05 CR LF": WIRE,
    "A07 CR alone": WIRE,
    "A08 no space after the colon": WIRE,
    "A09 comments taken for the first token": WIRE,
    "A10 events without data": WIRE,
    "A12 no [DONE]": WIRE,
    "A13 an early end taken for success": WIRE,
    "A14 [DONE] without a reason": WIRE,
    "A15 an error after tokens": WIRE,
    "A16 an error instead of tokens": WIRE,
    "A17 an error as a whole answer": WIRE,
    "A18 a role taken for the first token": WIRE,
    "A19 reasoning not seen": WIRE,
    "A21 tool calls not seen": WIRE,
    "A22 no choices in the last event": WIRE,
    "A23 no key for choices": WIRE,
    "A25 no usage": WIRE,
    "A26 null for content": WIRE,
    "A27 gaps between chunks sold as time per token": WIRE,
    "A29 a line limit of 64 KiB": "engine/test_openai.py::test_a_huge_event",
    "A30 no blank line at the end": WIRE,
    "A33 status 200 and nothing": WIRE,
    "A35 the names of completions": WIRE,
    # --- transport ---
    "A37 a pool's own limit": "http/test_pool.py::test_no_limit_of_its_own",
    "A38 a proxy's limit taken for the server's": "analysis/test_sick_runs.py::test_a_capped_proxy_is_seen",
    "A39 too few descriptors": "load/test_fleet.py::test_too_many_connections_are_refused_with_the_number_needed",
    "A40 sockets closed while people think": "http/test_pool.py::test_thinking_longer_than_the_server_waits",
    "A41 the first gap holds the first wait": "test_metrics.py::test_gaps_hold_no_wait_for_the_first",
    "A42 time-outs cut the tail off": "engine/test_openai.py::test_time_outs_do_not_flatter",
    "A44 retries hide refusals": "engine/test_openai.py::test_one_refusal_is_one_error",
    "A45 load before the model is there": "engine/test_prepare.py::test_a_model_that_is_being_loaded_is_waited_for",
    "A47 the body read whole": "engine/test_openai.py::test_times_of_a_stream",
    # --- measurement ---
    "A48 failures enter as zero": "test_metrics.py::test_failed_requests_are_no_zeros",
    "A50 the wall clock": "test_architecture.py::test_there_is_one_clock",
    "A51 no success, no report": "report/test_text_formats.py::test_json_knows_no_nan",
    "A52 failures are not shown": "analysis/test_level_test.py::test_errors_fail_a_level_and_are_told",
    "A53 answers of one token": "test_metrics.py::test_answers_of_one_token_have_no_speed",
    "A54 percentiles of a handful": "analysis/test_level_test.py::test_fewer_than_59_answers_never_hold",
    "A55 warm-up counted": "test_metrics.py::test_the_warm_up_is_left_out",
    "A56 levels that are not drained": "analysis/test_cautions.py::test_a_server_that_stays_busy_is_told",
    "A58 requests lost at the end": "load/test_fleet.py::test_every_request_ends_once_also_when_it_is_cut",
    "A59 coordinated omission": "load/test_users.py::test_latency_counts_from_the_planned_time",
    "A60 a full client taken for a slow server": "analysis/test_cautions.py::test_a_busy_client_voids_its_level",
    "A61 the mean decides": "test_metrics.py::test_the_mean_decides_nothing",
    "A62 one lucky run decides": "analysis/test_search.py::test_one_visit_that_fails_badly_is_enough",
    "A63 everybody starts at once": "load/test_users.py::test_starts_are_spread",
    "A64 the client's tokenizer before the server's count": "engine/test_wire.py::test_wire",
    "A65 tokens counted chunk by chunk": "test_metrics.py::test_several_tokens_a_chunk_are_counted_by_usage",
    "A67 the same prompts for all": "workload/test_chat.py::test_no_two_conversations_begin_alike",
    "A68 conversations of one turn": "load/test_talk.py::test_history_is_sent_again",
    "A69 a history longer than the context": "load/test_talk.py::test_a_conversation_ends_before_the_context_overflows",
    "A71 slots fewer than people": "engine/test_simulated.py::test_slots_make_people_wait",
    "A72 another name for max_tokens": "engine/test_prepare.py::test_several_refusals_one_after_the_other",
    "A73 answers shorter than planned": "analysis/test_cautions.py::test_short_answers_and_estimated_tokens_are_told",
    "A74 the probe asks otherwise": "engine/test_vllm.py::test_every_request_asks_alike",
    "A75 empty prompts": "analysis/test_lengths.py::test_text_that_does_not_reach_the_model_voids_the_level",
    "A76 a whole answer's TTFT": "test_metrics.py::test_whole_answers_have_no_first_token",
    "A77 tokens held back by a parser": "engine/test_dialects.py::test_output",
    "A78 two times to first token": f"{SICK_MACHINE}::test_the_servers_own_ttft_is_held_against_ours",
    "A79 a formula for capacity": "analysis/test_verdict.py::test_the_first_estimate_is_the_formula",
    "A80 bursts sold as speed": "test_metrics.py::test_several_tokens_a_chunk_are_counted_by_usage",
    "A81 Ctrl-C loses all": "test_interrupt.py::test_one_ctrl_c_saves_and_reports",
    "A81 Ctrl-C twice": "test_interrupt.py::test_a_second_ctrl_c_ends_at_once",
    "A82 no ceiling of time": "analysis/test_search.py::test_time_is_kept",
    "A83 a client's cap taken for saturation": "analysis/test_cautions.py::test_littles_law_must_give_the_people",
}


def _tests_of(file: str) -> set[str]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_a_test(fault: str) -> None:
    """Which is there under that name."""
    file, _, name = FAULTS[fault].partition("::")

    assert name in _tests_of(file)


def test_each_recorded_wire_fault_is_listed() -> None:
    """And the other way about."""
    recorded = {case["id"] for case in msgspec.json.decode((HERE / "data" / "wire.json").read_bytes())}

    assert recorded == {fault.split()[0] for fault, test in FAULTS.items() if test == WIRE} - {"A64"}
