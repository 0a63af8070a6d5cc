"""Options of processes that live long. All that such a process imports, its help does without."""

from typing import Annotated

import typer

from ..settings.bounds import MOST_AT_A_TIME

Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_AT_A_TIME, help="How many tasks run at a time. [env: CRON_CONCURRENCY]"
    ),
]
