"""What a GPU's power limit is and may be, and the two ways to set it: by the driver, or by a command of the user's.

Setting a limit is the driver's to allow: it mostly wants root. Knows nothing of when limits change and return.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import pynvml

from headcount.errors import ScenarioError

__all__ = ["Board", "ByCommand", "ByDriver", "Setter", "boards"]

_COMMAND_TIMEOUT_S = 30.0
_WORDS = {"gpu": "GPU-0", "watts": "100"}


class Board(msgspec.Struct, frozen=True):
    """One GPU whose power can be limited; watts."""

    uuid: str
    name: str
    limit_w: float
    default_limit_w: float | None
    least_w: float | None
    """The driver takes nothing below; None where it does not tell."""
    most_w: float | None

    def check(self, limit_w: float) -> None:
        """``ScenarioError`` for what the driver would refuse."""
        low, high = self.least_w or 0.0, self.most_w or float("inf")
        if not low <= limit_w <= high:
            raise ScenarioError(
                f"{self.name} takes no power limit of {limit_w:g} W",
                f"give limits from {low:g} to {high:g} W",
            )


class Setter(Protocol):
    """One way to set a limit."""

    def set(self, uuid: str, limit_w: float) -> None:
        """Set it now. ``ScenarioError`` when it was refused."""


def boards(uuids: Sequence[str] = ()) -> tuple[Board, ...]:
    """The GPUs with these UUIDs, or all; in the driver's order.

    Raises ``ScenarioError`` where there is no driver, or a GPU whose power cannot be limited.
    """
    with _driver():
        found = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        chosen = [handle for handle in found if not uuids or pynvml.nvmlDeviceGetUUID(handle) in uuids]
        return tuple(map(_board, chosen))


class ByDriver:
    """Through the driver's library."""

    def set(self, uuid: str, limit_w: float) -> None:
        """See ``Setter``."""
        with _driver():
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            try:
                pynvml.nvmlDeviceSetPowerManagementLimit(handle, round(1e3 * limit_w))
            except pynvml.NVMLError_NoPermission as error:
                raise ScenarioError(
                    "the driver lets only an administrator set a power limit",
                    "run as root, or say how to set it: --power-command 'sudo nvidia-smi -i {gpu} -pl {watts}'",
                ) from error


class ByCommand:
    """By a command such as ``sudo nvidia-smi -i {gpu} -pl {watts}``; run without a shell."""

    def __init__(self, command: str) -> None:
        """Raises ``ScenarioError`` for a command that names no watts."""
        self.command = command
        try:
            missing = "{watts}" not in command or not shlex.split(command.format(**_WORDS))
        except (KeyError, IndexError, ValueError):
            missing = True
        if missing:
            raise ScenarioError(
                f"--power-command {command!r} does not say where the watts go",
                "for instance: --power-command 'sudo nvidia-smi -i {gpu} -pl {watts}'",
            )

    def set(self, uuid: str, limit_w: float) -> None:
        """See ``Setter``."""
        words = [word.format(gpu=uuid, watts=f"{limit_w:g}") for word in shlex.split(self.command)]
        hint = "run it yourself to see what is wrong"
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ScenarioError(f"{shlex.join(words)} did not run: {error}", hint) from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise ScenarioError(f"{shlex.join(words)} ended with {done.returncode}: {' '.join(said[-1:])}", hint)


def _board(handle: Any) -> Board:
    name = pynvml.nvmlDeviceGetName(handle)
    try:
        limit_w = pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3
    except pynvml.NVMLError_NotSupported as error:
        raise ScenarioError(f"the power of {name} cannot be limited", "leave this GPU out: --gpu UUID") from error
    least_w = most_w = default_w = None
    with contextlib.suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        least_w, most_w = (mw / 1e3 for mw in pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle))
    with contextlib.suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        default_w = pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1e3
    return Board(pynvml.nvmlDeviceGetUUID(handle), name, limit_w, default_w, least_w, most_w)


@contextlib.contextmanager
def _driver() -> Iterator[None]:
    """The driver's library, open; what it refuses is a ``ScenarioError``."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise ScenarioError(
            f"no NVIDIA driver answers here: {error}",
            "measure on the server's own machine, or set the limits there by hand: --power-by-hand",
        ) from error
    try:
        yield
    except pynvml.NVMLError as error:
        raise ScenarioError(f"the NVIDIA driver refused: {error}", "see nvidia-smi -q -d POWER") from error
    finally:
        pynvml.nvmlShutdown()
