"""Who may ask for what, and what is kept of who asked."""

from .actor import GIVEN, LOCAL, LONGEST_ACTOR, Actor, Channel, Scope

__all__ = ["GIVEN", "LOCAL", "LONGEST_ACTOR", "Actor", "Channel", "Scope"]
