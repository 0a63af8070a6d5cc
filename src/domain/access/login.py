"""Who needs a token over HTTP: everybody, but for a machine's own users until there is one."""

from enum import StrEnum

import attrs


class Login(StrEnum):
    """When a request that comes straight from this machine needs a token; all others always do.

    `AUTO`: once the first was made. `ALWAYS`: from the start. `NEVER`: it may do everything.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@attrs.frozen(kw_only=True)
class Approach:
    """How a request came in.

    *is_loopback*: its client and its Host are of this machine. *is_forwarded*: a proxy says so in a
    header; then its client is anybody.
    """

    is_loopback: bool
    is_forwarded: bool


def is_free(approach: Approach, login: Login, *, any_token: bool) -> bool:
    """Whether a request without a token is asked by `local`, who may do everything.

    *any_token* says that a token was ever made, valid or not: whoever revokes the last one does not
    open the door with it.
    """
    if not approach.is_loopback or approach.is_forwarded:
        return False
    return login is Login.NEVER or (login is Login.AUTO and not any_token)
