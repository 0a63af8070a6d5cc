"""Consuming: subscriptions that survive their connections, within a prefetch."""
