"""Messages to services by the real Apprise, at a server of this test."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import attrs
import msgspec
import pytest

from cronhare.adapters.notify.apprise import AppriseSender, misunderstood
from cronhare.domain.addresses import LOCAL_SCHEMES, AppriseAddress
from cronhare.domain.events.outbox import OutboxRow
from cronhare.domain.events.targets import ByApprise
from cronhare.ports.events import NotDelivered

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


@attrs.define
class Sink:
    port: int = 0
    heard: list[tuple[str, bytes]] = attrs.field(factory=list)
    answered: list[str] = attrs.field(factory=list)
    ending: Event = attrs.field(factory=Event)

    def means(self, *paths: str) -> ByApprise:
        urls = [f"json://127.0.0.1:{self.port}/{path}" for path in paths]
        return ByApprise(services=tuple(map(AppriseAddress.parse, urls)))

    @property
    def paths(self) -> list[str]:
        return sorted(path for path, _ in self.heard)


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sink.heard.append((self.path, body))
            if self.path == "/hang":
                sink.ending.wait(300)
            sink.answered.append(self.path)
            self.send_response(404 if self.path.startswith("/no") else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.port = server.server_port
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield sink
    sink.ending.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def sender() -> AppriseSender:
    return AppriseSender()


async def test_who_fails_or_hangs_keeps_no_other_from_hearing_and_is_told_again_alone(
    sink: Sink, sender: AppriseSender
) -> None:
    means, began = sink.means(f"no/{SECRET}", "yes", "hang"), time.monotonic()

    with pytest.raises(NotDelivered) as failure:
        await sender.send(means, EVENT, within=timedelta(seconds=12))

    assert "/hang" not in sink.answered, "it is not waited for: it hangs still"
    assert time.monotonic() - began < 60, "a busy machine needs some time beside the 12 s"
    assert failure.value.in_part
    said = str(failure.value)
    assert said.startswith("2 of 3 services, json://…: Failed to send JSON")
    assert "error=404" in said
    assert SECRET not in said
    assert sink.paths == ["/hang", f"/no/{SECRET}", "/yes"]
    assert msgspec.json.decode(dict(sink.heard)["/yes"])["title"] == "charge failed: boom"

    sink.heard.clear()
    with pytest.raises(NotDelivered):
        await sender.send(means, EVENT, within=timedelta(seconds=1.5))
    assert "/yes" not in sink.paths


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
