"""The machine that ran the crontabs, and the worker that will run them."""

from collections.abc import Mapping

import attrs

ROOT = "root"


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
