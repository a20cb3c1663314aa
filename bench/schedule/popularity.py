"""How often each adapter is asked for: Zipf-Mandelbrot, the share of rank k goes by (k + shift)^-exponent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Popularity:
    """A curve over ``adapters`` adapters; ``shift`` flattens its top."""

    exponent: float
    shift: float
    adapters: int

    @property
    def weights(self) -> list[float]:
        """The share of each adapter, most popular first."""
        raw = [(rank + self.shift) ** -self.exponent for rank in range(1, self.adapters + 1)]
        total = sum(raw)
        return [weight / total for weight in raw]

    def top(self, adapters: int) -> float:
        """The share of the most popular ones together."""
        return sum(self.weights[:adapters])


SERVICE_A = Popularity(exponent=1.04797, shift=4.0765, adapters=10_000)
"""A long tail as seen in production: 146 adapters make half of the calls, 1,100 three quarters."""
SERVICE_B = Popularity(exponent=1.17031, shift=0.09477, adapters=10_000)
"""Another one: 13 adapters make half of the calls, 152 three quarters."""
ZIPF = Popularity(exponent=1.0, shift=0.0, adapters=1_000)
"""The textbook's."""
