"""The facts: what was asked, what came back, when. No conclusions, no methods but codecs.

Units live in the names: ``_s`` a duration in seconds, ``_at_s`` an instant in seconds since the run
began, ``_tokens``, ``_bytes``, ``_fraction`` (0..1). Unknown is ``None``, never 0.
Knows nothing of HTTP, statistics or files.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "ERROR_KINDS",
    "FORMAT_VERSION",
    "Conversation",
    "EngineFacts",
    "Gpu",
    "Level",
    "Message",
    "Prompt",
    "Reply",
    "Request",
    "RunFacts",
    "Sample",
    "Stage",
    "Turn",
]

FORMAT_VERSION = 1
"""Of the run folder; raised when a reader of the old one would misread the new one."""

ERROR_KINDS = (
    "server_error",  # an error object in the body or inside a stream, whatever the status said
    "truncated",  # the answer stopped without a terminal signal
    "empty",  # a complete answer without any output
    "timeout",  # one of our own time-outs ended it
    "disconnect",  # the connection failed or was closed before the answer began
    "context_overflow",  # the prompt no longer fits the model's context
    "client",  # our own fault: descriptors, local resources
    "cut",  # still running when its level ended
)
"""Besides these, ``http_503`` and its kin carry the status of a refused request."""


# --- what people say -------------------------------------------------------------------------


class Stage(msgspec.Struct, frozen=True):
    """One step of a turn outside the model: retrieval, a tool, speech. Never inside the answer's times."""

    name: str
    delay_s: float = 0.0
    """How long it takes where there is no ``url``."""
    url: str = ""
    """A real HTTP GET instead of a delay; empty for none."""
    after: bool = False
    """After the answer instead of before the question is sent."""


class Turn(msgspec.Struct, frozen=True):
    """One thing a person says, and how long the person pauses after the answer."""

    text: str
    max_output_tokens: int
    think_s: float
    """Pause after the answer has ended, before the next turn (or conversation) begins."""
    planned_prompt_tokens: int | None = None
    """What the text of this turn alone should cost in the server's tokens; None when not planned."""
    reading_s_per_token: float = 0.0
    """Added to ``think_s`` for each token of the answer: reading takes as long as the answer is."""
    cancel_after_s: float | None = None
    """The person gives up on an answer that has not ended by then, and goes on; None: waits for it."""
    stages: tuple[Stage, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    """Some turns one person speaks with one model, each sent with the history before it."""

    persona: str
    turns: tuple[Turn, ...]
    system: str = ""
    """A declared system prompt, shared by whoever declares it; empty for none."""
    planned_system_tokens: int | None = None
    """What it should cost in the server's tokens; None when not planned."""
    model: str | None = None
    """None: the engine's default model."""
    adapter: str | None = None
    streamed: bool = True
    language: str = ""
    """A key of the workload's languages; empty when unknown."""


Message = dict[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``"""


class Prompt(msgspec.Struct, frozen=True):
    """What one request asks of an engine."""

    messages: tuple[Message, ...]
    max_output_tokens: int
    streamed: bool = True
    model: str | None = None
    adapter: str | None = None


# --- what came back --------------------------------------------------------------------------


class Reply:
    """Filled by an engine as an answer arrives, so that a request which is cut keeps what was seen.

    An out-parameter, mutable on purpose. Instants are in seconds on the clock of the event loop
    (not yet relative to the run). ``error`` is None only for a complete, successful answer once
    ``Engine.send`` has returned.
    """

    __slots__ = (
        "began_at_s",
        "cached_tokens",
        "chunk_at_s",
        "coalesced",
        "connected_at_s",
        "ended_at_s",
        "error",
        "error_text",
        "finish_reason",
        "first_answer_at_s",
        "first_byte_at_s",
        "first_event_at_s",
        "output_tokens",
        "prompt_tokens",
        "resends",
        "sent_at_s",
        "server",
        "status",
        "text",
    )

    def __init__(self) -> None:
        self.began_at_s: float | None = None
        """When the request was written and a connection was asked for; None where there is no network."""
        self.connected_at_s: float | None = None
        """When a connection was ready for this request: ``began_at_s`` for a pooled one."""
        self.sent_at_s: float | None = None
        """When the last byte of the request was handed to the kernel."""
        self.first_byte_at_s: float | None = None
        self.first_event_at_s: float | None = None
        self.first_answer_at_s: float | None = None
        """First answer content; later than the first output behind a reasoning model."""
        self.chunk_at_s: list[float] = []
        """When each read that carried output came, one entry an output event (not a token)."""
        self.ended_at_s: float | None = None
        self.status: int | None = None
        self.text: list[str] = []
        """Pieces of answer text (not reasoning), joined when the answer becomes history."""
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.coalesced = False
        """Several output events came in one read: gaps between them say nothing."""
        self.resends = 0
        """Times the request was resent because a reused connection died before any response byte."""
        self.server: dict[str, float] | None = None
        """Server truth where offered, our names: ``ttft_s``, ``queue_s``, ``prefill_s``, ``decode_s``."""
        self.error: str | None = None
        self.error_text: str | None = None


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of one turn: when scheduled, when sent, when each chunk came, how it ended.

    All ``_at_s`` count from the run's beginning.
    """

    level: int
    person: int
    conversation: int
    """Counts the conversations of this person in this level, from 0."""
    turn: int
    """From 1."""
    scheduled_at_s: float
    """When the person pressed enter; latency counts from here."""
    ended_at_s: float
    """When it ended in whatever way: last byte, error, time-out, or the cut at the level's end."""
    persona: str = "chat"
    model: str | None = None
    adapter: str | None = None
    streamed: bool = True
    sent_at_s: float | None = None
    connect_s: float = 0.0
    """Time spent on opening a connection for this request; 0 for a pooled one."""
    first_byte_at_s: float | None = None
    first_event_at_s: float | None = None
    first_answer_at_s: float | None = None
    chunk_at_s: list[float] = []
    """One instant an output event; empty for a whole answer. A chunk may carry several tokens."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    token_source: Literal["server", "client", "unknown"] = "unknown"
    """``server``: the server's usage; ``client``: estimated from text; ``unknown``: neither."""
    planned_prompt_tokens: int | None = None
    """What this turn should add to the prompt: its text, and before the first turn the system prompt; None when not
    planned."""
    max_output_tokens: int | None = None
    output_chars: int = 0
    finish_reason: str | None = None
    status: int | None = None
    coalesced: bool = False
    resends: int = 0
    server: dict[str, float] | None = None
    error: str | None = None
    """None: a success. Otherwise one of ``ERROR_KINDS`` or ``http_<status>``."""
    error_text: str | None = None
    """The first 300 characters of what the server or our own network said."""
    think_s: float | None = None
    """The pause that was planned after this answer."""
    stage_s: dict[str, float] | None = None
    """What each stage of this turn took, by its name; None without stages."""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number at one time: GPU power, KV cache in use, waiting requests, event-loop lag."""

    at_s: float
    name: str
    """Ours, with its unit: ``gpu_power_w``, ``server_running_requests``, ``client_loop_lag_s`` …"""
    value: float
    of: str = ""
    """What it was measured on where there are several: a GPU's UUID, a load process, an adapter."""


class Level(msgspec.Struct, frozen=True, omit_defaults=True):
    """One amount of load held under one condition. Written when it begins and again as it goes on:
    of several lines with one ``index`` the last one holds."""

    index: int
    users: int
    began_at_s: float
    condition: str = ""
    words: str = ""
    """Levels of the same name say the same words, whatever their index; what stands after a bar in it changes first
    sentences alone. Empty: words of its own."""
    purpose: str = "measure"
    """``probe``, ``bracket``, ``refine``, ``confirm``, ``burst``, ``fixed`` …"""
    rate_per_s: float | None = None
    """New conversations per second in the open loop; None in the closed one."""
    arrivals: str = "closed"
    """When people come: ``closed`` (they stay), ``synchronised`` (they stay, some press enter together), ``finite``
    (all start, finish and leave), ``open`` (they arrive at a rate) or ``trace`` (they arrive as recorded)."""
    spread_s: float = 0.0
    """The starts of the people lie evenly over so long, so that nobody measures a start-up burst."""
    conversations_each: int | None = None
    """A finite test: each person holds so many conversations and leaves; None: they go on until stopped."""
    started_at_s: float | None = None
    """When every person had been started (the end of the spread); in a search for a rate, when as many leave as
    come."""
    stopped_at_s: float | None = None
    """When sending stopped; None while it runs, or when the run was killed."""
    drained_at_s: float | None = None
    """When nothing of ours, and nothing of the server's where it tells, was in flight any more."""
    ended: str = ""
    """Why it stopped: ``decided``, ``time``, ``finished`` (a finite test), ``interrupted`` or ``error``."""
    processes: int = 1


# --- what was measured -----------------------------------------------------------------------


class EngineFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of itself. None where it is not to be had."""

    engine: str
    """A key of ``ENGINES``: ``vllm``, ``llamacpp``, ``openai``, ``simulated`` …"""
    address: str = ""
    version: str | None = None
    model: str | None = None
    """The model that will be asked."""
    models: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    adapter_bases: dict[str, str] = {}
    context_tokens: int | None = None
    quantization: str | None = None
    slots: int | None = None
    """The most sequences the server runs at once."""
    kv_pool_tokens: int | None = None
    metrics: str = "absent"
    """``prometheus``, ``json``, ``protected``, ``malformed`` or ``absent``."""
    details: dict[str, Any] = {}
    """Whatever else changes the answer, by the server's own names: scheduler flags, dtype …"""


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU as it stood at the run's beginning."""

    uuid: str
    name: str
    memory_total_bytes: int | None = None
    power_limit_w: float | None = None
    power_default_limit_w: float | None = None
    temperature_slowdown_c: float | None = None
    temperature_shutdown_c: float | None = None
    driver: str | None = None
    holds_server: bool | None = None
    """Whether the server's processes were seen on it; None when that cannot be seen."""


class RunFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """``run.json``: what was measured, with what, from when on."""

    format_version: int
    headcount_version: str
    verb: str
    """``find``, ``run``, ``recheck``, or ``import``: another tool measured."""
    started_utc: str
    """ISO 8601; for people only, no duration is computed from it."""
    seed: int
    engine: EngineFacts
    slo: tuple[str, ...]
    simulated: bool = False
    gpus: tuple[Gpu, ...] = ()
    client: dict[str, Any] = {}
    """The client's own machine: cores, Python, processes."""
    notes: tuple[str, ...] = ()
    """What was learned before measuring: fields refused by the server, token calibration …"""
    template_tokens: int | None = None
    """What the server's chat template adds to a conversation of one message; None when it tells no counts."""
    engines: dict[str, EngineFacts] = {}
    """By condition, where a condition was held on another server than ``engine``, or with another model."""
