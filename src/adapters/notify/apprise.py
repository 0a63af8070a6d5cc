"""Messages to services by Apprise, each in a child process with a deadline."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec

from cronhare.domain.addresses import AppriseAddress
from cronhare.domain.events.outbox import OutboxRow, RunEnd
from cronhare.domain.events.targets import ByApprise
from cronhare.domain.texts.words import counted
from cronhare.ports.events import NotDelivered

from .apprise_child import Errand
from .mail import PartlyTaken, spoken

#: Children at a time: each loads the library.
MOST_AT_A_TIME: Final = 4

#: Seconds beyond the timeout in which a child that ends itself is waited for.
MARGIN: Final = 2.0

#: What a child needs to find its interpreter's libraries, a resolver and a CA: no settings, as its
#: environment can be read by tasks of the same user.
_PASSED: Final = frozenset(
    "HOME LANG PATH PYTHONHOME PYTHONPATH SSL_CERT_DIR SSL_CERT_FILE TMPDIR TZ".split()  # noqa: SIM905
)


class AppriseSender:
    """Sends messages, and remembers which services have taken one that others have not."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST_AT_A_TIME)
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
        async with self._places:
            failures = await run(errand)
        answers = list(zip(left, failures, strict=True))
        new = [service.url for service, failure in answers if failure is None]
        failed = [f"{service}: {failure}" for service, failure in answers if failure is not None]
        self._partly.note(place, took | {*new}, is_over=not failed)
        if failed:
            of = counted(len(means.services), "service")
            text = f"{len(failed)} of {of}, {'; '.join(failed)}"
            raise NotDelivered(text, in_part=bool(new))


async def run(errand: Errand) -> Sequence[str | None]:
    """Let a child do an errand; answers why each address was not told, None if it was."""
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "cronhare.adapters.notify.apprise_child"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=_environment(os.environ),
            start_new_session=True,  # a Ctrl-C is for us to handle
        )
    except OSError as error:
        return [f"this machine begins no process for it: {error.strerror}"] * len(errand.urls)
    try:
        async with asyncio.timeout(errand.seconds + MARGIN):
            said, _ = await child.communicate(msgspec.json.encode(errand))
        return msgspec.json.decode(said, type=list[str | None])
    except (TimeoutError, msgspec.DecodeError):
        return ["it took longer than the timeout, or its process was ended"] * len(errand.urls)
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def misunderstood(services: Sequence[AppriseAddress], *, within: timedelta) -> Sequence[str | None]:
    """Ask the library whether it understands addresses; tells nobody anything."""
    urls = [each.url for each in services]
    return asyncio.run(run(Errand(urls=urls, seconds=within.total_seconds())))


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    passed = {name: text for name, text in ours.items() if name in _PASSED or name[:3] == "LC_"}
    passed["NETRC"] = os.devnull  # passwords of other programs
    if "SSL_CERT_FILE" in passed:
        passed["REQUESTS_CA_BUNDLE"] = passed["SSL_CERT_FILE"]
    return passed
