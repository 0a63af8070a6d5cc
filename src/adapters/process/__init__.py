"""Running tasks as processes of their own."""
