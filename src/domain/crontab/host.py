"""The machine that ran the crontabs, and the worker that will run them."""

import attrs


@attrs.frozen(kw_only=True)
class Host:
    """What the crontabs leave unsaid about the machine that ran them, and the one that will.

    *run_as* is the worker's user; *timezone* the host's zone and *home* the home folder of
    *run_as*, None where unknown. *timeout* is written into every task, because cron knows none
    and the default of an hour could end what used to run for longer.
    """

    run_as: str
    timezone: str | None = None
    home: str | None = None
    timeout: str | None = "24h"
