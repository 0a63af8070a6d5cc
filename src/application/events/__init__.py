"""Telling targets of events: `announce` finds out of what, `relay` does it."""
