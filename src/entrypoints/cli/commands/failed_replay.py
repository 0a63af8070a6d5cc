"""`cronhare failed replay`: named failures at once, those of a filter in the background."""

from collections.abc import Mapping
from typing import Annotated

import typer

from cronhare.domain.execution import State
from cronhare.domain.retries.policy import ATTEMPTS

from ..errors import Refusal
from ..failure_options import (
    All,
    Ids,
    OfClass,
    OfKind,
    OfQueue,
    OfSchedule,
    OfTask,
    OfType,
    Since,
    Until,
    WithCode,
    WithReason,
    check_choice,
    failure_filter,
)
from ..output import Json
from ..replay_options import (
    Attempts,
    By,
    Canary,
    DryRun,
    Follow,
    GapJitter,
    Rate,
    StopAt,
    replay_order,
)
from ..replaying import REPLAY, replay_filtered, replay_named
from ..wiring import open_ledger


def replay(
    ids: Ids = None,
    *,
    everything: All = False,
    schedule: OfSchedule = None,
    task: OfTask = None,
    type_: OfType = None,
    queue: OfQueue = None,
    reason: WithReason = None,
    error: OfClass = None,
    code: WithCode = None,
    kind: OfKind = None,
    since: Since = None,
    until: Until = None,
    rate: Rate = None,
    jitter: GapJitter = None,
    per: Annotated[
        str | None,
        typer.Option(
            help="Limit those that have this in common: schedule, task, queue, or a path such as "
            "params.customer.id."
        ),
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(help="So many of one --per are under way at a time.")
    ] = None,
    canary: Canary = None,
    stop_at: StopAt = None,
    attempts: Attempts = None,
    by: By = None,
    dry_run: DryRun = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Run failed executions again, with a fresh retry allowance.

    Named ones begin at once. Those of a filter, or --all, begin one by one in the background, ten a
    second unless --rate says otherwise; `cronhare replays` shows and stops them, and --follow
    watches them at once.
    """
    asked: dict[str, object] = {
        "schedule": schedule,
        "task": task,
        "type": type_,
        "queue": queue,
        "reason": reason,
        "error_class": error,
        "code": code,
        "kind": None if kind is None else State(kind),
    }
    rules = {
        "rate": rate,
        "jitter": jitter,
        "key": per,
        "at_once": at_once,
        "canary": canary,
        "attempts": attempts,
    }
    has_filter = any(value is not None for value in (*asked.values(), since, until))
    check_choice(ids, everything=everything, has_filter=has_filter)
    if ids:
        spread = {**rules, "attempts": None, "stop_at": stop_at, "follow": follow or None}
        _expect_nothing_to_spread(spread, attempts)
        replay_named(open_ledger(), ids, REPLAY, attempts=attempts, dry_run=dry_run, json=json)
        return
    container = open_ledger()
    which = failure_filter(now=container.ledger_time().now(), since=since, until=until, **asked)
    order = replay_order(which, stop_at=stop_at, author=by, **rules)
    replay_filtered(
        container,
        order,
        REPLAY,
        everything=everything,
        dry_run=dry_run,
        follow=follow,
        json=json,
    )


def _expect_nothing_to_spread(spread: Mapping[str, object], attempts: int | None) -> None:
    """Refuse options of *spread* for named failures, which begin at once."""
    if given := [name for name, value in spread.items() if value is not None]:
        options = ", ".join(
            "--per" if name == "key" else f"--{name.replace('_', '-')}" for name in given
        )
        raise Refusal(f"{options}: numbers begin at once; this is for a filter, or --all")
    if attempts is not None and attempts not in ATTEMPTS:
        raise Refusal(f"--attempts: {attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}")
