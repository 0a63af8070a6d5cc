"""What is sent to open pages: over real sockets, and where it is shared out."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import pytest

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.page import live as live_parts
from cronhare.entrypoints.web.page.live import (
    MOST_LISTENERS,
    PARTS,
    Event,
    OutputFeed,
    PartsFeed,
)
from cronhare.entrypoints.web.page.views import live
from cronhare.ports.runner import Captured, Written
from tests.actors import ADA
from tests.integration.ledgers import Ledger
from tests.integration.web import SECONDS, site
from tests.services.finding import wait_until


@pytest.fixture
def container(on_sqlite: Settings) -> Container:
    return Container(settings=on_sqlite)


def opened(port: int, query: str) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    link.sendall(f"GET /ui/live?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return link


def until(link: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found and (more := link.recv(65_536)):
        found += more
    return found


def test_a_page_gets_all_parts_at_once_and_a_shutdown_ends_it(container: Container) -> None:
    with site(container) as web:
        link = opened(web.port, "feed=now")
        head, _, body = until(link, b"}\n\n").partition(b"\r\n\r\n")
        assert b"200 OK" in head
        assert b"text/event-stream" in head
        [data] = [line for line in body.splitlines() if line.startswith(b"data: ")]
        assert json.loads(data.removeprefix(b"data: "))["parts"].keys() == {*PARTS}
        began = time.monotonic()

    assert time.monotonic() - began < 3
    assert until(link, b"0\r\n\r\n") == b"0\r\n\r\n"
    link.close()


def test_alerts_are_sent_as_the_page_has_them(container: Container) -> None:
    with site(container) as web, opened(web.port, "feed=alerts") as link:
        assert b"Nobody has judged the ledger so far" in until(link, b"}\n\n")


def test_alerts_that_a_filter_takes_are_sent_and_no_others(container: Container) -> None:
    feed = quote("alerts?severity=critical")
    with site(container) as web, opened(web.port, f"feed={feed}") as link:
        assert f'data-feed="{unquote(feed)}"' in web.get("/ui/alerts?severity=critical").text
        assert b"No alert is like that" in until(link, b"}\n\n")


def parts_of(found: bytes) -> dict[str, str]:
    [data] = [line for line in found.splitlines() if line.startswith(b"data: ")]
    parts: dict[str, str] = json.loads(data.removeprefix(b"data: "))["parts"]
    return parts


def test_the_page_of_a_schedule_changes_while_one_looks(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LESS_OFTEN", 0.05)
    draft = ScheduleDraft(name="nightly", task=TaskRef("report", 25), schedule="0 2 * * *")
    now = container.claims().now()
    container.schedules().save([draft], source=None, now=now)
    [stored] = container.schedules().schedules(["nightly"])
    with site(container) as web, opened(web.port, f"feed=schedule-{stored.id}") as link:
        page = web.get("/ui/schedules/nightly").text
        named = {*re.findall(r'data-part="(\w+)"', page)}

        assert f'data-feed="schedule-{stored.id}"' in page
        assert parts_of(until(link, b"}\n\n")).keys() == named - {"standing"}  # which is empty
        container.administrator().pause({"nightly": None}, by="ada", reason="moving", actor=ADA)
        changed = parts_of(until(link, b"}\n\n"))

    assert {"standing", "state"} <= changed.keys() < named
    assert "moving" in changed["state"]


def test_a_stream_ends_after_a_while_so_that_who_reads_it_is_looked_at_again(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_parts, "LONGEST", 0.2)
    with site(container) as web, opened(web.port, "feed=now") as link:
        assert until(link, b"0\r\n\r\n").endswith(b"0\r\n\r\n")


def test_what_cannot_be_listened_to_is_refused(container: Container) -> None:
    with site(container) as web:
        ids = ("0x1", "7", "9" * 99, "7&feed=now", "x&feed=now")
        feeds = (
            "schedule-7",
            "schedule-0",
            "schedule-x",
            "alerts%3Fseverity%3Dbad",
            "alerts%3Fx=1",
            "alerts%3Fschedule=nobody",
            "alerts%3Fseverity=critical%26severity=warning",
        )
        for query in (
            "",
            "?feed=x",
            *(f"?feed={feed}" for feed in feeds),
            *(f"?execution={id_}" for id_ in ids),
        ):
            assert web.get(f"/ui/live{query}").status == 404, query


async def in_place(question: Callable[[], Any]) -> Any:  # noqa: ANN401
    return question()


async def test_all_who_look_share_what_was_rendered_and_are_sent_what_changed() -> None:
    looks, every = list[str](), 0.05
    streams = live_parts.Streams(in_place, asyncio.Event())

    def render() -> tuple[datetime, dict[str, str]]:
        looks.append("look")
        number = f"{len(looks)} <time>{len(looks)} s ago</time>"
        return datetime(2026, 3, 2, tzinfo=UTC), {"a": number, "b": "the same"}

    first, second = (PartsFeed(streams.look("x", render, every=every)) for _ in range(2))
    both = [await each.new() for each in (first, second)]
    assert (len(looks), both[0]) == (1, both[1])
    assert json.loads(both[0][0].data)["parts"].keys() == {"a", "b"}

    await asyncio.sleep(every)
    assert json.loads((await first.new())[0].data)["parts"].keys() == {"a"}
    assert len(looks) == 2


def test_too_many_live_pages_are_refused_and_a_place_is_free_again(container: Container) -> None:
    with site(container) as web:
        links = [opened(web.port, "feed=now") for _ in range(MOST_LISTENERS)]
        for link in links:
            assert b" 200 " in until(link, b"\r\n\r\n")
        refused = web.get("/ui/live?feed=now")
        assert (refused.status, "32 pages are live already" in refused.text) == (503, True)
        for link in links:
            link.close()

        def is_free() -> bool:
            with opened(web.port, "feed=now") as link:
                return b" 200 " in until(link, b"\r\n\r\n")

        wait_until(is_free, seconds=5, what="a free place")


async def test_output_comes_line_by_line_and_goes_on_where_it_was_left(memory: Ledger) -> None:
    started = memory.running("a")

    def feed(after: str | None) -> OutputFeed:
        return OutputFeed(in_place, memory.records, started.id, after=after)

    def write(text: str) -> None:
        stdout = Captured(head=text, bytes=len(text), lines=text.count("\n"))
        written = Written(execution_id=started.id, attempt=1, stdout=stdout)
        memory.attempts.keep_written([written], now=memory.now, node="ant")

    def names(events: Sequence[Event]) -> list[str]:
        return [event.name for event in events]

    listening = feed(None)
    assert names(await listening.new()) == ["anew", "state"]
    assert await listening.new() == []
    write("one\ntw")
    [line] = await listening.new()
    write("one\n</script>two\n")
    [two] = await listening.new()
    assert json.loads(two.data)["text"] == "</script>two"
    assert names(await feed(None).new()) == ["anew", "state", "line", "line"]
    assert names(await feed(line.id).new()) == ["state", "line"]
    assert names(await feed(two.id).new()) == ["state"]
    assert names(await feed("of-another-feed.7").new()) == ["anew", "state", "line", "line"]
    assert not listening.is_over
