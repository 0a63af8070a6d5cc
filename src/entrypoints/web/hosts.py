"""Which host a request means by its Host header, and the origin of pages that may ask it.

A browser lets any page of the world reach a loopback address, by a name that is pointed at it. So
a Host is the address of this machine, or a name that the settings have.
"""

from collections.abc import Collection

import attrs
from starlette.types import Scope

from cronhare.domain.addresses.web import ListenAddress, checked_host, meant_address


@attrs.frozen(kw_only=True)
class Meant:
    """The host that is meant: an *address* of this machine, or a name of `CRON_WEB_HOSTS`.

    A name is of a proxy, which speaks TLS: *is_https*.
    """

    host: str
    address: ListenAddress | None

    @property
    def is_https(self) -> bool:
        """Whether browsers ask over TLS."""
        return self.address is None

    @property
    def origin(self) -> str:
        """The origin of our own pages, in lower case."""
        return f"{'https' if self.is_https else 'http'}://{self.host}".lower()


def meant_by(host: str, scope: Scope, names: Collection[str]) -> Meant | None:
    """Tell which host is meant; None if it is not ours."""
    name, colon, port = host.partition(":")
    if names and (not colon or port.isdecimal()):
        try:
            if checked_host(name) in names:
                return Meant(host=host, address=None)
        except ValueError:
            pass
    address = meant_address(host, (scope.get("server") or ("", 0))[0])
    return None if address is None else Meant(host=host, address=address)
