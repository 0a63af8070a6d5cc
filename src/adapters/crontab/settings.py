"""What the `NAME=value` lines of a crontab mean for the entries below them."""

import re
from collections.abc import Mapping

import attrs

from cronhare.adapters.addresses import checked_address
from cronhare.domain.cron import UnknownZone, find_zone
from cronhare.domain.environment import ATTEMPT_VARIABLES
from cronhare.domain.events.targets import MOST_ADDRESSES

from .reader import Setting, Verdict

DEFAULT_SHELL = "/bin/sh"

_MAIL = frozenset({"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
#: TZ moves nothing in Debian's cron either (crontab(5)); the others speak to cronie and systemd.
_MOVES_NOTHING = frozenset({"TZ", "RANDOM_DELAY", "START_HOURS_RANGE", "PERSISTENT", "DELAY"})
_MAIL_IS = (
    "mail is sent when a run has failed for good, through CRON_SMTP_URL; what runs write is kept "
    "with them"
)


@attrs.frozen(kw_only=True)
class Surroundings:
    """What holds at a place in a crontab: *timezone* is None where the schedules name none.

    *mail* are the addresses of MAILTO.
    """

    timezone: str | None
    mail: tuple[str, ...] = ()
    shell: str = DEFAULT_SHELL
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class Judged:
    """What holds after a setting, and what the report says of it."""

    now: Surroundings
    verdict: Verdict = Verdict.CARRIED
    reason: str | None = None


def apply_setting(setting: Setting, before: Surroundings) -> Judged:
    """Take a setting over into the surroundings of the entries below it, or say why not."""
    name, value = setting.name, setting.value
    if name == "CRON_TZ":
        return _timezone(value, before)
    if name == "MAILTO":
        return _mail(value, before)
    if reason := _why_not(name):
        return Judged(before, Verdict.LEFT_OUT, reason)
    now = attrs.evolve(before, env={**before.env, name: value})
    if name == "SHELL":
        now = attrs.evolve(now, shell=value or DEFAULT_SHELL)
    if name in _MOVES_NOTHING:
        reason = f"the commands see {name}, but it does not move the times they run at"
        return Judged(now, Verdict.CHANGED, reason)
    return Judged(now)


def _why_not(name: str) -> str | None:
    if name in _MAIL:
        return "mail is written by cronhare: see CRON_SMTP_URL"
    if name == "LOGNAME":
        return "cron does not let a crontab set LOGNAME"
    if name in ATTEMPT_VARIABLES:
        return f"cronhare itself sets {name} for its tasks"
    return None


def _mail(value: str, before: Surroundings) -> Judged:
    addresses = tuple(dict.fromkeys(filter(None, re.split(r"[,\s]+", value))))
    try:
        to = tuple(map(checked_address, addresses))
    except ValueError as error:
        return Judged(attrs.evolve(before, mail=()), Verdict.LEFT_OUT, f"one of them {error}")
    if len(to) > MOST_ADDRESSES:
        reason = f"has more than {MOST_ADDRESSES} addresses"
        return Judged(attrs.evolve(before, mail=()), Verdict.LEFT_OUT, reason)
    now = attrs.evolve(before, mail=to)
    return Judged(now, Verdict.CHANGED, _MAIL_IS) if to else Judged(now)


def _timezone(value: str, before: Surroundings) -> Judged:
    try:
        find_zone(value)
    except UnknownZone as error:
        return Judged(before, Verdict.LEFT_OUT, str(error))
    reason = (
        f"the schedules below run in {value}; "
        "Debian's cron ignores CRON_TZ and ran them in the host's zone"
    )
    return Judged(attrs.evolve(before, timezone=value), Verdict.CHANGED, reason)
