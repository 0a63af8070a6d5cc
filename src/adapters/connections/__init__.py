"""Connections to servers whose talk is bounded: in time, and in bytes."""
