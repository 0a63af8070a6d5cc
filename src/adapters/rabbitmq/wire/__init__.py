"""What goes over the wire: messages, properties, frames, and the arguments of queues."""
