"""Who may ask for what, and what is kept of who asked."""

from .actor import LOCAL, LONGEST_ACTOR, Actor, Channel, Scope

__all__ = ["LOCAL", "LONGEST_ACTOR", "Actor", "Channel", "Scope"]
