"""What a server's owner pays: electricity and hardware, in a currency of their own. Knows nothing of watts measured."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["MONTH_S", "Prices"]

MONTH_S = 365.25 * 86_400 / 12
_J_PER_KWH = 3.6e6

Amount = Annotated[float, Meta(ge=0)]


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[prices]``: what the owner pays, in a currency of their own."""

    currency: str = "EUR"
    electricity_per_kwh: Amount = 0.0
    hardware_price: Amount = 0.0
    """Of the whole machine."""
    hardware_months: Annotated[int, Meta(ge=1)] = 48
    """Over which it is written off."""
    further_power_w: Amount = 0.0
    """What the machine draws besides its GPUs."""

    def per_s(self, power_w: float) -> float:
        """What a second costs at so many watts: electricity, and the hardware's share."""
        electricity = power_w * self.electricity_per_kwh / _J_PER_KWH
        return electricity + self.hardware_price / (self.hardware_months * MONTH_S)
