"""A shop whose background work is written in Python: jobs.py."""
