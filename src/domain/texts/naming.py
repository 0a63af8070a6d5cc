"""How a task is called where people see it: one rule for lists, pages, metrics and statistics."""


def called(ref: object, *, name: str | None = None, topic: str | None = None) -> str:
    """Call a task by the *topic* it hears of, else by its *name* in a jobs file, else by number.

    Who listens to a topic may be another task tomorrow.

    >>> called("report 25"), called("worker 1", name="backup"), called("event 7", topic="paid")
    ('report 25', 'backup', 'paid')
    """
    return topic or name or str(ref)


def called_in_full(ref: object, *, name: str | None, source: str | None) -> str:
    """Call a task by all that is known of it, beside its topic where it hears of one.

    >>> called_in_full("worker 1", name="backup", source="jobs.toml")
    'backup of jobs.toml (worker 1)'
    >>> called_in_full("report 25", name=None, source=None)
    'report 25'
    """
    of_source = f" of {source}" if source else ""
    return f"{name}{of_source} ({ref})" if name else f"{ref}{of_source}"
