"""A simulated server from options, and prompts in its terms: what the engine and the mock server share.

Knows nothing of clocks, connections and replies.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headcount.errors import ScenarioError
from headcount.records import ERROR_KINDS, Message
from headcount.simulator.cost import Cost
from headcount.simulator.job import Job
from headcount.simulator.pace import Pace
from headcount.simulator.policy import POLICIES, Policy
from headcount.simulator.profiles import PROFILES, Profile, profile_of
from headcount.simulator.server import Server
from headcount.simulator.words import MESSAGE_TOKENS, PROMPT_TOKENS, text_of, text_tokens

__all__ = ["Loading", "Options", "gauges_of", "job_of", "profile_for", "read_config", "read_options", "server_of"]


_Time = Annotated[float, Meta(ge=0, le=3600)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[engine.options]`` of the simulated engine. None: as the named server has it."""

    server: str = "home"
    """A key of ``PROFILES``: what everything below starts from."""
    gpu: str | None = None
    """A GPU of the catalogue; with the engine's model it takes the place of ``server``."""
    gpus: _Count = 1
    """Cards side by side."""
    quantization: str | None = None
    """One of the catalogue, where the model's name or configuration does not say it."""
    config_file: str | None = None
    """The model's ``config.json``, where it is not in the catalogue."""
    policy: str | None = None
    """A key of ``POLICIES``: schedule like that engine, with its defaults and the sizes below."""
    slots: _Count | None = None
    """Requests it works on at once."""
    kv_pool_tokens: _Count | None = None
    """Tokens whose keys and values fit into memory at once."""
    max_batched_tokens: _Count | None = None
    """The most tokens of one step, prompts' chunks included."""
    context_tokens: _Count | None = None
    """The longest that prompt and answer may become together."""
    block_tokens: _Count | None = None
    """Memory is handed out, and histories are known, in blocks of so many tokens."""
    queue_limit: Annotated[int, Meta(ge=0)] | None = None
    """Requests that may wait; more are refused with 503. None: as the policy has it, mostly any number."""
    prefix_cache: bool | None = None
    """Whether histories are found again."""
    overhead_s: _Time | None = None
    """What a step costs with nothing in it."""
    weights_s: _Time | None = None
    """Reading all weights once."""
    token_s: _Time | None = None
    """Multiplying one token with all weights."""
    sequence_s: _Time | None = None
    """What each sequence adds to a step."""
    context_token_s: _Time | None = None
    """Reading the keys and values of one token of context."""
    pair_s: _Time | None = None
    """Attention between one token of a prompt and one before it."""
    adapter_fraction: Annotated[float, Meta(ge=0, le=100)] | None = None
    """How much slower a step is with an adapter in it."""
    adapter_load_s: _Time | None = None
    """Bringing an adapter onto the GPU that is not there yet."""
    experts_s: _Time | None = None
    """Mixture of experts: reading all of them once."""
    expert_fraction: _Share | None = None
    """The share of them that one token visits."""
    batch_factor: tuple[tuple[int, float], ...] | None = None
    """(tokens of a step, factor on its time): where a calibration saw kernels leave the equation."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters by name."""
    seed: int = 1
    """Of everything random."""
    speed: Annotated[float, Meta(ge=0.001, le=1000)] = 1.0
    """Of the whole server; 0.9 is 10 % slower."""
    jitter: Annotated[float, Meta(ge=0, le=2)] = 0.02
    """Standard deviation of the logarithm of step times; one draw a change of the batch."""
    round_trip_s: _Time = 0.001
    """The way there and back; over HTTP the real one takes its place."""
    output_share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Mean of the written share of the tokens that were allowed."""
    output_spread: _Share = 0.0
    """The written share is uniform within this relative distance of its mean, at most 1."""
    tokens_per_chunk: _Count = 1
    usage: bool = True
    """False: the server tells no token counts."""
    load_s: float = 0.0
    """Loading the model, for which the first request waits, and any that come meanwhile."""
    unload_after_s: float | None = None
    """The model is unloaded when nobody asked for so long; None: never."""
    limit_factor: tuple[float, float] | None = None
    """How uncertain a limit is since the constants are: factors on the ends of its interval."""
    # --- sick servers ---
    drift_per_hour: Annotated[float, Meta(ge=-1, le=1e5)] = 0.0
    """Relative growth of all step times an hour."""
    leak_per_request: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Relative growth of all step times a finished request."""
    throttle_after_s: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    throttle_factor: Annotated[float, Meta(ge=0.01, le=1000)] = 1.5
    """Step times once throttled."""
    buffered: bool = False
    """A proxy holds every stream back until it is complete."""
    proxy_limit: _Count | None = None
    """A proxy lets so many requests through at once; the others wait unseen by the server's gauges."""
    stall_share: _Share = 0.0
    """Share of answers that pause once, in their middle, for ``stall_s``."""
    stall_s: _Time = 3.0
    """How long such a pause is."""
    error_share: _Share = 0.0
    """Share of requests that fail."""
    error_kind: str = "http_500"
    """``http_<status>``: refused at once; else an error kind an answer ends with after a third of its tokens."""
    error_every_s: Annotated[float, Meta(ge=0.001, le=86400)] | None = None
    """With it, errors come only in the first ``error_for_s`` of each such period."""
    error_for_s: _Time = 5.0


class Loading:
    """Whether the model is loaded, by when it was last asked."""

    def __init__(self, options: Options) -> None:
        self.used_at_s = 0.0
        """The end of the last answer."""
        self._options = options
        self._loaded_at_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        """How long a request that comes now waits for it; 0 when it is there."""
        keep_s = self._options.unload_after_s
        if self._loaded_at_s is None or (keep_s is not None and now_s - self.used_at_s > keep_s):
            self._loaded_at_s = self.used_at_s = now_s + self._options.load_s
        return max(0.0, self._loaded_at_s - now_s)


def profile_for(options: Options, model: str | None) -> Profile:
    """The named server, or the one of the options' hardware. ``ScenarioError`` when that does not fit or is unknown."""
    if options.gpu is None:
        return PROFILES[options.server]
    if model is None:
        raise ScenarioError("engine.options.gpu needs a model", 'for instance model = "Qwen3-8B-AWQ" in [engine]')
    sizes: dict[str, int] = {} if options.context_tokens is None else {"context_tokens": options.context_tokens}
    return profile_of(
        options.gpu,
        model,
        options.gpus,
        options.policy or "vllm",
        options.slots,
        quantization=options.quantization,
        config=None if options.config_file is None else read_config(options.config_file),
        **sizes,
    )


def read_config(path: str) -> dict[str, Any]:
    """A model's ``config.json``; ``ScenarioError`` when that cannot be read."""
    try:
        config = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise ScenarioError(
            f"{path} cannot be read: {error.strerror or error}", "give the model's config.json"
        ) from error
    except msgspec.DecodeError as error:
        raise ScenarioError(f"{path} is not JSON: {error}", "give the model's config.json") from error
    if not isinstance(config, dict):
        raise ScenarioError(f"{path} holds no JSON object", "give the model's config.json")
    return config


def server_of(options: Options, profile: Profile, single_steps: bool = False) -> Server:
    """The core server that ``profile`` and the options describe. ``ScenarioError`` for settings that cannot work."""
    pace = Pace(
        seed=options.seed,
        jitter=options.jitter,
        drift_per_hour=options.drift_per_hour,
        leak_per_request=options.leak_per_request,
        throttle_after_s=options.throttle_after_s,
        throttle_factor=options.throttle_factor,
    )
    return Server(_cost(profile.cost, options), _policy(profile, options), pace, single_steps)


def gauges_of(server: Server, now_s: float) -> dict[str, float]:
    """What the server would tell of itself, by our names; see ``Engine.gauges``."""
    return {
        "server_running_requests": float(len(server.running)),
        "server_waiting_requests": float(len(server.waiting)),
        "server_kv_used_fraction": server.kv_used_fraction,
        "server_adapters_in_use": float(server.adapters.at_once),
        "server_preemptions_total": float(server.preemptions_total),
        "server_prompt_tokens_total": float(server.prompt_tokens_total),
        "server_output_tokens_total": float(server.output_tokens_total(now_s)),
        "server_cache_hit_tokens_total": float(server.cached_tokens_total),
        "server_cache_query_tokens_total": float(server.prompt_tokens_total),
    }


def job_of(messages: Iterable[Message], limit_tokens: int, written_tokens: int, adapter: str | None = None) -> Job:
    """A request in the core's terms: its tokens, and the message boundaries histories are known by."""
    key: Hashable = adapter
    tokens = PROMPT_TOKENS
    path = []
    for message in messages:
        text = message["content"]
        key = hash((key, message["role"], text))
        tokens += MESSAGE_TOKENS + text_tokens(text)
        path.append((key, tokens))
    return Job(
        tokens,
        written_tokens,
        limit_tokens=limit_tokens,
        adapter=adapter,
        path=tuple(path),
        answer_key=hash((key, "assistant", text_of(written_tokens))),
    )


def read_options(given: dict[str, object]) -> Options:
    """From a scenario or from flags. Raises ``ScenarioError`` that names the option at fault and the nearest known."""
    known = Options.__struct_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ScenarioError(f"engine.options.{name} is not an option of the simulated engine", hint)
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise ScenarioError(_out_of_range(str(error), given), "see the reference of the simulated engine") from error
    if options.error_kind not in ERROR_KINDS and not re.fullmatch(r"http_[1-5]\d\d", options.error_kind):
        kinds = ", ".join(ERROR_KINDS)
        raise ScenarioError(f"engine.options.error_kind: {options.error_kind!r} is not known", f"http_503, {kinds}")
    for name, value, table in (("server", options.server, PROFILES), ("policy", options.policy, POLICIES)):
        if value is not None and value not in table:
            raise ScenarioError(f"engine.options.{name}: {value!r} is not known", f"known: {', '.join(table)}")
    return options


_EXPECTED = re.compile(r"Expected `(?P<kind>\w+)[^`]*`(?: (?P<sign>[<>]=?) (?P<bound>\S+))?.*`\$\.(?P<name>\w+)")
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "array": "a list"}
_SIGNS = {">=": " at least", "<=": " at most", ">": " above", "<": " below"}


def _out_of_range(message: str, given: dict[str, object]) -> str:
    """Which option cannot be what it is, in a sentence."""
    found = _EXPECTED.match(message)
    if found is None:
        return f"engine.options: {message}"
    bound = f"{_SIGNS[found['sign']]} {float(found['bound']):.15g}" if found["sign"] else ""
    name = found["name"]
    kind = _KINDS.get(found["kind"], found["kind"])
    return f"engine.options.{name} must be {kind}{bound}, not {given.get(name)!r}"


def _policy(profile: Profile, options: Options) -> Policy:
    """The profile's policy, or that of another engine with the profile's sizes, with what the options say."""
    asked = {
        "slots": options.slots,
        "pool_tokens": options.kv_pool_tokens,
        "max_batched_tokens": options.max_batched_tokens,
        "context_tokens": options.context_tokens,
        "block_tokens": options.block_tokens,
        "queue_limit": options.queue_limit,
        "prefix_cache": options.prefix_cache,
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    try:
        if options.policy is None or options.gpu is not None:
            return replace(profile.policy, **given)
        sizes = {name: getattr(profile.policy, name) for name in ("slots", "pool_tokens", "context_tokens")}
        policy = replace(POLICIES[options.policy](), **{**sizes, **given})
        return policy if policy.cached_sequences is None else replace(policy, cached_sequences=policy.slots)
    except ValueError as error:
        raise ScenarioError(f"engine.options: {error}", "change that option, or leave it out") from error


def _cost(cost: Cost, options: Options) -> Cost:
    names = Cost.__dataclass_fields__
    given = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}
    cost = replace(cost, **given)
    if options.speed <= 0:
        raise ScenarioError(f"engine.options.speed must be above 0, not {options.speed}", "1 is the usual speed")
    scaled = {name: getattr(cost, name) / options.speed for name in names if name.endswith("_s")}
    return replace(cost, **scaled)
