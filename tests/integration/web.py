"""`cronhare web` in a thread of its own, asked over real sockets."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import attrs

from cronhare.adapters.addresses import ListenAddress
from cronhare.entrypoints.container import Container
from cronhare.entrypoints.signals import ForcedExit, Shutdown
from cronhare.entrypoints.web.server import bind, run

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
SECONDS = 10.0


@attrs.frozen
class Answer:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:  # noqa: ANN401 - whatever was answered
        return json.loads(self.text)

    @property
    def faults(self) -> dict[str, str]:
        """The faults that a problem names, by their fields."""
        assert self.headers["content-type"] == "application/problem+json"
        return {each["field"]: each["problem"] for each in self.json().get("errors", [])}


@attrs.frozen
class Site:
    """A site at a port of 127.0.0.1."""

    port: int

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask with these headers alone, and what HTTP needs."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            sent = body.encode() if isinstance(body, str) else body
            connection.request(method, path, sent, dict(headers or {}))
            found = connection.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read().decode())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, content: object, *, key: str | None = None) -> Answer:
        """Post a value as JSON."""
        named = {} if key is None else {"Idempotency-Key": key}
        return self.ask("POST", path, json.dumps(content), {**JSON, **named})

    def send_json(self, method: str, path: str, content: object, **headers: str) -> Answer:
        """Send a value as JSON. A header's name has underscores for its dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, path, json.dumps(content), {**JSON, **named})

    def send(self, *pieces: bytes) -> bytes:
        """Send bytes as they are, and give all that comes back until the other side is done."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as link:
            found = bytearray()
            try:
                for piece in pieces:
                    link.sendall(piece)
                while more := link.recv(65_536):
                    found += more
            except (ConnectionResetError, BrokenPipeError):
                pass
            return bytes(found)


@contextmanager
def site(container: Container) -> Iterator[Site]:
    """Answer until the end of the block."""
    bound = bind(ListenAddress.parse("127.0.0.1:0"))
    port: int = bound.getsockname()[1]
    bound.listen()
    ready, ending = threading.Event(), list[Any]()

    async def live() -> None:
        shutdown = Shutdown(ForcedExit(grace=0))
        ending[:] = asyncio.get_running_loop(), shutdown.requested
        ready.set()
        await run(container, shutdown, bound)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield Site(port)
    finally:
        loop, requested = ending
        loop.call_soon_threadsafe(requested.set)
        thread.join(SECONDS)
        container.engine().dispose()
        assert not thread.is_alive()
