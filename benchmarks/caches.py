"""The cron engine's caches, which a second measurement must not find full."""

from cronhare.domain.cron import calendar, expression, text, timeline


def empty_caches() -> None:
    for module in (text, expression, calendar, timeline):
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
