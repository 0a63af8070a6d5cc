"""Keeps a whole process from other hosts than those that are allowed, whatever library asks them.

It is an audit hook of Python (PEP 578): it sees each look-up and each connection before it is made,
and no code of the process can take it away. Beyond that it keeps the process from starting others.
"""

import sys
from collections.abc import Sequence
from ipaddress import ip_address
from threading import get_ident
from typing import Final

from cronhare.domain.addresses import AllowedHosts, WebAddress

_LOOK_UPS: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_TALKS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_STARTS: Final = frozenset(
    "os.exec os.fork os.forkpty os.posix_spawn os.spawn os.system pty.spawn subprocess.Popen".split()  # noqa: SIM905, E501
)


class HostRefused(PermissionError):
    """What the process may not do; the text says why."""


class HostGuard:
    """Judges each host by its name, and each connection by its address.

    *refusals* has the last one of each thread: a library may tell less of it.
    """

    def __init__(self, hosts: AllowedHosts) -> None:
        self._hosts = hosts
        self._names = set[str]()
        self.refusals = dict[int, str]()

    def keep(self) -> None:
        """Begin; there is no end to it in this process."""
        sys.addaudithook(self._judge)

    def _judge(self, event: str, args: Sequence[object]) -> None:
        if event in _LOOK_UPS:
            self._look_up(args[0])
        elif event in _TALKS:
            self._talk(args[1])
        elif event in _STARTS:
            self._refuse("a service may start no program on this machine")

    def _look_up(self, host: object) -> None:
        if host is None:
            return  # this machine, which is judged by its address
        text = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
        web = _web(text.lower().removesuffix("."))
        if (why := self._hosts.refusal(web)) is not None:
            self._refuse(why)
        if web.address is None:
            self._names.add(web.host)

    def _talk(self, address: object) -> None:
        if address is None:
            return  # of a socket that is connected
        if not isinstance(address, tuple):
            self._refuse("a service may reach no socket of this machine")
            return
        try:
            there = ip_address(address[0])
        except ValueError:
            self._refuse(f"the host {address[0]!s} would be asked before it was looked up")
            return
        web = _web(str(there))
        asked = (web, *map(_web, self._names))
        if not any(self._hosts.allows(each, there) for each in asked):
            self._refuse(self._hosts.refusal_of_all(web, [there]))

    def _refuse(self, why: str) -> None:
        self.refusals[get_ident()] = why
        raise HostRefused(why)


def _web(host: str) -> WebAddress:
    return WebAddress(scheme="https", host=host, port=443, target="/")
