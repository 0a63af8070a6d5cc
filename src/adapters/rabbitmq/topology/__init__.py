"""Declaring queues, exchanges and bindings without changing existing ones, and inspecting them."""
