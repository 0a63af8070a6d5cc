"""What an import is given, crontabs and the machine that ran them, and what it gives."""

import enum
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import attrs

from cronhare.domain.cron import CronExpression

ROOT = "root"


class CrontabKind(enum.Enum):
    """Whose table it is, which decides whether a user column follows the time fields."""

    USER = "user"  # `crontab -l`, /var/spool/cron/crontabs/NAME
    SYSTEM = "system"  # /etc/crontab, /etc/cron.d/NAME


@attrs.frozen(kw_only=True)
class Crontab:
    """A crontab as its file holds it. *name* is the file's path, as the reports will print it."""

    name: str
    text: str
    kind: CrontabKind

    @property
    def owner(self) -> str | None:
        """The user that a file of cron's spool is named after.

        >>> Crontab(name="/var/spool/cron/crontabs/ada", text="", kind=CrontabKind.USER).owner
        'ada'
        """
        path = PurePosixPath(self.name)
        spooled = self.kind is CrontabKind.USER and "/spool/cron" in str(path.parent)
        return path.name if spooled else None

    @property
    def ignored_by_cron(self) -> bool:
        """Whether cron passes over a file of cron.d for its name, as it does with `php.dpkg-old`.

        Source: cron(8) of Debian, "DEBIAN SPECIFIC".
        """
        path = PurePosixPath(self.name)
        return path.parent.name == "cron.d" and not re.fullmatch(r"[A-Za-z0-9_-]+", path.name)


@attrs.frozen(kw_only=True)
class Host:
    """What the crontabs leave unsaid about the machine that ran them, and the one that will.

    *run_as* is the worker's user; *timezone* the host's zone and *home* the home folder of
    *run_as*, None where unknown; *homes* are those of the others. *timeout* is written into every
    task, because cron knows none and the default of an hour could end what used to run for longer.
    """

    run_as: str
    homes: Mapping[str, str] = attrs.field(factory=dict[str, str])
    timezone: str | None = None
    home: str | None = None
    timeout: str | None = "24h"

    def other(self, user: str | None) -> str | None:
        """Whom a job has to name as its user, because the worker is another; None if it is not."""
        return None if user in {None, self.run_as} else user

    def home_of(self, user: str | None) -> str | None:
        """The home folder that cron would start a command in."""
        return self.home if user is None else self.homes.get(user)


def parse_usable(text: str) -> CronExpression:
    """Parse a cron expression, and refuse what no schedule may have because it never fires.

    Raises:
        ValueError: with the reason.
    """
    expression = CronExpression.parse(text)
    if not expression.fires:
        raise ValueError(f"it never fires: {expression.why_never}")
    return expression


class Verdict(enum.Enum):
    """What has become of a line."""

    CARRIED = "carried"
    CHANGED = "changed"  # carried, but it will not behave as it did
    LEFT_OUT = "left out"


@attrs.frozen(kw_only=True)
class Finding:
    """One line of a crontab and its verdict.

    *job* is the name that an entry was given; None for settings and for what was left out.
    *reasons* are sentences without a full stop, empty for a line that is simply carried.
    """

    file: str
    line: int
    text: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    job: str | None = None


@attrs.frozen(kw_only=True)
class Imported:
    """A jobs file, and how it came about.

    *findings* holds one for every line that is neither blank nor a comment, in order; *notes*
    are sentences that hold for the whole of it.
    """

    text: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
