"""Messages to services by the real Apprise, at a server of this test."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from threading import Event

import msgspec
import pytest

from cronhare.adapters.notify.apprise import AppriseSender, misunderstood
from cronhare.domain.addresses import LOCAL_SCHEMES, AppriseAddress
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.targets import ByApprise
from cronhare.ports.events import NotDelivered
from tests.services.webhooks import listening

pytest.importorskip("apprise")

SECRET = "c4naryc4naryc4nary"
EVENT = OutboxRow(
    event_key="failed:1:5",
    event="failed",
    target="ops",
    source="shop",
    scheduler_id=3,
    schedule_name="charge",
    execution_id=7,
    occurred_at=datetime(2026, 3, 2, 12, 0, tzinfo=UTC),
    payload='{"id":"failed:1:5","data":{"lastError":"boom"}}',
)


async def test_who_fails_or_hangs_keeps_no_other_from_hearing_and_is_told_again_alone() -> None:
    heard, ending = list[tuple[str, bytes]](), Event()

    def answer(path: str) -> int:
        if path == "/hang":
            ending.wait(300)
        return 404 if path.startswith("/no") else 200

    with listening(heard, answer) as port:
        urls = [f"json://127.0.0.1:{port}/{path}" for path in (f"no/{SECRET}", "yes", "hang")]
        means, sender = ByApprise(services=tuple(map(AppriseAddress.parse, urls))), AppriseSender()
        began = time.monotonic()
        with pytest.raises(NotDelivered) as failure:
            await sender.send(means, EVENT, within=timedelta(seconds=12))
        first, took = dict(heard), time.monotonic() - began
        heard.clear()
        with pytest.raises(NotDelivered):
            await sender.send(means, EVENT, within=timedelta(seconds=1.5))
        ending.set()

    assert took < 60, "a busy machine needs some time beside the 12 s"
    assert failure.value.in_part
    said = str(failure.value)
    assert said.startswith("2 of 3 services, json://…: Failed to send JSON")
    assert "error=404" in said
    assert SECRET not in said
    assert first.keys() == {"/hang", f"/no/{SECRET}", "/yes"}
    assert msgspec.json.decode(first["/yes"])["title"] == "charge failed: boom"
    assert "/yes" not in dict(heard)


def test_addresses_that_the_library_does_not_understand_are_told_and_nobody_is_asked() -> None:
    services = [*map(AppriseAddress.parse, ("nosuch://x", "tgram://x", "ntfy://topic"))]

    found = misunderstood(services, within=timedelta(seconds=30))

    assert found == ["Apprise does not understand this address"] * 2 + [None]


def test_all_that_reaches_this_machine_alone_is_refused() -> None:
    listing = (
        "from apprise.manager_plugins import NotificationManager as All; each = All();"
        "print(*(f'{name} {each[name].__name__}' for name in each.schemas()), sep='\\n')"
    )
    listed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", listing], capture_output=True, text=True, check=True
    )
    local = "Blink1 DBus GLib Gnome MacOSX Syslog Windows".split()  # noqa: SIM905

    found = dict(line.split() for line in listed.stdout.splitlines())

    schemes = {name for name, plugin in found.items() if plugin.removeprefix("Notify") in local}
    assert {"dbus", "syslog"} <= schemes <= LOCAL_SCHEMES
