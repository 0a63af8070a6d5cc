"""Opening and closing connections, and the errors of both clients."""
