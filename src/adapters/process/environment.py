"""Whom a task runs as, and its environment: what is listed here, and nothing else."""

import asyncio
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from cronhare.domain.retries.outcome import ErrorClass
from cronhare.domain.schedules.work import ATTEMPT_VARIABLES
from cronhare.domain.texts.moments import iso_moment
from cronhare.domain.texts.printable import printable
from cronhare.ports.runner import Invocation

from .warden import IPC_FD

#: Seconds to look up a user, who may be in a remote directory.
TIMEOUT = 10.0

PASSED = frozenset(
    "PATH HOME LANG LANGUAGE TZ TMPDIR USER LOGNAME SIMULATE_FAILURE".split()  # noqa: SIM905
)
_OWN_PREFIX = "CRON_"
#: Settings that an app is given, or files that have them: it logs, and may enqueue.
OF_APPS = frozenset(
    f"{_OWN_PREFIX}{name}"
    for name in ("CONFIG", "DATABASE_URL", "BROKER_URL", "MESSAGE_KEY", "LOG_LEVEL")
)
#: As cron has it, whatever shell the user has: that of www-data is nologin, which runs nothing.
_SHELL = "/bin/sh"


def passed_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The part of our environment that every task is given.

    Our interpreter's folder comes first in PATH, so that `python` in a command is the one that
    cronhare runs on. PYTHONUNBUFFERED, so that output comes as it is written, not at the end.
    """
    passed = {name: ours[name] for name in ours if name in PASSED or name.startswith("LC_")}
    python = str(Path(sys.executable).parent)
    folders = passed.get("PATH", os.defpath).split(os.pathsep)
    passed["PATH"] = os.pathsep.join([python, *(f for f in folders if f != python)])
    passed |= {"PYTHONUNBUFFERED": "1", "SHELL": _SHELL}
    return passed


def app_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of an app's interpreter: ours, but of our settings what it needs."""
    apps = {
        name: value
        for name, value in ours.items()
        if name not in ATTEMPT_VARIABLES
        and (not name.startswith(_OWN_PREFIX) or name.removesuffix("_FILE") in OF_APPS)
    }
    return {**own_login(), **apps, **passed_environment(ours)}


def environment(
    invocation: Invocation,
    *,
    passed: Mapping[str, str],
    ours: Mapping[str, str],
    params_file: str,
    account: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of one attempt; *account* has the variables of another user.

    Settings of cronhare (`CRON_…`) hold the passwords of broker and database: they are never
    passed, not even if the task's `pass_env` names them.
    """
    task = invocation.task
    return {
        **passed,
        **{
            name: ours[name]
            for name in task.pass_env
            if name in ours and name != "PATH" and not name.startswith(_OWN_PREFIX)
        },
        **(account or {}),
        **task.env,
        **_attempt_variables(invocation, params_file),
    }


def _attempt_variables(invocation: Invocation, params_file: str) -> dict[str, str]:
    """Describe the attempt; an owner's number that the schedule's row lacks has no variable."""
    owner, before = invocation.owned_by, invocation.previous_success
    values = (
        invocation.execution_id,
        invocation.execution_key,
        invocation.scheduler_id,
        invocation.attempt,
        params_file,
        IPC_FD,
        iso_moment(invocation.due_at),
        printable(invocation.schedule_name),  # with a NUL in it nothing could be started
        invocation.fence,
        invocation.missed,
        None if before is None else iso_moment(before),
        owner.user_id,
        owner.group_id,
        owner.language_id,
        invocation.topic,
        invocation.deaths,
        invocation.trace,
    )
    told = zip(ATTEMPT_VARIABLES, values, strict=True)
    return {name: str(value) for name, value in told if value is not None}


class UserUnavailable(LookupError):
    """A task cannot run as its user; *error_class* says whether it may at another time."""

    def __init__(self, why: str, error_class: ErrorClass, code: str | None = None) -> None:
        super().__init__(why)
        self.error_class = error_class
        self.code = code


@attrs.frozen(kw_only=True)
class Account:
    """A user of this host: numbers of user, group and all groups, and what a login sets."""

    ids: Sequence[int]
    environment: Mapping[str, str]


async def other_account(name: str | None) -> Account | None:
    """Look up the user to run as; None if it is our own.

    Raises:
        UserUnavailable: this host knows no such user, or did not answer within `TIMEOUT`.
    """
    if name is None:
        return None
    try:
        async with asyncio.timeout(TIMEOUT):
            account = await asyncio.to_thread(_find, name)
    except TimeoutError as error:
        why = f"this host did not find it within {TIMEOUT:g} s"
        raise UserUnavailable(why, ErrorClass.TRANSIENT) from error
    return None if account.ids[0] == os.geteuid() else account


def _find(name: str) -> Account:
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError) as error:
        raise UserUnavailable(f"this host has no user {name}", ErrorClass.PERMANENT) from error
    groups = os.getgrouplist(name, found.pw_gid)
    return Account(ids=[found.pw_uid, found.pw_gid, *groups], environment=_login(found))


def own_login() -> Mapping[str, str]:
    """Give the variables of our own user; none for a container's user without a name."""
    try:
        return _login(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return {}


def _login(found: pwd.struct_passwd) -> Mapping[str, str]:
    return {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name}
