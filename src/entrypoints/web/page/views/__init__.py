"""The views, each a module with its `routes`."""
