"""Metrics for Prometheus, by its own client; `catalogue.py` has all names."""
