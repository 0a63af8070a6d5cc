"""What goes over the wire: messages, their properties and frames, and what queues are asked."""
