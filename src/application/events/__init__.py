"""Telling targets of events: `announcing` finds out of what, `telling` does it."""
