"""`cronhare failed replay`: named failures at once, those of a filter in the background."""

from collections.abc import Mapping
from typing import Annotated

import typer

from cronhare.application.administration.views.failures import ReplayedView
from cronhare.domain.execution import State
from cronhare.domain.retries.retry import ATTEMPTS
from cronhare.domain.texts.listing import counted

from ..errors import Refusal, Status
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
from ..output import Json, print_json, print_line
from ..replay_options import By, replay_order
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
    rate: Annotated[float | None, typer.Option(help="At most so many begin in a second.")] = None,
    jitter: Annotated[
        float | None,
        typer.Option(help="By how much of itself a gap grows at most, by chance: 0.2 is 20 %."),
    ] = None,
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
    canary: Annotated[
        int | None, typer.Option(help="Judge so many before any other begins.")
    ] = None,
    stop_at: Annotated[
        str | None,
        typer.Option(help="Stop if more than this part goes badly, such as 0.2; or never."),
    ] = None,
    attempts: Annotated[
        int | None, typer.Option(help="Try each so often in all; else as its policy says.")
    ] = None,
    by: By = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many it would be, and change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Run failed executions again, with a fresh retry allowance.

    Named ones begin at once. Those of a filter, or --all, begin one by one in the background, ten a
    second unless --rate says otherwise; `cronhare replays` shows and stops them.
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
        spread = {**rules, "attempts": None, "stop_at": stop_at}
        _replay_named(ids, spread, attempts=attempts, dry_run=dry_run, json=json)
        return
    container = open_ledger()
    replays, now = container.replays(), container.claims().now()
    which = failure_filter(now=now, since=since, until=until, **asked)
    order = replay_order(which, stop_at=stop_at, author=by, **rules)
    count = replays.count(which)
    if dry_run or not count:
        said = f"{counted(count, 'failure')} would be replayed; nothing was changed."
        print_json({"failures": count}) if json else print_line(said)
        return
    ordered = replays.order(order, now=now)
    if json:
        print_json(ordered)
        return
    pace = f"at most {order.rate:g} a second"
    print_line(f"Replay {ordered.id}: {counted(count, 'failure')}, {pace}, in the background.")
    print_line(
        f"How it goes on: cronhare replays show {ordered.id}; to stop it: … stop {ordered.id}"
    )


def _replay_named(
    ids: list[int],
    spread: Mapping[str, object],
    *,
    attempts: int | None,
    dry_run: bool,
    json: bool,
) -> None:
    """Replay named failures, which begin at once: nothing spreads them."""
    if given := [name for name, value in spread.items() if value is not None]:
        options = ", ".join(
            "--per" if name == "key" else f"--{name.replace('_', '-')}" for name in given
        )
        raise Refusal(f"{options}: numbers begin at once; this is for a filter, or --all")
    if attempts is not None and attempts not in ATTEMPTS:
        raise Refusal(f"--attempts: {attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}")
    container = open_ledger()
    administrator = container.administrator()
    if dry_run:
        open_ones = [row for row in administrator.archived(ids) if row.resolution is None]
        said = f"{counted(len(open_ones), 'failure')} would be replayed; nothing was changed."
        print_json({"failures": len(open_ones)}) if json else print_line(said)
        return
    done = administrator.replay(ids, now=container.claims().now(), attempts=attempts)
    if json:
        print_json(ReplayedView.of(done))
    else:
        again = done.executions
        numbers = f": {', '.join(map(str, again))}" if again else ""
        before = f"; {done.resolved_before} resolved already" if done.resolved_before else ""
        print_line(f"Replaying {counted(len(again), 'execution')}{numbers}{before}.")
        for id_, why in done.refused.items():
            print_line(f"{id_} cannot be replayed: {why}.")
    if done.asked and not done.executions:
        raise typer.Exit(Status.WRONG_INPUT)
