"""Running tasks as processes of their own."""

from .runner import ProcessRunner

__all__ = ["ProcessRunner"]
