"""The engine core: continuous batching in virtual time, exact, and in strides from event to event.

A driver submits jobs, asks for the next event, and advances; calls must come in order of time. Between two
events nothing changes but the contexts, each by one token a step: a whole stride of steps is taken at once,
and the times of all of them are known. Knows no clock and no asyncio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headcount.simulator.adapters import Adapters
from headcount.simulator.batch import Batch
from headcount.simulator.cost import Cost
from headcount.simulator.job import Event, Job, Refusal, Span
from headcount.simulator.policy import Policy
from headcount.simulator.pool import Pool

__all__ = ["Server"]


class Server:
    """One model server with its queue, batch and memory.

    ``pace`` gives the factor on step times, asked whenever the batch changes: jitter, drift, throttling.
    ``single_steps`` takes every step on its own: slow, and equal to the strides to rounding.
    """

    def __init__(
        self, cost: Cost, policy: Policy, pace: Callable[[Server], float] | None = None, single_steps: bool = False
    ) -> None:
        self.cost = cost
        self.policy = policy
        self.pool = Pool(policy.pool_tokens // policy.block_tokens, policy.block_tokens, policy.cached_sequences)
        self.adapters = Adapters(policy.adapter_slots)
        self.now_s = 0.0
        """The last step boundary."""
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, None] = {}
        """Admitted, in order of admission."""
        self.finished_total = 0
        self.preemptions_total = 0
        self.prompt_tokens_total = 0
        """Prompts whose answers have begun."""
        self.cached_tokens_total = 0
        self._output_tokens_total = 0
        self._pace = pace
        self._factor = 1.0
        self._changed = True
        self._single = single_steps
        self._admitted = 0
        self._prefilling: list[Job] = []
        self._parked: list[Job] = []
        self._leaving: list[Job] = []
        self._events: list[Event] = []
        self._loading_s = 0.0
        self._blocked = False
        """The head of the queue waits for memory: later arrivals cannot be admitted before something ends."""
        self._preempted_at_s = -1.0
        self.batch = Batch(policy.block_tokens)
        self._tail = Span(0.0, 0.0, 0.0, 0)
        # The stride under way; None between strides.
        self._span: Span | None = None
        self._chunks: list[tuple[Job, int]] = []
        self._decodes = False

    # --- what a driver calls ---------------------------------------------------------------

    def refusal(self, job: Job) -> Refusal | None:
        """Why ``job`` would not be taken now; None when it would."""
        policy = self.policy
        longest = job.prompt_tokens + (1 if policy.prompt_only_limit else job.limit_tokens)
        if longest > min(policy.context_tokens, self.pool.total * policy.block_tokens):
            return "context_overflow"
        if policy.queue_limit is not None:
            free = 0 if self._blocked else policy.slots - len(self.running)
            if len(self.waiting) - free >= policy.queue_limit:
                return "queue_full"
        return None

    def submit(self, now_s: float, job: Job) -> Refusal | None:
        """Take ``job`` at ``now_s``; None, or why it was refused. Events up to ``now_s`` stay for ``advance``."""
        self._catch_up(now_s)
        refused = self.refusal(job)
        if refused:
            job.state, job.submitted_at_s, job.ended_at_s = "refused", now_s, now_s
            return refused
        policy = self.policy
        room = min(policy.context_tokens, self.pool.total * policy.block_tokens) - job.prompt_tokens
        job.output_tokens = max(1, min(job.output_tokens, job.limit_tokens, room))
        job.limit_tokens = min(job.limit_tokens, room)
        job.submitted_at_s = now_s
        job.state = "waiting"
        job.todo_tokens = job.prompt_tokens
        self.waiting.append(job)
        if self._span is None:
            self.now_s = max(self.now_s, now_s)
        elif not self._blocked and len(self.running) < policy.slots:
            self._stop_by(now_s)
        return None

    def cancel(self, now_s: float, job: Job) -> None:
        """Its client has gone: ``job`` leaves with the step under way and gives no more events."""
        self._catch_up(now_s)
        if job.state == "waiting":
            self.waiting.remove(job)
            self._blocked = False
            job.state, job.ended_at_s = "cancelled", now_s
        elif job in self.running:
            self._leaving.append(job)
            self._stop_by(now_s)
            if self._span is None:
                self._let_go()

    def next_event_at(self) -> float | None:
        """When something happens next if nobody submits or cancels; None: never."""
        if self._events:
            return self._events[0].at_s
        span = self._span or self._compose()
        return span.ended_at_s if span else None

    def advance(self, to_s: float) -> list[Event]:
        """Let time pass up to ``to_s`` and give what happened since the last call, in order."""
        self._catch_up(to_s)
        events, self._events = self._events, []
        return events

    def token_times(self, job: Job, until_s: float) -> list[float]:
        """When each token of ``job`` was written, those after ``until_s`` left out."""
        return job.token_times(until_s, self._span if self._decodes else None)

    def output_tokens_total(self, now_s: float) -> int:
        """Tokens written up to ``now_s``, the stride under way included."""
        span = self._span
        if span is None or not self._decodes or now_s <= span.began_at_s:
            return self._output_tokens_total
        step = span.steps_until(now_s)
        return self._output_tokens_total + self.batch.count * (step if span.end_s(step) <= now_s else step - 1)

    @property
    def kv_used_fraction(self) -> float:
        """The share of blocks sequences run on; idle histories count as free."""
        return 1.0 - self.pool.available / self.pool.total

    # --- strides ---------------------------------------------------------------------------

    def _catch_up(self, to_s: float) -> None:
        while True:
            span = self._span
            if span is None:
                if self.now_s >= to_s:
                    return
                span = self._compose()
                if span is None:
                    return
            if span.ended_at_s > to_s:
                return
            self._commit(span)

    def _stop_by(self, at_s: float) -> None:
        """End the stride under way with the step in which ``at_s`` falls; one that has not begun is dropped."""
        span = self._span
        if span is not None and span.began_at_s >= at_s:
            self._span = None
        elif span is not None and span.steps > 1:
            span.take(max(1, span.steps_until(at_s)))

    def _compose(self) -> Span | None:
        """Decide the next step or stride from ``now_s``; None when there is nothing to do.

        May be called again at the same boundary when more has arrived: what was admitted stays admitted.
        """
        if not self.running and not self.waiting:
            return None
        pool, policy, cost, batch = self.pool, self.policy, self.cost, self.batch
        if batch.count > pool.available:
            self._secure_next_step()
        if self._prefilling or self.waiting or self._parked:
            tokens, pairs = self._fill()
        else:
            tokens, pairs, self._chunks = 0, 0.0, []
        chunks = self._chunks
        count = 0 if chunks and policy.prefill_alone else batch.count
        self._decodes = count > 0
        if not count and not chunks:
            return None
        if self._pace is not None and self._changed:
            self._factor = self._pace(self)
            self._changed = False
        first_s = cost.step_s(count + tokens, count + len(chunks), self.adapters.in_use > 0) + cost.pair_s * pairs
        if count:
            first_s += cost.context_token_s * batch.next_contexts
        growth_s = cost.context_token_s * count
        factor = self._factor
        steps = 1
        if not chunks and not self._single and not self._loading_s and self._preempted_at_s != self.now_s:
            steps = batch.steps_left
            if steps * count > pool.available:
                steps = batch.steps_in_memory(steps, pool.available)
        self._span = span = Span(self.now_s, first_s * factor + self._loading_s, growth_s * factor, steps)
        return span

    def _commit(self, span: Span) -> None:
        """The stride under way has ended: move the clock, write the tokens, see who is done."""
        batch = self.batch
        self._span = None
        self.now_s = now_s = span.ended_at_s
        self._loading_s = 0.0
        if self._decodes:
            pool = self.pool
            pool.held += batch.growth(span.steps)
            if pool.held + pool.in_tree > pool.total:
                pool.make_room()
            batch.step += span.steps
            self._output_tokens_total += batch.count * span.steps
            self._tail.next = span
            self._tail = span
        if self._leaving:
            self._let_go()
        if self._chunks:
            self._changed = True
            for job, chunk in self._chunks:
                job.todo_tokens -= chunk
                if not job.todo_tokens and job.state == "prefilling":
                    self._join(job)
        for job in batch.leave_done():
            self._finish(job, now_s)

    # --- admission -------------------------------------------------------------------------

    def _fill(self) -> tuple[int, float]:
        """Give the step's token budget to prompts, those begun first; tokens and pairs they take."""
        policy = self.policy
        if self._parked and not self.batch.count and not self._prefilling:
            self._unpark()
        self._chunks = []
        whole = budget = policy.max_batched_tokens - (0 if policy.prefill_alone else self.batch.count)
        pairs = 0.0
        for job in self._prefilling:
            if not budget:
                break
            chunk = min(job.todo_tokens, budget)
            pairs += self._give(job, chunk)
            budget -= chunk
        admitting = not self._blocked and self._preempted_at_s != self.now_s
        index = 0
        while admitting and budget > 0 and index < len(self.waiting) and len(self.running) < policy.slots:
            job = self.waiting[index]
            if not self.adapters.fits(job.adapter):
                index += 1
                continue
            if not self._admit(job):
                self._blocked = True
                break
            del self.waiting[index]
            if job.state == "prefilling":
                chunk = min(job.todo_tokens, budget)
                pairs += self._give(job, chunk)
                budget -= chunk
        return whole - budget, pairs

    def _give(self, job: Job, chunk: int) -> float:
        """Put ``chunk`` tokens of ``job`` into the step; the pairs they cost."""
        self._chunks.append((job, chunk))
        return chunk * (job.prompt_tokens + job.written_tokens - job.todo_tokens + 0.5 * chunk)

    def _admit(self, job: Job) -> bool:
        """Move ``job`` from the queue into the batch if its prompt fits into memory."""
        pool, policy, block = self.pool, self.policy, self.policy.block_tokens
        length = job.prompt_tokens + job.written_tokens
        node, beyond = pool.find(job.path, length) if policy.prefix_cache else (None, ())
        shared = node.end // block if node is not None else 0
        need = -(-length // block) - shared
        spare = pool.available - pool.unlocked_blocks(node)
        if not policy.prefill_alone:
            spare -= self.batch.growth(1)
        if policy.reserve_fraction and self.running:
            spare -= self._reserved_blocks(job)
        if need > spare:
            return False
        job.beyond = beyond
        if node is not None:
            pool.lock(node)
            job.node = node
        pool.held += need
        if pool.held + pool.in_tree > pool.total:
            pool.make_room()
        hit = min(shared, (length - 1) // block) * block
        job.todo_tokens = length - hit
        self._admitted += 1
        job.number = self._admitted
        if job.started_at_s is None:
            job.started_at_s = self.now_s
            job.cached_tokens = hit
            self.prompt_tokens_total += job.prompt_tokens
            self.cached_tokens_total += hit
        if job.adapter is not None and self.adapters.take(job.adapter):
            self._loading_s += self.cost.adapter_load_s
        first = next((other for other in self.running if other.state != "parked"), job)
        together = policy.mixed_adapters or job.adapter == first.adapter
        job.state = "prefilling" if together else "parked"
        (self._prefilling if together else self._parked).append(job)
        self.running[job] = None
        return True

    def _reserved_blocks(self, job: Job) -> int:
        """Blocks admission keeps free for the answers of those running and of ``job``."""
        allowed = self.batch.allowed
        allowed += sum(other.limit_tokens - other.written_tokens for other in self._prefilling)
        allowed += job.limit_tokens - job.written_tokens
        return int(self.policy.reserve_fraction * allowed) // self.policy.block_tokens

    def _unpark(self) -> None:
        """The last sequence of one adapter has ended: the longest parked one decides which is next."""
        adapter = self._parked[0].adapter
        for job in [other for other in self._parked if other.adapter == adapter]:
            self._parked.remove(job)
            job.state = "prefilling"
            self._prefilling.append(job)

    # --- joining, leaving, preemption --------------------------------------------------------

    def _join(self, job: Job) -> None:
        """The prompt is computed and the next token written: decode from here, or be done."""
        now_s = self.now_s
        self._prefilling.remove(job)
        self._blocked = False
        self._output_tokens_total += 1
        job.written_tokens += 1
        if job.beyond:
            job.node = self.pool.extend(job.node, job.beyond)
        job.pieces.append((now_s, self._tail, -1))
        if job.first_token_at_s is None:
            job.first_token_at_s = now_s
            self._events.append(Event(now_s, "first_token", job))
        job.state = "decoding"
        if job.written_tokens == job.output_tokens:
            job.end_piece(0)
            self._finish(job, now_s)
        else:
            self.batch.join(job)

    def _finish(self, job: Job, now_s: float) -> None:
        if job.answer_key is not None and job.node is not None:
            end = job.prompt_tokens + job.written_tokens - 1
            job.node = self.pool.extend(job.node, ((job.answer_key, end),))
        self._release(job)
        job.state, job.ended_at_s = "finished", now_s
        self.finished_total += 1
        self._events.append(Event(now_s, "finished", job))

    def _release(self, job: Job) -> None:
        """Give back blocks, history, adapter and slot."""
        pool, block = self.pool, self.policy.block_tokens
        del self.running[job]
        length = job.prompt_tokens + max(0, job.written_tokens - (job.state == "decoding"))
        pool.held -= -(-length // block) - (job.node.end // block if job.node is not None else 0)
        if job.node is not None:
            pool.unlock(job.node)
            job.node = None
        if job.adapter is not None:
            self.adapters.release(job.adapter)
        self._blocked = False
        self._changed = True

    def _take_out(self, job: Job) -> None:
        """Out of the batch before its end, whatever it was doing."""
        if job.state == "decoding":
            self.batch.leave(job)
        elif job.state == "prefilling":
            self._prefilling.remove(job)
        else:
            self._parked.remove(job)
        self._release(job)

    def _let_go(self) -> None:
        """Those whose clients have gone leave."""
        for job in self._leaving:
            if job in self.running:
                self._take_out(job)
                job.state, job.ended_at_s = "cancelled", self.now_s
        self._leaving.clear()

    def _secure_next_step(self) -> None:
        """See that every decoding sequence can write one more token: let idle histories go, then preempt."""
        pool = self.pool
        while len(self.running) > 1 and self.batch.growth(1) > pool.available:
            job = next(reversed(self.running))
            self._take_out(job)
            job.state = "waiting"
            job.preemptions += 1
            job.todo_tokens = job.prompt_tokens + job.written_tokens
            self.waiting.appendleft(job)
            self.preemptions_total += 1
            self._preempted_at_s = self.now_s
