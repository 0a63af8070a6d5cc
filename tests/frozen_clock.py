"""The clock that moves by calls alone: that of the fixture for our users."""

from cronhare.testing.clock import FrozenClock

__all__ = ["FrozenClock"]
