"""Crontabs of the classic daemons, read and carried over into a jobs file."""
