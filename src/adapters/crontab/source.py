"""What is imported: the text of a crontab, its name, and the dialect that it is written in."""

import enum
import re
from pathlib import PurePosixPath

import attrs


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
