"""`cronhare budgets list`."""

from typing import TYPE_CHECKING

from ..output import Json
from ..rows import Columns, print_rows
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.views.work import BudgetView


def list_(*, json: Json = False) -> None:
    """List what each queue has left of its retries, and when the next place is free.

    A queue is listed once it was asked for a retry. Limit and window are those of the process that
    asked last: CRON_RETRY_BUDGET and CRON_RETRY_BUDGET_WINDOW_SECONDS.
    """
    columns: Columns[BudgetView] = {
        "QUEUE": "queue",
        "LIMIT": lambda budget: f"{budget.limit:,} per {budget.window_seconds:g} s",
        "REMAINING": lambda budget: f"{budget.remaining:,}",
        "DEFERRED UNTIL": "deferred_until",
        "SPENT SINCE": "spent_since",
    }
    found = open_ledger().limit_desk().budgets()
    print_rows(
        found,
        columns,
        json=json,
        empty="No queue was asked for a retry of late.",
        spare=("SPENT SINCE",),
    )
