"""Consuming: a subscription that outlives its connections, and how much it holds."""
