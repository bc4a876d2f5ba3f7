"""What holds for any load on any policy: strides equal single steps, no block is lost, nobody starves."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.simulator.cost import Cost
from headcount.simulator.job import Job
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.server import Server

COST = Cost(
    overhead_s=0.00213,
    weights_s=0.00571,
    token_s=0.0000437,
    sequence_s=0.0000519,
    context_token_s=1.03e-6,
    pair_s=1.7e-8,
    adapter_fraction=0.11,
    adapter_load_s=0.0171,
)

Load = list[tuple[float, int, int, int, str | None, float | None]]
"""(pause before it, prompt, output, conversation, adapter, pause until its client goes away)."""


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Any engine, often short of memory, slots and budget."""
    name = draw(st.sampled_from(sorted(POLICIES)))
    slots = draw(st.integers(1, 8))
    if name in ("llamacpp", "ollama"):
        given: dict[str, Any] = {"context_tokens": draw(st.integers(200, 900))}
        if name == "llamacpp":
            given["unified"] = draw(st.booleans())
            given["context_tokens"] *= slots
        return POLICIES[name](slots=slots, **given)
    return POLICIES[name](
        slots=slots,
        pool_tokens=draw(st.one_of(st.integers(200, 600), st.integers(600, 2000))),
        max_batched_tokens=draw(st.integers(16, 300)),
        prefix_cache=draw(st.booleans()),
        adapter_slots=draw(st.integers(1, 2)),
        queue_limit=draw(st.sampled_from([None, 0, 3])),
    )


def loads() -> st.SearchStrategy[Load]:
    """Bursts and pauses; some continue a conversation, some use an adapter, some are given up."""
    pause = st.one_of(st.just(0.0), st.floats(0.0001234, 0.5017), st.floats(0.5017, 20.0331))
    request = st.tuples(
        pause,
        st.integers(1, 90),
        st.integers(1, 120),
        st.integers(0, 9),
        st.sampled_from([None, None, "law", "tax", "art"]),
        st.one_of(st.none(), st.none(), st.floats(0.00777, 3.0131)),
    )
    return st.lists(request, min_size=1, max_size=25)


def play(policy: Policy, load: Load, single_steps: bool, check: bool = False) -> tuple[list[Job], Server]:
    """Run ``load`` to its end. Later requests of a conversation contain the earlier ones."""
    server = Server(COST, policy, pace=_Wobble(), single_steps=single_steps)
    histories: dict[tuple[int, str | None], tuple[tuple[object, int], ...]] = {}
    actions: list[tuple[float, int, str, Job]] = []
    at_s = 0.0
    for number, (pause_s, prompt, output, conversation, adapter, patience_s) in enumerate(load):
        at_s += pause_s
        path = histories.get((conversation, adapter), ())
        length = (path[-1][1] if path else 0) + prompt
        path = (*path, ((conversation, adapter, number), length))
        job = Job(length, output, limit_tokens=output + number % 7, adapter=adapter, path=path, answer_key=number)
        histories[conversation, adapter] = (*path, (number, length + output))
        actions.append((at_s, 2 * number, "submit", job))
        if patience_s is not None:
            actions.append((at_s + patience_s, 2 * number + 1, "cancel", job))
    for at_s, _, what, job in sorted(actions, key=lambda action: action[:2]):
        while (due_s := server.next_event_at()) is not None and due_s <= at_s:
            server.advance(due_s)
            if check:
                check_blocks(server)
        if what == "submit":
            server.submit(at_s, job)
        elif job.state not in ("finished", "refused"):
            server.cancel(at_s, job)
    while (due_s := server.next_event_at()) is not None:
        server.advance(due_s)
        if check:
            check_blocks(server)
    return [job for _, _, what, job in actions if what == "submit"], server


class _Wobble:
    """Step times that differ from batch to batch."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, server: Server) -> float:
        self.calls += 1
        return 1.0 + 0.01 * (self.calls * 7 % 11)


def check_blocks(server: Server) -> None:
    """Every block is free, held by exactly one sequence, or in the tree."""
    pool, block = server.pool, server.policy.block_tokens
    held = 0
    for job in server.running:
        length = job.prompt_tokens + job.written_tokens
        if job.state == "decoding":
            length += server.batch.step - job.join_step - 1
        held += -(-length // block) - (job.node.end // block if job.node is not None else 0)
    nodes = list(pool.nodes())
    assert pool.held == held
    assert pool.in_tree == sum(node.blocks for node in nodes)
    assert pool.locked == sum(node.blocks for node in nodes if node.locks)
    assert all(node.blocks >= 0 and node.locks >= 0 and node.children >= 0 for node in nodes)
    assert pool.held + pool.in_tree <= pool.total
    assert len(server.running) <= server.policy.slots


@settings(max_examples=150, deadline=None)
@given(policies(), loads())
def test_strides_equal_single_steps(policy: Policy, load: Load) -> None:
    """Whatever happens: the same states, and every instant the same to 1e-9 s."""
    strides, fast = play(policy, load, single_steps=False)
    singles, slow = play(policy, load, single_steps=True)

    assert [job.state for job in strides] == [job.state for job in singles]
    assert [job.preemptions for job in strides] == [job.preemptions for job in singles]
    assert [job.cached_tokens for job in strides] == [job.cached_tokens for job in singles]
    for one, other in zip(strides, singles, strict=True):
        for name in ("started_at_s", "first_token_at_s", "ended_at_s"):
            mine, theirs = getattr(one, name), getattr(other, name)
            assert (mine is None) == (theirs is None)
            assert mine is None or abs(mine - theirs) < 1e-9
        mine, theirs = fast.token_times(one, 1e9), slow.token_times(other, 1e9)
        assert len(mine) == len(theirs)
        assert all(abs(a - b) < 1e-9 for a, b in zip(mine, theirs, strict=True))


@settings(max_examples=150, deadline=None)
@given(policies(), loads())
def test_no_block_is_lost_and_nobody_starves(policy: Policy, load: Load) -> None:
    """Through evictions and preemptions the blocks add up, and every request taken ends."""
    jobs, server = play(policy, load, single_steps=False, check=True)

    assert {job.state for job in jobs} <= {"finished", "cancelled", "refused"}
    assert not server.waiting
    assert not server.running
    assert (server.pool.held, server.pool.locked) == (0, 0)
    for job in jobs:
        if job.state == "finished":
            times = server.token_times(job, 1e9)
            assert len(times) == job.output_tokens
            assert times == sorted(times)
            assert (times[0], times[-1]) == (job.first_token_at_s, job.ended_at_s)
