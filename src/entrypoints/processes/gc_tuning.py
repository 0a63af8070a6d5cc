"""The garbage collector of a process that lives long and makes ten thousand values in a minute."""

import gc

#: So many new values it lets pass before it looks for cycles: few of ours are in one.
EVERY = 10_000


def spare() -> None:
    """Leave alone what was loaded so far, and look seldom at the rest.

    To walk through all of it again and again would take an eighth of a busy minute.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(EVERY, *gc.get_threshold()[1:])
