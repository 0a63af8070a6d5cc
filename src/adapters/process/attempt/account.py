"""The user a task runs as, if not the worker's."""

import asyncio
import os
import pwd
from collections.abc import Mapping, Sequence

import attrs

#: Seconds to look up a user, who may be in a remote directory.
TIMEOUT = 10.0


class UnknownUser(LookupError):
    """This host has no such user."""


class LookupTimedOut(TimeoutError):
    """The host did not answer in time whether there is such a user."""


@attrs.frozen(kw_only=True)
class Account:
    """A user of this host, with all groups, and the variables that a login sets."""

    uid: int
    gid: int
    groups: Sequence[int]
    environment: Mapping[str, str]


def find(name: str) -> Account:
    """Look a user up.

    Raises:
        UnknownUser: this host knows no such user.
    """
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError) as error:
        raise UnknownUser(f"this host has no user {name}") from error
    groups = os.getgrouplist(name, found.pw_gid)
    return Account(uid=found.pw_uid, gid=found.pw_gid, groups=groups, environment=_login(found))


def own_login() -> Mapping[str, str]:
    """Give the variables of our own user; none for a container's user without a name."""
    try:
        return _login(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return {}


def _login(found: pwd.struct_passwd) -> Mapping[str, str]:
    return {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name}


async def other_account(name: str | None) -> Account | None:
    """Look up the user to run as; None if it is our own.

    Raises:
        UnknownUser: this host knows no such user.
        LookupTimedOut: it did not answer within `TIMEOUT`.
    """
    if name is None:
        return None
    try:
        async with asyncio.timeout(TIMEOUT):
            account = await asyncio.to_thread(find, name)
    except TimeoutError as error:
        raise LookupTimedOut(f"this host did not find it within {TIMEOUT:g} s") from error
    return None if account.uid == os.geteuid() else account
