"""Messages to services by Apprise, each in a child process with a deadline."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from typing import Final

import msgspec

from cronhare.domain.addresses.web import AppriseAddress
from cronhare.domain.events.outbox import OutboxRow, RunEnd
from cronhare.domain.events.targets import ByApprise
from cronhare.domain.texts.words import counted
from cronhare.ports.events import NotDelivered

from .apprise_child import Answer, Errand
from .mail import PartlyTaken
from .words import spoken

#: Children at a time: each loads the library.
MOST_AT_A_TIME: Final = 4

#: Seconds beyond the timeout in which a child that ends itself is waited for.
MARGIN: Final = 2.0

#: What a child needs to find its interpreter's libraries, a resolver and a CA: no settings, as its
#: environment can be read by tasks of the same user.
_PASSED: Final = frozenset(
    "HOME LANG PATH PYTHONHOME PYTHONPATH SSL_CERT_DIR SSL_CERT_FILE TMPDIR TZ".split()  # noqa: SIM905
)


class Children:
    """Those that run; once ended, none is let run that was just being started."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = set[subprocess.Popen[bytes]]()
        self._is_over = False

    def add(self, child: subprocess.Popen[bytes]) -> None:
        """Take a child that was started."""
        with self._lock:
            self._running.add(child)
            if self._is_over:
                child.kill()

    def remove(self, child: subprocess.Popen[bytes]) -> None:
        """Let go of one that has ended."""
        with self._lock:
            self._running.discard(child)

    def end(self) -> None:
        """End those that run, and those to come."""
        with self._lock:
            self._is_over = True
            for child in self._running:
                with suppress(OSError):
                    child.kill()


class AppriseSender:
    """Sends messages, and remembers which services have taken one that others have not."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_AT_A_TIME, thread_name_prefix="apprise")
        self._children = Children()
        self._partly = PartlyTaken()

    async def send(
        self, means: ByApprise, event: OutboxRow, end: RunEnd | None = None, *, within: timedelta
    ) -> None:
        """Send a message of an event to each service that has not taken it yet.

        Raises:
            NotDelivered: one did not take it, or not in time.
        """
        if means.lacks is not None:
            raise NotDelivered(means.lacks)
        place = event.event_key, event.target
        took = self._partly.takers(place)
        left = [each for each in means.services if each.url not in took]
        message = spoken(event, end)
        errand = Errand(
            urls=[each.url for each in left],
            seconds=within.total_seconds(),
            title=message.title,
            body=message.body,
            kind=message.kind,
        )
        loop = asyncio.get_running_loop()
        failures = await loop.run_in_executor(self._threads, self._run, errand)
        new = [each.url for each, failure in zip(left, failures, strict=True) if failure is None]
        self._partly.note(place, took | {*new}, is_over=not any(failures))
        _judge(means.services, left, failures)

    def close(self) -> None:
        """End what still runs, or is just being started."""
        self._children.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, errand: Errand) -> Sequence[str | None]:
        return run(errand, children=self._children)


def run(errand: Errand, *, children: Children | None = None) -> Sequence[str | None]:
    """Let a child do an errand; answers why each address was not told, None if it was."""
    children = children or Children()
    command = [sys.executable, "-P", "-m", "cronhare.adapters.notify.apprise_child"]
    try:
        child = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(os.environ),
            start_new_session=True,  # a Ctrl-C is for us to handle
        )
    except OSError as error:
        return [f"this machine begins no process for it: {error.strerror}"] * len(errand.urls)
    children.add(child)
    try:
        said, _ = child.communicate(msgspec.json.encode(errand), timeout=errand.seconds + MARGIN)
        return msgspec.json.decode(said, type=Answer).failures
    except (subprocess.TimeoutExpired, msgspec.DecodeError, BrokenPipeError):
        return ["it took longer than the timeout, or its process was ended"] * len(errand.urls)
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):  # what it was not given is lost with it
                if pipe is not None:
                    pipe.close()
        children.remove(child)


def misunderstood(services: Sequence[AppriseAddress], *, within: timedelta) -> Sequence[str | None]:
    """Ask the library whether it understands addresses; tells nobody anything."""
    urls = [each.url for each in services]
    return run(Errand(urls=urls, seconds=within.total_seconds()))


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    passed = {name: text for name, text in ours.items() if name in _PASSED or name[:3] == "LC_"}
    passed["NETRC"] = os.devnull  # passwords of other programs
    if "SSL_CERT_FILE" in passed:
        passed["REQUESTS_CA_BUNDLE"] = passed["SSL_CERT_FILE"]
    return passed


def _judge(
    all_: Sequence[AppriseAddress],
    left: Sequence[AppriseAddress],
    failures: Sequence[str | None],
) -> None:
    failed = [
        f"{service}: {failure}"
        for service, failure in zip(left, failures, strict=True)
        if failure is not None
    ]
    if failed:
        text = f"{len(failed)} of {counted(len(all_), 'service')}, {'; '.join(failed)}"
        raise NotDelivered(text, in_part=len(failed) < len(left))
