"""A model server as arithmetic: steps, batches, memory, queues. Standard library only; knows no clock, no network.

One ``Server`` is driven by whoever holds a clock: the virtual loop (``engine.simulated``), the wall clock
(the mock server) or a list of arrivals (``drive``).
"""
