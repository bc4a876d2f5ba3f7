"""The LoRA adapters on the GPU: a few places, the least recently used unneeded one gives way."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Adapters"]


class Adapters:
    """``slots`` places, None: any number. A sequence without an adapter needs none."""

    def __init__(self, slots: int | None) -> None:
        self.slots = slots
        self.in_use = 0
        """Sequences that run on an adapter."""
        self.loads_total = 0
        self._users: OrderedDict[str, int] = OrderedDict()
        """Sequences on each loaded adapter, the least recently taken first."""

    @property
    def at_once(self) -> int:
        """How many adapters sequences run on now."""
        return sum(count > 0 for count in self._users.values())

    def fits(self, adapter: str | None) -> bool:
        """Whether a sequence with ``adapter`` may run now."""
        users = self._users
        if adapter is None or self.slots is None or adapter in users or len(users) < self.slots:
            return True
        return any(not count for count in users.values())

    def take(self, adapter: str) -> bool:
        """A sequence starts on ``adapter``; True when it must be loaded first. Only where it fits."""
        users = self._users
        absent = adapter not in users
        if absent:
            if self.slots is not None and len(users) >= self.slots:
                del users[next(name for name, count in users.items() if not count)]
            users[adapter] = 0
            self.loads_total += 1
        users[adapter] += 1
        users.move_to_end(adapter)
        self.in_use += 1
        return absent

    def release(self, adapter: str) -> None:
        """A sequence on ``adapter`` has ended; it stays loaded."""
        self._users[adapter] -= 1
        self.in_use -= 1
