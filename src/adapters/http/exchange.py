"""One request and its answer, in a thread."""

import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPMessage
from typing import Final

from cronhare.adapters.connections import Connection, Deadline
from cronhare.domain.addresses.web import AllowedHosts
from cronhare.domain.texts.printable import shown
from cronhare.ports.system import HttpAnswer, HttpFailed, HttpRefused, HttpRequest

from .connecting import LookUp, allowed_addresses
from .requests import sent_headers

#: Bytes of an answer beside the body that is kept: its headers, and what frames its chunks.
_LARGEST_FRAME: Final = 256 * 1024


class Exchange:
    """Its thread calls `run`; another awaits `answer`, and may `give_up`."""

    def __init__(self, request: HttpRequest, *, agent: str, deadline: Deadline) -> None:
        """Begin nothing yet."""
        self.answer: Future[HttpAnswer] = Future()
        self._request = request
        self._agent = agent
        self._connection = Connection(deadline)

    def run(self, hosts: AllowedHosts, look_up: LookUp, tls: Callable[[], ssl.SSLContext]) -> None:
        """Ask, and answer with what came of it; never raises."""
        try:
            answer = self._ask(hosts, look_up, tls)
        except HttpRefused as error:
            self._fail(error)
        # http.client lets all of these out for what a server may write.
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            failed = HttpFailed(f"asking {self._request.address}: {_reason(error)}")
            failed.__cause__ = error
            self._fail(failed)
        except BaseException as error:  # noqa: BLE001 - a fault of ours, for whoever awaits it
            self._fail(error)
        else:
            with suppress(Exception):  # cancelled in the meantime
                self.answer.set_result(answer)

    def give_up(self) -> None:
        """Wake the thread, wherever it waits; safe to repeat, and after the end."""
        self._connection.give_up()

    def _fail(self, error: BaseException) -> None:
        with suppress(Exception):
            self.answer.set_exception(error)

    def _ask(
        self, hosts: AllowedHosts, look_up: LookUp, tls: Callable[[], ssl.SSLContext]
    ) -> HttpAnswer:
        web = self._request.address
        addresses = allowed_addresses(web, hosts, look_up)
        with self._connection.opened(map(str, addresses), web.port):
            if web.is_encrypted:
                self._connection.secure(tls(), web.host)
            return self._talk()

    def _talk(self) -> HttpAnswer:
        """Send the request and read the answer; http.client opens nothing by itself."""
        request, web = self._request, self._request.address
        connection = HTTPConnection(web.host, web.port)
        connection.auto_open = 0
        connection.sock = self._connection.bounded(most=request.most + _LARGEST_FRAME)
        connection.putrequest(request.method, web.target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent_headers(request, agent=self._agent).items():
            connection.putheader(name, value)
        connection.endheaders(request.body)
        answer = connection.getresponse()
        body = answer.read(request.most + 1)
        if len(body) <= request.most and answer.length:  # http.client says nothing of it
            raise HTTPException(f"{answer.length} bytes of what it promised are missing")
        return HttpAnswer(
            status=answer.status,
            headers=_headers(answer.headers),
            body=body[: request.most],
            is_cut=len(body) > request.most,
        )


def _headers(message: HTTPMessage) -> dict[str, str]:
    found = dict[str, str]()
    for name, value in message.items():
        low = name.lower()
        found[low] = f"{found[low]}, {value}" if low in found else str(value)
    return found


def _reason(error: Exception) -> str:
    """Say what went wrong, in a line; what a server wrote is escaped and short."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text)
