"""The HTTP API and what should never be sent to it: refused, told, and nobody else waits."""

import contextlib
import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import pytest

from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.settings.settings import Settings
from cronhare.entrypoints.web import server
from cronhare.entrypoints.web.reading import LARGEST_BODY
from tests.fuzz.described import attempt, described, labels
from tests.integration.web import JSON, Site, site
from tests.services.finding import wait_until

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
GOOD = {"schedule": "0 8 * * *", "report_id": 25}


@pytest.fixture(scope="module")
def web(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("web")
    copyfile(migrated_sqlite, folder / "ledger.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRON_DATABASE_URL", f"sqlite:///{folder}/ledger.db")
        container = Container(settings=Settings.read(), tasks=[TASK])
    with site(container) as found:
        yield found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"schedule": "\xff"}',
        b'{"params": {"a": Infinity}}',
        b'{"params": ' + b"9" * 5_000 + b"}",
        b'{"description": "\\ud800"}',
        b'{"params": ' + b"[" * 80_000 + b"]" * 80_000 + b"}",
    ],
)
def test_what_is_no_json_object_is_a_bad_request(web: Site, body: bytes) -> None:
    answer = web.ask("POST", "/schedulers", body, JSON)

    assert (answer.status, answer.json()["status"]) == (400, 400)
    assert answer.headers["content-type"] == "application/problem+json"


def test_deep_params_are_refused_and_the_faults_are_bounded(web: Site) -> None:
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    assert web.post("/schedulers", {**GOOD, "params": {"a": deep}}).status == 422

    many = {f"field{number}": 2**70 for number in range(3_000)}
    answer = web.post("/schedulers", many)

    assert (answer.status, len(answer.json()["errors"])) == (422, 101)


def test_what_is_too_large_is_refused_announced_or_not(web: Site) -> None:
    large = json.dumps({**GOOD, "params": "x" * LARGEST_BODY})
    announced = web.ask("POST", "/schedulers", large, JSON)
    head = b"POST /schedulers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"

    chunked = web.send(
        head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", piece * 3 + b"0\r\n\r\n"
    )

    assert announced.status == 413
    assert chunked.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "kind",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-7"],
)
def test_what_a_form_of_a_page_can_send_is_refused(web: Site, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}

    answer = web.ask("POST", "/schedulers", json.dumps(GOOD), headers)

    assert (answer.status, answer.headers["accept-post"]) == (415, "application/json")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8520", "localhost:8520:1", "", "["]
)
def test_a_name_that_was_pointed_at_us_is_refused(web: Site, host: str) -> None:
    head = f"GET /schedulers/1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"

    assert web.send(head.encode()).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]"])
def test_every_name_of_this_machine_is_ours(web: Site, host: str) -> None:
    assert web.get("/openapi.json", Host=host).status == 200


@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_is_refused(web: Site, header: dict[str, str]) -> None:
    answer = web.ask("POST", "/schedulers", json.dumps(GOOD), {**JSON, **header})

    assert answer.status == 403


def test_our_own_origin_may_ask_and_no_other_is_invited(web: Site) -> None:
    origin = {"Origin": f"http://127.0.0.1:{web.port}", "Sec-Fetch-Site": "same-origin"}

    answer = web.ask("POST", "/schedulers", json.dumps(GOOD), {**JSON, **origin})
    preflight = web.ask("OPTIONS", "/schedulers", headers={"Access-Control-Request-Method": "POST"})

    assert answer.status == 201
    assert preflight.status == 405
    assert not [
        name for name in {**answer.headers, **preflight.headers} if "access-control" in name
    ]


def test_a_method_or_an_answer_that_there_is_not_is_told_with_those_there_are(web: Site) -> None:
    put = web.send_json("PUT", "/schedulers/1", {})

    assert (put.status, put.headers["allow"]) == (405, "DELETE, GET, PATCH")
    assert put.json()["detail"] == "/schedulers/1 takes DELETE, GET, PATCH"
    for accepted, status in (
        ("text/html", 406),
        ("image/*;q=0.9", 406),
        ("text/html, */*;q=0.1", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/*", 200),
        ("", 200),
    ):
        assert web.get("/schedulers", Accept=accepted).status == status, accepted
    assert web.get("/executions/1/output", Accept="text/plain").status == 404
    assert web.get("/executions/1/output", Accept="image/png").status == 406


def test_who_does_not_end_a_request_is_sent_away_and_nobody_waits_for_him(
    web: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(server, "ARRIVAL", 1.0)
    head = b"POST /schedulers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = [b"", b"POST /sched", head, head + b'Content-Length: 9\r\n\r\n{"']
    links = [socket.create_connection(("127.0.0.1", web.port), timeout=10) for _ in begun]
    for link, sent in zip(links, begun, strict=True):
        link.sendall(sent)
    began = time.monotonic()

    assert web.post("/schedulers", GOOD).status == 201
    for link in links:
        with link:
            assert _is_over(link)
    assert time.monotonic() - began < 8
    gone = "POST /schedulers: not answered, the client is gone"
    wait_until(lambda: gone in caplog.messages, seconds=5, what="the line of the log")
    assert "POST /schedulers: 500" not in caplog.messages


ASKED = b"GET /schedulers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_one_connection_too_many_is_told_so_and_a_place_is_free_again(web: Site) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(server.MOST_CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", web.port), timeout=10))

        assert web.send(ASKED).startswith(b"HTTP/1.1 503 ")

    wait_until(lambda: web.send(ASKED).startswith(b"HTTP/1.1 200 "), seconds=5, what="a free place")


def test_the_log_has_each_request_and_nothing_that_may_be_secret(
    web: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = {"Authorization": "Bearer canary", "Cookie": "canary", "Idempotency-Key": "canary"}

    made = {**GOOD, "params": {"token": "canary"}}
    web.ask("POST", "/schedulers?token=canary", json.dumps(made), {**JSON, **secret})
    del secret["Authorization"]
    web.ask("POST", "/schedulers?token=canary", json.dumps(made), {**JSON, **secret})
    web.get("/%1b[31m%0aforged")

    lines = [record for record in caplog.records if record.__dict__.get("action") == "web.request"]
    assert lines[0].getMessage() == "POST /schedulers: 401"  # that is no token
    assert lines[1].getMessage() == "POST /schedulers: 422"  # it takes no such parameter
    assert "\n" not in lines[-1].getMessage()
    assert "canary" not in caplog.text


def _is_over(link: socket.socket) -> bool:
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


def test_every_operation_answers_as_it_is_described(tmp_path: Path) -> None:
    with described(tmp_path) as site:
        assert set(labels()) == set(site.operations)
        for number, label in enumerate(labels()):
            attempt(label, site, examples=2, number=number)  # `make fuzz` asks more of it
        site.innocent()
