"""Publishing with confirms, from a thread and from an event loop."""
