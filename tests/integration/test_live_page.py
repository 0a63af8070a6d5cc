"""What is sent to open pages: over real sockets, and where it is shared out."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pytest

from cronhare.domain.schedules.draft import ScheduleDraft
from cronhare.domain.schedules.task import TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web.page import live as live_parts
from cronhare.entrypoints.web.page.live import (
    MOST_KEPT,
    MOST_LISTENERS,
    PARTS,
    Broadcast,
    Event,
    Feed,
    Listener,
    OutputFeed,
)
from cronhare.entrypoints.web.page.views import live
from cronhare.entrypoints.web.problems import Problem
from cronhare.ports import LedgerUnavailable
from cronhare.ports.runner import Captured, Written
from tests.actors import ADA
from tests.integration.ledgers import Ledger
from tests.integration.web import SECONDS, site


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
    assert link.recv(1) == b""
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
        container.administrator().pause(
            {"nightly": None}, by="ada", reason="moving", now=now, actor=ADA
        )
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


class Counting:
    """A feed that counts the looks."""

    every = 0.01
    is_over = False

    def __init__(self) -> None:
        self.looks = 0
        self.fails = False

    def look(self) -> Sequence[Event]:
        self.looks += 1
        if self.fails:
            raise LedgerUnavailable("away")
        return [Event(str(self.looks), "count", json.dumps(self.looks))]

    def keep(self, new: Sequence[Event]) -> None: ...

    def after(self, id_: str | None) -> Sequence[Event]:
        return () if id_ else [Event("0", "count", "0")]


async def in_place(question: Callable[[], Any]) -> Any:  # noqa: ANN401
    return question()


ASK: Callable[[Callable[[], Any]], Awaitable[Any]] = in_place


async def numbers(listener: Listener, many: int) -> list[int]:
    found: list[int] = []
    while len(found) < many:
        found += [int(event.data) for event in await listener.take() or ()]
    return found


async def test_all_who_listen_share_one_look_and_it_ends_with_the_last() -> None:
    feed, broadcast = Counting(), Broadcast(ASK)
    made: list[Feed] = []

    def make() -> Feed:
        made.append(feed)
        return feed

    async with (
        broadcast.listening("x", make, after=None) as first,
        broadcast.listening("x", make, after=None) as second,
    ):
        assert (await numbers(first, 3))[:3] == (await numbers(second, 3))[:3] == [0, 1, 2]
        assert broadcast.listeners == 2
    looks = feed.looks
    await asyncio.sleep(0.05)

    assert feed.looks == looks
    assert broadcast.listeners == 0


async def test_who_comes_while_a_look_is_under_way_gets_its_lines_once(memory: Ledger) -> None:
    started, found, come = memory.running("a"), asyncio.Event(), asyncio.Event()

    async def ask(question: Callable[[], Any]) -> Any:  # noqa: ANN401
        answer = question()
        found.set()
        await come.wait()
        return answer

    def make() -> Feed:
        return OutputFeed(memory.records, started.id)

    broadcast = Broadcast(ask)
    async with broadcast.listening("x", make, after=None):
        await found.wait()
        async with broadcast.listening("x", make, after=None) as late:
            come.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            names = [event.name for event in await late.take() or ()]
            while "state" not in names:
                names += [event.name for event in await late.take() or ()]

    assert names == ["anew", "state"]


async def test_a_ledger_that_is_away_is_asked_again() -> None:
    feed, broadcast = Counting(), Broadcast(ASK)
    async with broadcast.listening("x", lambda: feed, after="0") as listener:
        await numbers(listener, 1)
        feed.fails = True
        await asyncio.sleep(0.05)
        feed.fails = False

        assert await numbers(listener, 1)


async def test_who_reads_nothing_is_dropped_and_too_many_are_refused() -> None:
    listener = Listener()
    listener.give([Event("1", "x", "a" * 600_000)])
    listener.give([Event("2", "x", "a" * 600_000)])
    assert await listener.take() is None

    broadcast = Broadcast(ASK)
    open_ones = [broadcast.listening("x", Counting, after=None) for _ in range(MOST_LISTENERS)]
    for each in open_ones:
        await each.__aenter__()
    with pytest.raises(Problem, match="32 pages are live already"):
        await broadcast.listening("x", Counting, after=None).__aenter__()
    for each in open_ones:
        await each.__aexit__(None, None, None)
    assert broadcast.listeners == 0


def test_output_comes_line_by_line_and_goes_on_where_it_was_left(memory: Ledger) -> None:
    started = memory.running("a")
    feed = OutputFeed(memory.records, started.id)

    def write(text: str) -> None:
        stdout = Captured(head=text, bytes=len(text), lines=text.count("\n"))
        written = Written(execution_id=started.id, attempt=1, stdout=stdout)
        memory.attempts.keep_written([written], now=memory.now, node="ant")

    def looked() -> Sequence[Event]:
        feed.keep(new := feed.look())
        return new

    assert [event.name for event in looked()] == ["state"]
    assert looked() == []
    write("one\ntw")
    [line] = looked()
    write("one\n</script>two\n")
    assert [json.loads(event.data)["text"] for event in looked()] == ["</script>two"]
    assert [event.name for event in feed.after(None)] == ["anew", "state", "line", "line"]
    assert [event.name for event in feed.after(line.id)] == ["line"]
    assert len(feed.after("of-another-feed.7")) == 4
    assert not feed.is_over


def test_of_endless_output_the_newest_is_kept_for_those_who_come_later(memory: Ledger) -> None:
    feed = OutputFeed(memory.records, memory.running("a").id)

    feed.keep([Event(f"x.{number}", "line", "a" * 1_000) for number in range(600)])

    kept = feed.after(None)[1:]
    assert sum(len(event.data) for event in kept) <= MOST_KEPT
    assert kept[-1].id == "x.599"
