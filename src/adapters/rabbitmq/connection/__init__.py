"""How a connection is found, opened, guarded and given up."""
