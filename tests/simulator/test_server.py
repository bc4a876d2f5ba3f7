"""The core's rules, one by one: when a step ends, who is admitted, who waits, who is refused."""

import itertools

import pytest

from headcount.simulator.cost import Cost
from headcount.simulator.drive import drive, replay
from headcount.simulator.job import Job
from headcount.simulator.policy import Policy, llamacpp, ollama, sglang, vllm
from headcount.simulator.server import Server

STEP = Cost(overhead_s=0.01)
"""Every step takes 10 ms, whatever is in it."""


def times(server: Server, job: Job) -> list[float]:
    """When each token of an ended job was written."""
    return server.token_times(job, float("inf"))


def test_one_job_takes_a_step_a_token() -> None:
    """The first token ends the prefill step, each further one a decoding step."""
    server, job = Server(STEP, vllm()), Job(100, 5)

    replay(server, [(1.0, job)])

    assert times(server, job) == pytest.approx([1.01, 1.02, 1.03, 1.04, 1.05])
    assert job.state == "finished"
    assert job.ended_at_s == pytest.approx(1.05)


def test_a_step_costs_what_the_equation_says() -> None:
    """Every term of the step time is there, for a prefill step and for each decoding step."""
    cost = Cost(0.001, 0.003, 0.00004, 0.0002, 1e-5, 1e-7)
    server, job = Server(cost, vllm()), Job(100, 3)

    replay(server, [(0.0, job)])
    prefill_s = 0.001 + (0.003**2 + 0.004**2) ** 0.5 + 0.0002 + 1e-7 * 100 * 50
    decode_s = 0.001 + (0.003**2 + 0.00004**2) ** 0.5 + 0.0002

    assert times(server, job) == pytest.approx(
        list(itertools.accumulate([prefill_s, decode_s + 1e-5 * 101, decode_s + 1e-5 * 102]))
    )


def test_adapters_and_experts_slow_a_step() -> None:
    """An adapter stretches the linear part; a token reads its share of the experts, many tokens nearly all."""
    cost = Cost(overhead_s=0.01, adapter_fraction=0.5, experts_s=0.1, expert_fraction=0.25)

    assert cost.step_s(1, 1, adapted=False) == pytest.approx(0.01 + 0.025)
    assert cost.step_s(1, 1, adapted=True) == pytest.approx(1.5 * 0.035)
    assert cost.step_s(1000, 1, adapted=False) == pytest.approx(0.11)


def test_an_arrival_joins_at_the_next_step() -> None:
    """Who arrives within a step is computed with the next one, together with those who decode."""
    server, first, second = Server(STEP, vllm()), Job(10, 5), Job(10, 2)

    replay(server, [(0.0, first), (0.015, second)])

    assert times(server, first) == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])
    assert times(server, second) == pytest.approx([0.03, 0.04])


def test_who_arrives_at_the_very_end_of_a_step_is_in_the_next() -> None:
    """A client that answers at once loses no step."""
    server = Server(STEP, vllm())

    jobs = drive(server, [iter([(0.0, Job(10, 5)), (0.0, Job(10, 1))]), iter([(0.0, Job(10, 50))])])

    assert [job.ended_at_s for job in jobs] == pytest.approx([0.05, 0.06, 0.5])


def test_long_prompts_are_cut_into_chunks() -> None:
    """A prompt takes what decoding leaves of the budget, step by step, and nobody stops writing meanwhile."""
    server = Server(STEP, Policy(slots=4, max_batched_tokens=101))
    first, long = Job(10, 30), Job(350, 1)

    replay(server, [(0.0, first), (0.02, long)])

    assert long.first_token_at_s == pytest.approx(0.02 + 4 * 0.01)
    assert max(b - a for a, b in itertools.pairwise(times(server, first))) == pytest.approx(0.01)


def test_sglang_computes_prompts_alone() -> None:
    """Decoding stops while a prompt is computed."""
    server = Server(STEP, sglang(slots=4, max_batched_tokens=100))
    first, long = Job(10, 30), Job(350, 1)

    replay(server, [(0.0, first), (0.02, long)])

    assert max(b - a for a, b in itertools.pairwise(times(server, first))) == pytest.approx(0.05)


def test_the_cap_makes_a_queue() -> None:
    """No more than ``slots`` run; the others wait in order of arrival."""
    server = Server(STEP, vllm(slots=2))
    jobs = [Job(10, 10) for _ in range(6)]

    replay(server, [(0.001 * n, job) for n, job in enumerate(jobs)])
    started = [job.started_at_s for job in jobs]

    assert all(job.started_at_s is not None for job in jobs)
    assert started == sorted(started, key=lambda at_s: at_s or 0.0)
    assert started[2] == jobs[0].ended_at_s


def test_memory_admits_no_more_than_fits() -> None:
    """A prompt that does not fit waits until somebody has left, and those behind it too."""
    server = Server(STEP, vllm(pool_tokens=320, prefix_cache=False))
    first, large, small = Job(200, 20), Job(200, 1), Job(10, 1)

    replay(server, [(0.0, first), (0.01, large), (0.02, small)])

    assert large.started_at_s == first.ended_at_s
    assert small.started_at_s == first.ended_at_s


def test_the_last_admitted_is_preempted_and_computed_again() -> None:
    """Memory ends in mid-answer: the last one stops, waits at the head of the queue, and goes on where it was."""
    server = Server(STEP, vllm(pool_tokens=160, prefix_cache=False))
    first, second = Job(60, 60), Job(60, 60)

    replay(server, [(0.0, first), (0.0, second)])
    gaps = [b - a for a, b in itertools.pairwise(times(server, second))]

    assert (first.preemptions, second.preemptions) == (0, 1)
    assert server.preemptions_total == 1
    assert len(times(server, second)) == 60
    assert max(gaps) == pytest.approx(0.6 - times(server, second)[gaps.index(max(gaps))] + 0.01, abs=0.011)
    assert server.pool.held == 0


def test_sglang_reserves_what_may_still_be_written() -> None:
    """Admission counts half of the answers to come, so that nobody is preempted where vLLM preempts."""
    arrivals = [(0.0, 60, 60)] * 2
    counts = []
    for policy in (vllm(pool_tokens=160, prefix_cache=False), sglang(pool_tokens=160, reserve_fraction=1.0)):
        server = Server(STEP, policy)
        replay(server, [(at_s, Job(prompt, output)) for at_s, prompt, output in arrivals])
        counts.append(server.preemptions_total)

    assert counts == [1, 0]


def test_own_history_is_reused_in_whole_blocks() -> None:
    """The second turn computes only what is new; another conversation finds nothing."""
    server = Server(Cost(token_s=0.001), vllm())
    first = Job(100, 20, path=(("a", 100),), answer_key="a1")
    second = Job(150, 1, path=(("a", 100), ("a1", 120), ("a2", 150)))
    other = Job(150, 1, path=(("b", 150),))

    replay(server, [(0.0, first), (1.0, second), (2.0, other)])

    assert second.cached_tokens == 112
    assert second.first_token_at_s == pytest.approx(1.0 + 0.001 * (150 - 112))
    assert other.cached_tokens == 0


def test_a_shared_beginning_is_kept_once() -> None:
    """Two people with one system prompt hold its blocks together."""
    server = Server(STEP, vllm())
    jobs = [Job(200, 50, path=(("system", 160), (n, 200))) for n in range(2)]

    server.submit(0.0, jobs[0])
    server.advance(0.05)
    server.submit(0.05, jobs[1])
    server.advance(0.1)

    assert jobs[1].cached_tokens == 160
    assert server.pool.available == server.pool.total - (160 // 16 + 2 * 3)


def test_the_oldest_history_is_forgotten_first() -> None:
    """When memory is needed, idle histories go in the order of their last use."""
    server = Server(STEP, vllm(pool_tokens=480))
    arrivals = [(float(n), Job(150, 1, path=((n, 150),))) for n in range(4)]
    again = [Job(160, 1, path=((n, 150), (f"{n} more", 160))) for n in (3, 0)]

    replay(server, [*arrivals, (10.0, again[0]), (11.0, again[1])])

    assert [job.cached_tokens for job in again] == [144, 0]


def test_ollama_refuses_beyond_its_queue() -> None:
    """One slot, a queue of two: the fourth of four at once is told to go away, and may come again later."""
    server = Server(STEP, ollama(slots=1, queue_limit=2))
    jobs = [Job(10, 10) for _ in range(5)]

    refused = [server.submit(0.0, job) for job in jobs[:4]]
    server.advance(0.5)

    assert refused == [None, None, None, "queue_full"]
    assert server.submit(0.5, jobs[4]) is None


def test_too_long_is_refused() -> None:
    """vLLM counts the allowed answer, llama.cpp only the prompt and ends the answer at the context's end."""
    policy = llamacpp(slots=2, context_tokens=200)
    cut, long = Job(90, 50), Job(100, 1)

    assert Server(STEP, vllm(context_tokens=100)).submit(0.0, Job(90, 11)) == "context_overflow"
    assert Server(STEP, vllm(pool_tokens=96)).submit(0.0, Job(90, 11)) == "context_overflow"
    assert [job.output_tokens for job in replay(Server(STEP, policy), [(0.0, cut), (0.0, long)])] == [1, 10]
    assert long.state == "refused"


def test_llamacpp_never_mixes_adapters() -> None:
    """A sequence with another adapter starts when the last of the first adapter's has ended."""
    server = Server(STEP, llamacpp(slots=4))
    one, two, three = Job(10, 20, adapter="a"), Job(10, 20, adapter="b"), Job(10, 40, adapter="a")

    replay(server, [(0.0, one), (0.01, two), (0.02, three)])

    assert two.started_at_s == pytest.approx(0.01)
    assert two.first_token_at_s == pytest.approx((three.ended_at_s or 0.0) + 0.01)


def test_vllm_holds_only_so_many_adapters() -> None:
    """A third adapter waits for a place, those behind it with a loaded one do not; each load costs time."""
    server = Server(Cost(overhead_s=0.01, adapter_load_s=0.1), vllm(adapter_slots=2))
    jobs = [Job(10, 20, adapter=name) for name in "abca"]

    replay(server, [(0.0, job) for job in jobs])

    assert jobs[2].started_at_s == jobs[0].ended_at_s
    assert jobs[3].started_at_s == 0.0
    assert jobs[0].first_token_at_s == pytest.approx(0.21)
    assert server.adapters.loads_total == 3


def test_a_client_that_goes_away_frees_its_place() -> None:
    """It leaves with the step under way, gives no event, and the next one in the queue starts."""
    server = Server(STEP, vllm(slots=1))
    gone, queued, waiting = Job(10, 1000), Job(10, 5), Job(10, 5)
    for job in (gone, queued, waiting):
        server.submit(0.0, job)

    server.advance(0.555)
    server.cancel(0.555, gone)
    server.cancel(0.555, queued)
    events = server.advance(2.0)

    assert gone.state == "cancelled"
    assert gone.ended_at_s == pytest.approx(0.56)
    assert len(server.token_times(gone, 0.555)) == 55
    assert [event.job for event in events] == [waiting, waiting]
    assert waiting.started_at_s == pytest.approx(0.56)


def test_times_are_known_while_it_runs() -> None:
    """Tokens up to now can be asked for at any time, as can their number."""
    server, job = Server(STEP, vllm()), Job(10, 1000)
    server.submit(0.0, job)
    server.next_event_at()

    assert server.token_times(job, 0.005) == []
    server.advance(0.0155)
    server.next_event_at()
    assert server.token_times(job, 0.0155) == pytest.approx([0.01])
    assert len(server.token_times(job, 0.0555)) == 5
    assert server.output_tokens_total(0.0555) == 5


def test_the_pace_changes_with_the_batch() -> None:
    """The factor is asked when somebody joins or leaves, not for each step."""
    asked: list[float] = []

    def pace(server: Server) -> float:
        asked.append(server.now_s)
        return 2.0 if len(asked) == 1 else 1.0

    server, job = Server(STEP, vllm(), pace), Job(10, 5)
    replay(server, [(0.0, job)])

    assert asked == pytest.approx([0.0, 0.02])
    assert times(server, job) == pytest.approx([0.02, 0.03, 0.04, 0.05, 0.06])


def test_nothing_to_do_has_no_next_event() -> None:
    """An idle server waits for ever, and time may pass over it."""
    server = Server(STEP, vllm())

    assert server.next_event_at() is None
    assert server.advance(100.0) == []
    assert server.submit(200.0, Job(1, 1)) is None
    assert server.next_event_at() == pytest.approx(200.01)


def test_settings_that_cannot_work_are_refused() -> None:
    """A budget that decoding alone uses up, or no memory at all."""
    with pytest.raises(ValueError, match="max_batched_tokens"):
        Policy(slots=64, max_batched_tokens=64)
    with pytest.raises(ValueError, match="pool_tokens"):
        Policy(pool_tokens=8)
    with pytest.raises(ValueError, match="at least 1"):
        Policy(slots=0)
