"""The sequences that decode together, as sums: no sequence is touched in a step, however many there are.

Counts tokens and blocks; knows neither time nor who comes next.
"""

from __future__ import annotations

from heapq import heappop, heappush

from headcount.simulator.job import Job

__all__ = ["Batch"]


class Batch:
    """Every sequence in it writes one token a step. In step s the context of a job is ``job.base_tokens + s``."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.count = 0
        self.step = 0
        """Decoding steps taken since the server was made."""
        self._base_sum = 0
        self._allowed_sum = 0
        """Sum of join step + tokens still allowed then."""
        self._residues = [0] * (2 * block_tokens)
        """Sequences by ``base_tokens`` modulo the block size, written twice so that any window is one slice."""
        self._ends: list[tuple[int, int, Job]] = []
        """A heap of (last step, number, job); those who left early are still in it."""

    @property
    def next_contexts(self) -> int:
        """Sum of all contexts in the next step."""
        return self._base_sum + self.count * (self.step + 1)

    @property
    def allowed(self) -> int:
        """Tokens all together may still write."""
        return self._allowed_sum - self.count * self.step

    @property
    def steps_left(self) -> int:
        """Steps until the first sequence ends; may be too few, never too many. Only with somebody in it."""
        return self._ends[0][0] - self.step

    def growth(self, steps: int) -> int:
        """Blocks the batch takes up in the next ``steps`` steps: a sequence starts one when its last is full."""
        block = self.block_tokens
        rounds, rest = divmod(steps, block)
        blocks = self.count * rounds
        if rest:
            last = -self.step % block + block
            blocks += sum(self._residues[last - rest + 1 : last + 1])
        return blocks

    def steps_in_memory(self, steps: int, available: int) -> int:
        """Of ``steps`` steps, those for which ``available`` blocks suffice; at least 1."""
        if self.growth(steps) <= available:
            return steps
        low, high = 1, steps
        while high - low > 1:
            middle = (low + high) // 2
            if self.growth(middle) > available:
                high = middle
            else:
                low = middle
        return low

    def join(self, job: Job) -> None:
        """``job`` decodes from the next step on; its prompt is computed and a token of it is written."""
        step, block = self.step, self.block_tokens
        job.join_step = step
        job.base_tokens = base = job.prompt_tokens + job.written_tokens - 1 - step
        job.finish_step = step + job.output_tokens - job.written_tokens
        self.count += 1
        self._base_sum += base
        self._allowed_sum += step + job.limit_tokens - job.written_tokens
        residue = base % block
        self._residues[residue] += 1
        self._residues[residue + block] += 1
        heappush(self._ends, (job.finish_step, job.number, job))

    def leave(self, job: Job) -> None:
        """``job`` is out of the sums; what it has written is known from then on."""
        block = self.block_tokens
        steps = self.step - job.join_step
        self.count -= 1
        self._base_sum -= job.base_tokens
        self._allowed_sum -= job.join_step + job.limit_tokens - job.written_tokens
        residue = job.base_tokens % block
        self._residues[residue] -= 1
        self._residues[residue + block] -= 1
        job.written_tokens += steps
        job.finish_step = -1
        job.end_piece(steps)

    def leave_done(self) -> list[Job]:
        """Those who have written their last token leave, in the order of their admission."""
        ends, step = self._ends, self.step
        done = []
        while ends and ends[0][0] <= step:
            job = heappop(ends)[2]
            if job.state == "decoding" and job.finish_step == step:
                self.leave(job)
                done.append(job)
        return done
