"""What a retry policy comes to, for people: its runs and waits (S0.13 in docs/compatibility.md)."""

from datetime import timedelta
from itertools import islice
from typing import Final

from .backoff import Jitter
from .retry import RetryPolicy

#: So many waits are listed; a policy may have nineteen.
MOST_LISTED: Final = 6

_SPREAD: Final = {
    Jitter.NONE: "",
    Jitter.PLUS: "; each up to 10 % longer",
    Jitter.BOTH: "; each up to 10 % shorter or longer",
    Jitter.FULL: "; each anything up to that",
}
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def retry_facts(policy: RetryPolicy) -> str:
    """Say how often a task runs and how long it waits in between.

    >>> retry_facts(RetryPolicy())
    '4 runs, waits 30 s, 1 min, 2 min, 3 min 30 s in all'
    >>> retry_facts(RetryPolicy(attempts=1))
    '1 run, no retry'
    """
    if not policy.max_retries:
        return "1 run, no retry"
    waits = [policy.backoff.unspread(retry) for retry in range(1, policy.attempts)]
    listed = [say_wait(wait) for wait in islice(waits, MOST_LISTED)]
    if len(waits) > MOST_LISTED:
        listed[-1] = "…"
    if len(waits) > 1:
        listed.append(f"{say_wait(sum(waits, timedelta(0)))} in all")
    return f"{policy.attempts} runs, waits {', '.join(listed)}{_SPREAD[policy.backoff.jitter]}"


def say_wait(wait: timedelta) -> str:
    """Say a wait in words.

    >>> [say_wait(timedelta(seconds=seconds)) for seconds in (0, 22.5, 303.75, 3600)]
    ['0 s', '22.5 s', '5 min 3.75 s', '1 h']
    """
    milliseconds, words = wait // timedelta(milliseconds=1), list[str]()
    for unit, length in _UNITS:
        number, milliseconds = divmod(milliseconds, length)
        if number:
            words.append(f"{number} {unit}")
    if milliseconds or not words:
        words.append(f"{milliseconds / 1000:g} s")
    return " ".join(words)
