"""The factor that keeps small gradients above the least number that fp16 can hold: pure."""

from dataclasses import dataclass, replace

_GROWTH_ROUNDS = 2000
_FIRST = 2.0**8
"""Lower than where others begin: losses are sums over tokens here, and means there."""
_LARGEST = 2.0**24


@dataclass(frozen=True, slots=True)
class LossScale:
    """Doubles after 2000 rounds without overflow, halves at each (Micikevicius et al. 2018, "Mixed Precision Training",
    section 3.2). Powers of two, so that scaling rounds nothing."""

    scale: float = _FIRST
    finite_rounds: int = 0
    """Since the last change."""

    def after(self, finite: bool) -> "LossScale":
        """For the next round, when this one's gradients were `finite` or not."""
        if not finite:
            return LossScale(max(1.0, self.scale / 2))
        if self.finite_rounds + 1 < _GROWTH_ROUNDS:
            return replace(self, finite_rounds=self.finite_rounds + 1)
        return LossScale(min(_LARGEST, self.scale * 2))
