"""Who asks over HTTP, and whether they may. Routes need `needs` and `actor_of` alone."""

from .needs import actor_of, gate_of, needs

__all__ = ["actor_of", "gate_of", "needs"]
