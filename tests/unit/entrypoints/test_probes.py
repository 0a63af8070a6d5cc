"""The probes: whether loops turn, what is proven; what hostile clients get, and who is trusted."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_address
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge
from starlette.types import Scope

from cronhare.adapters.addresses import ListenAddress
from cronhare.adapters.prometheus.metrics import COUNT_EVERY, STALE, LedgerMeasuring
from cronhare.application.administration.views.work import Measured
from cronhare.entrypoints import vitals as turns
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.probes import ProbeServer
from cronhare.entrypoints.processes import lifetime
from cronhare.entrypoints.processes.lifetime import Probes, StateReport
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from cronhare.entrypoints.vitals import (
    GOOD_FOR,
    LONGEST_TURN,
    LOOK_AGAIN,
    LOOK_EVERY,
    MARGIN,
    Proofs,
    Turn,
    Turns,
    Vitals,
)
from cronhare.entrypoints.web.access import (
    COOKIE,
    SECURE_COOKIE,
    credentials_of,
    is_from_this_machine,
    local_path,
)
from cronhare.entrypoints.web.server import bind
from cronhare.ports import LedgerUnavailable


class Stopwatch:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Stopwatch:
    return Stopwatch()


def test_a_loop_stands_still_once_its_rest_or_its_turn_is_long_over(watch: Stopwatch) -> None:
    turns, turn = Turns(), Turn("scheduler", monotonic=watch, wall=watch)
    turns.watch([turn])
    turn.begin()
    turn.rest(5)

    watch.seconds += 5 + MARGIN
    assert turns.faults() == []
    watch.seconds += 2
    assert turns.faults() == ["scheduler stands still: its next step is 2 s late"]
    turn.begin()
    assert turns.faults() == []
    assert turns.last() == {"scheduler": watch.seconds}
    watch.seconds += LONGEST_TURN  # it may wait for servers, but not for ever
    assert turns.faults() == []
    watch.seconds += 1
    assert turns.faults() != []


async def test_a_report_names_a_server_that_is_away_since_it_was_proven(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(lifetime, "TIMEOUT", 0.45)
    container, is_away, over = Container(settings=Settings.read()), False, threading.Event()

    def ledger() -> bool:
        if is_away:
            raise LedgerUnavailable("gone")
        return True

    proofs = container.vitals().proofs
    proofs.need("ledger", ledger)
    proofs.need("broker", lambda: not is_away or over.wait(30))
    proofs.need("consumer", lambda: not is_away)
    proofs.round()
    is_away = True

    await StateReport(container).write()
    over.set()

    faults = "ledger is away: gone; broker gave no answer within 0 s; consumer is not proven"
    assert caplog.messages[-1] == f"Servers: {faults}"


async def test_an_event_loop_is_watched_without_an_address_of_its_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lifetime, "BEAT", 0.05)
    monkeypatch.setattr(turns, "MARGIN", 0.1)
    container = Container(settings=Settings.read())
    probes, watched = Probes(container, Shutdown(ForcedExit(grace=0))), container.vitals().turns

    with probes.beating():
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - it stands still
        stands_still = watched.faults()
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - nobody is to be missed any more

    assert [fault.partition(":")[0] for fault in stands_still] == ["event loop stands still"]
    assert watched.faults() == []


def test_what_is_needed_is_proven_for_a_while(watch: Stopwatch) -> None:
    proofs, answers = Proofs(monotonic=watch), {"broker": True}
    proofs.need("ledger", lambda: True)
    proofs.need("broker", lambda: answers["broker"])
    assert proofs.faults() == [
        "ledger was not proven within 30 s",
        "broker was not proven within 30 s",
    ]

    assert proofs.round() == LOOK_EVERY
    assert proofs.faults() == []
    answers["broker"] = False
    watch.seconds += GOOD_FOR
    assert proofs.round() == LOOK_EVERY
    watch.seconds += 1
    assert proofs.faults() == ["broker was not proven within 30 s"]
    assert proofs.round() == LOOK_AGAIN
    answers["broker"] = True
    proofs.round()
    assert proofs.up() == {"ledger": True, "broker": True}


def test_a_process_that_begins_or_ends_is_not_ready() -> None:
    proofs = Proofs()
    assert proofs.faults() == ["it begins, or waits for its ledger"]

    proofs.need("ledger", lambda: True)
    proofs.round()
    proofs.ends_with(lambda: True)

    assert proofs.faults() == ["it shuts down"]


class Asked:
    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return answer.status, answer.read()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@contextmanager
def serving(
    health: Callable[[], list[str]] = list, ready: Callable[[], list[str]] = list
) -> Iterator[Asked]:
    vitals: Any = SimpleNamespace(
        turns=SimpleNamespace(faults=health), proofs=SimpleNamespace(faults=ready)
    )
    registry = CollectorRegistry()
    Gauge("x", "A number", registry=registry).set(1)
    server = ProbeServer(ListenAddress.parse("127.0.0.1:0"), vitals, registry)
    often = {"poll_interval": 0.02}  # how long `shutdown` may take
    Thread(target=server.serve_forever, kwargs=often, daemon=True).start()
    try:
        yield Asked(server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def test_each_probe_has_its_answer() -> None:
    with serving(ready=lambda: ["broker was not proven within 30 s"]) as asked:
        assert asked.get("/healthz") == (200, b'{"ok": true, "faults": []}\n')
        status, body = asked.get("/readyz?verbose")
        assert status == 503
        assert json.loads(body)["faults"] == ["broker was not proven within 30 s"]
        assert asked.get("/metrics") == (200, b"# HELP x A number\n# TYPE x gauge\nx 1.0\n")
        assert asked.get("/healthz", "HEAD") == asked.get("/metrics", "HEAD") == (200, b"")
        assert asked.get("/")[0] == asked.get("/healthz/../x")[0] == 404


def test_at_a_loopback_address_no_page_asks_by_a_name_that_is_pointed_at_it() -> None:
    with serving() as asked:
        for foreign in ("evil.example", f"evil.example:{asked.port}", "10.1.2.3", "", "::1"):
            assert asked.get("/metrics", Host=foreign)[0] == 421
        for ours in ("localhost", f"LOCALHOST:{asked.port}", "127.0.0.1:1", "[::1]:9"):
            assert asked.get("/metrics", Host=ours)[0] == 200
        with asked.connect() as link:
            link.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b" 200 OK" in link.recv(1_024)


def test_a_fault_of_ours_is_told_without_its_words_and_the_next_probe_is_answered() -> None:
    def broken() -> list[str]:
        raise RuntimeError("secret")

    with serving(health=broken) as asked:
        status, body = asked.get("/healthz")
        assert (status, b"secret" in body) == (500, False)
        assert asked.get("/readyz")[0] == 200


def test_those_who_say_nothing_keep_nobody_from_an_answer_and_are_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronhare.entrypoints.probes._Handler.timeout", 0.3)
    with serving() as asked, ExitStack() as idle:
        links = [idle.enter_context(closing(asked.connect())) for _ in range(20)]
        assert asked.get("/healthz")[0] == 200
        assert [link.recv(1) for link in links] == [b""] * 20


def view(depth: int) -> Measured:
    return {"job_queue_dlq_depth": {(): depth}}


def depth_in(measuring: LedgerMeasuring) -> float | None:
    found = {each.name: each for each in measuring.collect()}.get("job_queue_dlq_depth")
    return None if found is None else found.samples[0].value


def test_a_process_has_the_ledger_counted_while_that_is_proven_and_if_it_is_to(
    watch: Stopwatch,
) -> None:
    proofs = Proofs(monotonic=watch)
    measures, other = Vitals(proofs=proofs, measures_ledger=True), Vitals(proofs=proofs)
    assert not measures.measures_ledger_now()
    proofs.need("ledger", lambda: True)
    assert not measures.measures_ledger_now()

    proofs.round()
    proven = measures.measures_ledger_now(), other.measures_ledger_now()
    watch.seconds += GOOD_FOR + 1

    assert proven == (True, False)
    assert not measures.measures_ledger_now()


def test_the_ledger_is_counted_seldom_and_not_while_it_is_away(watch: Stopwatch) -> None:
    asked, up = [], True

    def measure() -> Measured:
        asked.append(watch.seconds)
        return view(len(asked))

    measuring = LedgerMeasuring(measure, is_wanted=lambda: up, monotonic=watch)
    assert [depth_in(measuring) for _ in range(3)] == [1, 1, 1]
    watch.seconds += COUNT_EVERY
    assert depth_in(measuring) == 2
    up = False
    watch.seconds += COUNT_EVERY
    assert depth_in(measuring) == 2
    watch.seconds += STALE
    assert depth_in(measuring) is None
    assert len(asked) == 2


def test_a_slow_or_broken_count_leaves_the_scrape_its_answer(
    watch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronhare.adapters.prometheus.metrics.WAIT", 0.05)
    go_on = threading.Event()

    def measure() -> Measured:
        assert go_on.wait(10)
        return view(7)

    measuring = LedgerMeasuring(measure, is_wanted=lambda: True, monotonic=watch)
    assert depth_in(measuring) is None
    go_on.set()
    watch.seconds += 1
    while depth_in(measuring) != 7:
        time.sleep(0.01)

    def away() -> Measured:
        raise LedgerUnavailable("away")

    assert depth_in(LedgerMeasuring(away, is_wanted=lambda: True, monotonic=watch)) is None


HOST = ListenAddress.parse("127.0.0.1:8520")


def scope(*headers: tuple[str, str]) -> Scope:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": "http", "path": "/", "headers": raw, "client": ("127.0.0.1", 1)}


@pytest.mark.parametrize(
    "cookies",
    [
        [f"{COOKIE}=mine; {COOKIE}=theirs"],
        [f"{COOKIE}=mine", f"{COOKIE}=theirs"],
        [f"{SECURE_COOKIE}=mine"],
        [f"x{COOKIE}=mine"],
        [],
    ],
)
def test_of_two_sessions_and_of_another_name_none_is_taken(cookies: list[str]) -> None:
    asked = scope(*(("cookie", each) for each in cookies))

    assert credentials_of(asked, https=False).session is None


@pytest.mark.parametrize("host", ["192.0.2.1:8520", None])
def test_a_name_or_another_address_of_this_machine_is_not_meant_from_here(host: str | None) -> None:
    named = None if host is None else ListenAddress.parse(host)

    assert not is_from_this_machine(scope(), host=named)
    assert not is_from_this_machine({**scope(), "client": ("192.0.2.1", 1)}, host=HOST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ui",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\x00",
        "/ui/\r\nSet-Cookie: a=b",
        "/ü",
        "/" + "a" * 3_000,
        "/ui/sign-out",
        "/ui/sign-in?next=/",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(text: str) -> None:
    assert local_path(text) == "/"


def test_small_answers_wait_for_no_acknowledgement() -> None:
    with bind(ListenAddress(ip_address("127.0.0.1"), 0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY for nothing else"
