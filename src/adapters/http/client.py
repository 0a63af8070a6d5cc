"""Asks servers over HTTP/1.1 by the standard library, at addresses that are allowed."""

import asyncio
import ssl
import threading
from functools import cached_property
from typing import Final

from cronhare.adapters.connections import Deadline, look_up
from cronhare.domain.addresses.web import AllowedHosts
from cronhare.ports.system import LONGEST_REQUEST, HttpAnswer, HttpFailed, HttpRequest

from .connecting import LookUp
from .exchange import Exchange
from .requests import checked

#: Requests at a time; one whose look-up hangs keeps its thread until the resolver gives up.
MOST_AT_A_TIME: Final = 256


class HttpClient:
    """Sends each request in a thread of its own, which ends with it.

    Proxies in the environment are not used: they would look the name up anew, and judge nothing.
    """

    def __init__(self, hosts: AllowedHosts, *, agent: str, look_up: LookUp = look_up) -> None:
        """*agent* is what servers are told of us."""
        self._hosts = hosts
        self._agent = agent
        self._look_up = look_up
        self._room = threading.BoundedSemaphore(MOST_AT_A_TIME)

    async def send(self, request: HttpRequest) -> HttpAnswer:
        checked(request)
        seconds = min(request.timeout, LONGEST_REQUEST).total_seconds()
        exchange = Exchange(request, agent=self._agent, deadline=Deadline(seconds))
        self._begin(exchange)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(exchange.answer)
        except TimeoutError as error:
            raise HttpFailed(f"no whole answer within {seconds:g} s") from error
        finally:
            exchange.give_up()

    def _begin(self, exchange: Exchange) -> None:
        """Start the thread. It is a daemon: a resolver that hangs holds up no exit."""
        if not self._room.acquire(blocking=False):
            raise HttpFailed(f"{MOST_AT_A_TIME} requests are on their way, no more is begun")

        def run() -> None:
            try:
                exchange.run(self._hosts, self._look_up, lambda: self._tls)
            finally:
                self._room.release()

        threading.Thread(target=run, name="http", daemon=True).start()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
