"""For backoff strategies of one's own: how long to wait before a retry.

A jobs file names a function as `strategy = "module:function"`. The worker calls it in a process of
its own (ADR 7), as `python -m cronhare.strategy module:function`, after each
attempt that is to be retried:

    def polite(attempts_made, error_type, error, job):
        if error_type == "TooManyRequests":
            return error.retry_after_ms        # milliseconds, or a timedelta
        return None                            # as the retry policy says

*attempts_made* counts the one that failed too. *error_type* is the name of its exception, else its
code, else how it ended, as `timed-out`. *error* has `message`, `code`, `types`, `error_class`,
`ending`, `exit_code`, `signal` and `retry_after_ms`; *job* has `name`, `type`, `id`, `schedule`,
`scheduler_id`, `execution_id`, `key`, `attempt`, `params`, `policy_wait_ms`. Imports only the
standard library.
"""

import os
import sys
from types import SimpleNamespace

__all__ = ["main", "wait_in_ms"]

# In milliseconds: thirty years. The worker knows what is too long; this is about numbers.
_TOO_LONG = 1e12


def main(name: str, given: dict[str, object]) -> str:
    """Call the function *name* with what is *given*, and say what it answers.

    Raises:
        Exception: whatever the function raises; `ValueError` if it answers no wait.
    """
    from importlib import import_module  # noqa: PLC0415 - after stdout is out of reach

    module, _, function = name.partition(":")
    strategy = getattr(import_module(module), function)
    wait = wait_in_ms(
        strategy(
            given["attempts_made"],
            given["error_type"],
            SimpleNamespace(**given["error"]),  # type: ignore[arg-type]
            SimpleNamespace(**given["job"]),  # type: ignore[arg-type]
        )
    )
    return "no wait of its own" if wait is None else f"wait {wait} ms"


def wait_in_ms(answer: object) -> int | None:
    """Give an answer as whole milliseconds; None leaves the wait to the policy.

    Raises:
        ValueError: it is no wait.
    """
    if answer is None:
        return None
    number = answer
    if hasattr(answer, "total_seconds"):
        number = answer.total_seconds() * 1000
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not 0 <= number < _TOO_LONG
    ):
        text = repr(answer)
        raise ValueError(f"{text[:200]} is no wait: give milliseconds, a timedelta or None")
    return int(-(-number // 1))


if __name__ == "__main__":
    import json

    # What the function prints is no answer: it goes where errors go.
    _answers = os.dup(1)
    os.dup2(2, 1)
    _said = main(sys.argv[1], json.load(sys.stdin))
    os.write(_answers, f"{_said}\n".encode())
    sys.exit(0)
