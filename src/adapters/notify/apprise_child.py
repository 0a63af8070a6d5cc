"""`python -m cronhare.adapters.notify.apprise_child`: sends one message to services by Apprise.

A process of its own, as the library blocks and may hang: it ends at its deadline, whatever a
service does. It reads an `Errand` from standard input and writes what became of each address, in
order: null if it was told, else why not. No secret is in its arguments, environment or answer.
"""

import logging
import os
import re
import signal
import sys
import time
from contextlib import suppress
from threading import Thread, get_ident
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
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    end = time.monotonic() + errand.seconds
    signal.setitimer(signal.ITIMER_REAL, errand.seconds)  # it ends this process
    failures = _send(errand, _Said(), end - MARGIN)
    sys.stdout.buffer.write(msgspec.json.encode(failures))
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
    failures: list[str | None] = ["it took longer than the timeout"] * len(errand.urls)

    def note(place: int, url: str) -> None:
        failure = tell(url)
        failures[place] = None if failure is None else redacted(failure, url)

    threads = [Thread(target=note, args=each, daemon=True) for each in enumerate(errand.urls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return failures


if __name__ == "__main__":
    main()
