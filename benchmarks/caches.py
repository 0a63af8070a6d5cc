"""The cron engine's caches, which a second measurement must not find full."""

from cronhare.domain.cron import days, expression, fields, items, months, timeline


def empty_caches() -> None:
    for module in (items, fields, expression, days, months, timeline):
        for thing in vars(module).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
