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
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import get_ident
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

import msgspec

from cronhare.domain.addresses import AllowedHosts
from cronhare.domain.texts.printable import printable, shortened

from .host_guard import HostGuard

#: Seconds before the end at which what has not answered is told as such.
MARGIN: Final = 0.5

#: Characters of what a service said.
LONGEST_REASON: Final = 300

#: Parts of an address that are so short are no secrets, but words and numbers: unless they are user
#: or password. Those are left out as whole words alone, as the gaps in words would tell them.
_SHORT: Final = 4

_MARKS: Final = re.compile(r"[/:@?&=#,;%\s]+")


class Errand(msgspec.Struct, kw_only=True):
    """A message for each of *urls*; without a *body* they are only read. *seconds* are all it has.

    *kind* is one of Apprise's: info, success, warning, failure.
    """

    urls: list[str]
    hosts: list[str]
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
    >>> redacted("Failed to reach my-t0k3n as me", "slack://me@host/my%2Dt0k3n")
    'Failed to reach … as …'
    """
    _, _, rest = url.partition("://")
    user = {form for part in _user_and_password(rest) for form in _forms(part)}
    for part in sorted({*_parts(rest), *user}, key=len, reverse=True):
        if len(part) >= _SHORT:
            text = text.replace(part, "…")
        elif part in user and part:
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "…", text)
    return shortened(printable(text), LONGEST_REASON)


def _parts(rest: str) -> Iterator[str]:
    """Give what stands between marks; a mark may itself have been encoded, or not be one."""
    for form in _forms(rest):
        yield from _MARKS.split(form)
    for part in re.split(r"[/:@?&=#]", rest):
        yield from _forms(part)


def _user_and_password(rest: str) -> Iterator[str]:
    whole, at, _ = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
    if at:
        user, _, password = whole.partition(":")
        yield from (user, password)


def _forms(text: str) -> Iterator[str]:
    """Give a text as it may be shown: services decode it once or twice, and encode it anew."""
    yield text
    for decode in (unquote, unquote_plus):
        once = decode(text)
        yield from (once, decode(once), quote(once), quote(once, safe=""))


def main() -> None:
    """Do one errand."""
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    end = time.monotonic() + errand.seconds
    signal.setitimer(signal.ITIMER_REAL, errand.seconds)  # it ends this process
    guard = HostGuard(AllowedHosts.parse(errand.hosts))
    said = _Said()
    failures = _send(errand, said, guard, end - MARGIN)
    sys.stdout.buffer.write(msgspec.json.encode(Answer(failures)))
    sys.stdout.flush()
    os._exit(0)  # no thread that hangs is waited for


def _send(errand: Errand, said: _Said, guard: HostGuard, end: float) -> list[str | None]:
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
        why = said.last.get(get_ident(), "it did not take the message")
        return "; ".join(filter(None, (why, guard.refusals.get(get_ident()))))

    with suppress(Exception):
        apprise.Apprise.instantiate("json://localhost", asset=asset)  # loads all plugins, once
    guard.keep()
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
