from cronhare.testing.plugin import cronhare  # as its entry point registers it

__all__ = ["cronhare"]
