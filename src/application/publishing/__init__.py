"""From an execution to its message, and what became of that."""
