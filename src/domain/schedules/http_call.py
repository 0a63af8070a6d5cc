"""A task that is a request over HTTP, as a jobs file describes it."""

from collections.abc import Mapping
from typing import Final

import attrs

from ..addresses import WebAddress
from ..retries.outcome import ErrorClass
from ..texts import http_header

#: What a request may do; no other method has an answer that we could judge.
METHODS: Final = ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")

#: Methods that are sent without a body: their params go nowhere.
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "DELETE"})

#: Headers that say which attempt it is, in small letters: ours to say.
OUR_HEADERS: Final = frozenset(
    {
        "idempotency-key",
        "cron-execution-id",
        "cron-execution-key",
        "cron-attempt",
        "cron-due-at",
        "cron-fence",
        "cron-topic",
    }
)

#: Headers that a task may give its request: each attempt adds ours, and a Content-Type.
MOST_HEADERS: Final = http_header.MOST_HEADERS - len(OUR_HEADERS) - 1

STATUSES: Final = range(100, 600)
SUCCESS: Final = frozenset(range(200, 300))

#: Others of 400 and above may pass: an answer says what the server can do now.
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 501})
_TOO_MANY: Final = 429
_REDIRECTS: Final = range(300, 400)


@attrs.frozen(kw_only=True)
class HttpCall:
    """What is asked of whom, and which statuses of the answer are a success.

    *headers_env* names, by header, the variable of the worker's environment that has its value:
    no secret stands in a file, a log or the ledger.
    """

    address: WebAddress
    method: str = METHODS[0]
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    headers_env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    success: frozenset[int] = SUCCESS


def class_of_status(status: int) -> ErrorClass:
    """Say whether it is worth asking again after such an answer.

    >>> class_of_status(503), class_of_status(404), class_of_status(429)
    (<ErrorClass.TRANSIENT: 'transient'>, <ErrorClass.PERMANENT: 'permanent'>, \
<ErrorClass.RATE_LIMITED: 'rate-limited'>)
    """
    if status == _TOO_MANY:
        return ErrorClass.RATE_LIMITED
    if status in _FOR_GOOD or status in _REDIRECTS:  # where it leads is not followed
        return ErrorClass.PERMANENT
    return ErrorClass.TRANSIENT


def code_of_status(status: int) -> str:
    """Name a status as an error's code, by which a jobs file can give it another class."""
    return f"HTTP{status}"
