"""`python -m cronhare.adapters.notify.apprise_child`: sends one message to services by Apprise.

A process of its own, as the library blocks and may hang: it ends at its deadline, whatever a
service does. It reads `Errand` from standard input and writes an `Answer`; no secret is in its
arguments, its environment or its answer.
"""

import logging
import os
import re
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import get_ident
from typing import Final
from urllib.parse import unquote

import msgspec

from cronhare.domain.texts.printable import printable, shortened

#: Seconds before the end at which what has not answered is told as such.
MARGIN: Final = 0.5

#: Characters of what a service said.
LONGEST_REASON: Final = 300

#: Characters of a part of an address that may be a secret; shorter ones are words and numbers.
SHORTEST_SECRET: Final = 4

_MARKS: Final = re.compile(r"[/:@?&=#,;%\s]+")


class Errand(msgspec.Struct, kw_only=True):
    """A message for each of *urls*; without a *body* they are only read. *seconds* are all it has.

    *kind* is one of Apprise's: info, success, warning, failure.
    """

    urls: list[str]
    seconds: float
    title: str = ""
    body: str = ""
    kind: str = "info"


class Answer(msgspec.Struct):
    """What became of each address, in order: None if it was told, or else why not."""

    failures: list[str | None]


class _Said(logging.Handler):
    """Keeps the last warning of each thread: the library says in its log alone why it failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = dict[int, str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.last[get_ident()] = record.getMessage()


def redacted(text: str, url: str) -> str:
    """Leave out of a text what stands in an address behind its scheme, as written and as decoded.

    >>> redacted("Failed to reach T0K3NT0K3N: 404", "slack://T0K3NT0K3N/x")
    'Failed to reach …: 404'
    """
    _, _, rest = url.partition("://")
    parts = {part for form in (rest, unquote(rest)) for part in _MARKS.split(form)}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= SHORTEST_SECRET:
            text = text.replace(part, "…")
    return shortened(printable(text), LONGEST_REASON)


def main() -> None:
    """Do one errand."""
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    end = time.monotonic() + errand.seconds
    signal.setitimer(signal.ITIMER_REAL, errand.seconds)  # it ends this process
    failures = _send(errand, _Said(), end - MARGIN)
    sys.stdout.buffer.write(msgspec.json.encode(Answer(failures)))
    sys.stdout.flush()
    os._exit(0)  # no thread that hangs is waited for


def _send(errand: Errand, said: _Said, end: float) -> list[str | None]:
    import apprise  # noqa: PLC0415 - of an extra, and slow: it is this process's whole purpose

    log = logging.getLogger("apprise")
    log.handlers, log.propagate = [said], False
    asset = apprise.AppriseAsset(async_mode=False, secure_logging=True, plugin_paths=[])

    def tell(url: str) -> str | None:
        service = apprise.Apprise.instantiate(url, asset=asset)
        if service is None:
            return "Apprise does not understand this address"
        if not errand.body:
            return None
        try:
            if service.notify(
                body=errand.body, title=errand.title, notify_type=apprise.NotifyType(errand.kind)
            ):
                return None
        except Exception as error:  # noqa: BLE001 - of any of a hundred plugins
            said.last[get_ident()] = f"{type(error).__name__}: {error}"
        return said.last.get(get_ident(), "it did not take the message")

    with suppress(Exception):
        apprise.Apprise.instantiate("json://localhost", asset=asset)  # loads all plugins, once
    pool = ThreadPoolExecutor(max_workers=len(errand.urls) or 1)
    asked = [(url, pool.submit(tell, url)) for url in errand.urls]
    return [_outcome(url, answer, end) for url, answer in asked]


def _outcome(url: str, answer: "Future[str | None]", end: float) -> str | None:
    try:
        failure = answer.result(timeout=max(0.0, end - time.monotonic()))
    except TimeoutError:
        failure = "it took longer than the timeout"
    return None if failure is None else redacted(failure, url)


if __name__ == "__main__":
    main()
