"""The address of a service in Apprise's words, such as `slack://…`: all but its scheme is a secret.

What the scheme's own library understands of the rest is judged where that is installed.
"""

import re
from typing import Final, Self

import attrs

from .web_address import LONGEST_WEB_ADDRESS

_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9]{1,31})://(?P<rest>.+)", re.DOTALL)

#: What reaches no service, but this machine's desktop, bus, log or devices.
LOCAL_SCHEMES: Final = frozenset(
    "blink1 dbus file gio glib gnome kde macosx qt syslog windows".split()  # noqa: SIM905
)


@attrs.frozen(kw_only=True)
class AppriseAddress:
    """A service that a message can be sent to. Printed, it shows its scheme alone."""

    scheme: str
    url: str = attrs.field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            ValueError: it cannot be used; the text quotes nothing of it but a known scheme.
        """
        if len(text) > LONGEST_WEB_ADDRESS:
            raise ValueError(f"is longer than {LONGEST_WEB_ADDRESS:,} characters")
        if not text.isprintable():
            raise ValueError("has a character that is none to be seen, such as an end of line")
        head, _, rest = text.partition("://")
        found = _ADDRESS.fullmatch(f"{head.lower()}://{rest}")
        if found is None:
            raise ValueError('must be like "slack://…", with the scheme of a service')
        if found["scheme"] in LOCAL_SCHEMES:
            raise ValueError(
                f"begins with {found['scheme']}://, which leads to this machine's own desktop, bus "
                "or log and to no service; to do something here, give a command"
            )
        return cls(scheme=found["scheme"], url=text)

    def __str__(self) -> str:
        return f"{self.scheme}://…"
