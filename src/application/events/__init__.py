"""Telling targets of events: `announcing` finds out of what, `relay` does it."""
