"""The HTTP client against servers that mean it well, and others; each is one end of a socket."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest

from cronhare.adapters.http.allowed_hosts import AllowedHosts
from cronhare.adapters.http.client import HttpClient
from cronhare.domain.addresses import WebAddress
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpRefused, HttpRequest
from tests.services.certificates import certified

pytestmark = pytest.mark.integration

#: Talks to one client, after its request was read.
Behaviour = Callable[[socket.socket, bytes], None]


class Serve(Protocol):
    """Starts a server, and gives its port."""

    def __call__(self, behave: Behaviour, *, reads: bool = True) -> int: ...


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def begin(behave: Behaviour, *, reads: bool = True) -> int:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with suppress(OSError):
                    while True:
                        client, _ = server.accept()
                        with client, suppress(OSError):
                            behave(client, client.recv(65_536) if reads else b"")

            threading.Thread(target=run, daemon=True).start()
            port: int = server.getsockname()[1]
            return port

        yield begin


def answering(text: bytes) -> Behaviour:
    return lambda client, _: client.sendall(text)


def client(*, look_up: Callable[[str, int], list[str]] = lambda *_: ["127.0.0.1"]) -> HttpClient:
    hosts = AllowedHosts.parse(["*", "127.0.0.1"])
    return HttpClient(hosts, agent="cronhare/test", look_up=look_up)


def request(port: int, *, seconds: float = 20, most: int = 100, body: bytes = b"") -> HttpRequest:
    return HttpRequest(
        method="POST",
        address=WebAddress.parse(f"http://hooks.example:{port}/a?b"),
        headers={"X-Some": "thing"},
        body=body,
        timeout=timedelta(seconds=seconds),
        most=most,
    )


async def test_a_server_is_told_what_was_asked_and_its_answer_is_given(serve: Serve) -> None:
    heard = list[bytes]()

    def behave(sock: socket.socket, data: bytes) -> None:
        while not data.endswith(b"hello"):
            data += sock.recv(65_536)
        heard.append(data)
        sock.sendall(b"HTTP/1.1 429 Wait\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nlate")

    port = serve(behave)

    answer = await client().send(request(port, body=b"hello"))

    assert answer == HttpAnswer(
        status=429, headers={"retry-after": "3", "content-length": "4"}, body=b"late"
    )
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert body == b"hello"
    assert sorted(head.decode().splitlines()) == sorted(
        [
            "POST /a?b HTTP/1.1",
            f"Host: hooks.example:{port}",
            "Connection: close",
            "Accept-Encoding: identity",
            "User-Agent: cronhare/test",
            "Content-Length: 5",
            "X-Some: thing",
        ]
    )


async def test_a_redirect_is_an_answer_and_not_followed(serve: Serve) -> None:
    asked = list[bytes]()

    def behave(sock: socket.socket, data: bytes) -> None:
        asked.append(data)
        sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")

    answer = await client().send(request(serve(behave)))

    assert (answer.status, answer.is_success, len(asked)) == (302, False, 1)


async def test_of_ten_megabytes_the_first_bytes_are_kept(serve: Serve) -> None:
    size = 10 * 2**20
    port = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size))

    answer = await client().send(request(port, most=100))

    assert (answer.body, answer.is_cut) == (b"x" * 100, True)


def drip(sock: socket.socket, _: bytes) -> None:
    sock.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        sock.sendall(b"x")
        threading.Event().wait(0.02)


def continue_for_ever(sock: socket.socket, _: bytes) -> None:
    while True:
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


@pytest.mark.parametrize(
    ("behave", "seconds"),
    [
        (drip, 0.3),
        (lambda sock, _: sock.recv(1), 0.3),
        (continue_for_ever, 20),
        (lambda sock, _: sock.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000), 20),
        (lambda sock, _: sock.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000), 20),
        (answering(b"\x16\x03\x01\x00\x00"), 20),
        (answering(b"HTTP/1.1 -7 OK\r\n\r\n"), 20),
        (answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 20),
        (answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nx"), 20),
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx"), 20),
        (answering(b""), 20),
    ],
    ids=(
        "a byte now and then",
        "silence",
        "continue for ever",
        "a thousand headers",
        "a header without end",
        "no HTTP",
        "a negative status",
        "chunks without a size",
        "a negative chunk",
        "less than was promised",
        "nothing",
    ),
)
async def test_whatever_a_server_does_the_request_ends_as_failed(
    serve: Serve, behave: Behaviour, seconds: float
) -> None:
    with pytest.raises(HttpFailed):
        await client().send(request(serve(behave), seconds=seconds))


async def test_the_address_that_was_judged_is_the_one_that_is_asked(serve: Serve) -> None:
    """A name that changes its address between two look-ups has nothing from it: there is one."""
    answers = iter([["93.184.215.14", "127.0.0.1"], ["127.0.0.1"]])
    asked = list[bytes]()
    port = serve(lambda _, data: asked.append(data))
    guarded = HttpClient(AllowedHosts(), agent="x", look_up=lambda *_: next(answers)[1:])

    with pytest.raises(HttpRefused, match=r"127\.0\.0\.1 of hooks\.example is not public"):
        await guarded.send(request(port))

    assert (asked, next(answers)) == ([], ["127.0.0.1"])


@pytest.mark.parametrize(
    "found", [["127.0.0.1"], ["10.0.0.1", "::1"], ["::ffff:169.254.169.254"], ["fe80::1%lo"], []]
)
async def test_a_name_that_leads_inside_is_refused_and_nobody_is_asked(found: list[str]) -> None:
    guarded = HttpClient(AllowedHosts(), agent="x", look_up=lambda *_: found)

    with pytest.raises(HttpRefused):
        await guarded.send(request(80))


@pytest.mark.parametrize("value", ["a\r\nHost: b", "\u20ac"])
async def test_a_value_that_could_become_another_header_is_not_sent(
    serve: Serve, value: str
) -> None:
    asking = HttpRequest(
        method="POST",
        address=WebAddress.parse(f"http://hooks.example:{serve(answering(b''))}"),
        headers={"X": value},
    )

    with pytest.raises(HttpFailed, match=r"header|codec"):
        await client().send(asking)


async def test_who_cancels_waits_for_nothing(serve: Serve) -> None:
    gone = threading.Event()

    def behave(sock: socket.socket, _: bytes) -> None:
        begun.set()
        if not sock.recv(1):
            gone.set()

    begun = threading.Event()
    sending = asyncio.create_task(client().send(request(serve(behave))))
    await asyncio.to_thread(begun.wait, 20)

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert await asyncio.to_thread(gone.wait, 20), "the connection was kept"


@pytest.mark.parametrize(("name", "is_ours"), [("hooks.example", True), ("evil.example", False)])
async def test_a_certificate_is_held_against_the_name_that_was_asked(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_ours: bool
) -> None:
    papers = certified(tmp_path, f"DNS:{name}")
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.certificate, papers.key)

    def behave(sock: socket.socket, _: bytes) -> None:
        with context.wrap_socket(sock, server_side=True) as secured:
            secured.recv(65_536)
            secured.sendall(b"HTTP/1.1 204 Done\r\n\r\n")

    port = serve(behave, reads=False)
    asking = HttpRequest(method="GET", address=WebAddress.parse(f"https://hooks.example:{port}/"))

    if is_ours:
        assert (await client().send(asking)).status == 204
    else:
        with pytest.raises(HttpFailed, match=r"[Hh]ostname|VERIFY"):
            await client().send(asking)
