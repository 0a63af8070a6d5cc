"""`cronhare failed …` and `cronhare quarantine …`: the archive of failures, and a part of it."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.retries.policy import ATTEMPTS
from cronhare.domain.texts.words import called_in_full, counted

from ...node_identity import this_actor
from ..completion import FAILURES
from ..described import Watch, change_line, print_changes, show_attempts
from ..errors import Refusal
from ..options import (
    EVERY_OPTION,
    FEW_OPTIONS,
    Asked,
    Before,
    Note,
    chosen_by,
    number,
)
from ..output import (
    Columns,
    Json,
    facts,
    json_line,
    moment,
    print_json,
    print_line,
    print_rows,
    printable_lines,
    state,
)
from ..replaying import (
    RELEASE,
    REPLAY,
    DryRun,
    Follow,
    Words,
    replay_filtered,
    replay_named,
    replay_order,
    show_discarded,
    spread,
    this_author,
)
from ..times import none_since
from ..typed_values import Limit
from ..wiring import open_ledger

if TYPE_CHECKING:
    from rich.text import Text

    from cronhare.application.administration.views.failures import FailureView, FailureWithDetails
    from cronhare.application.administration.views.schedules import ScheduleView
    from cronhare.application.administration.views.values import ErrorView


_FAILED, _QUARANTINE = "failed list", "quarantine list"

Failed = Annotated[list[int] | None, number(f"Numbers from `{_FAILED}`.", FAILURES)]
Quarantined = Annotated[list[int] | None, number(f"Numbers from `{_QUARANTINE}`.", FAILURES)]
OneFailed = Annotated[int, number(f"A number from `{_FAILED}`.", FAILURES)]
OneQuarantined = Annotated[int, number(f"A number from `{_QUARANTINE}`.", FAILURES)]
AllFailed = Annotated[bool, typer.Option("--all", help="Everything that is unresolved.")]
AllQuarantined = Annotated[bool, typer.Option("--all", help="Everything that is quarantined.")]


@chosen_by(*EVERY_OPTION)
def list_failed(
    asked: Asked,
    *,
    everything: Annotated[bool, typer.Option("--all", help="The resolved ones, too.")] = False,
    before: Before = None,
    limit: Limit = 100,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """List the archive, newest first; with --watch the newest last, until Ctrl-C.

    With --watch and --json each look at which something has changed is one line. With --watch and
    --all it is told as well when one is replayed or discarded.
    """
    if watch and before is not None:
        raise Refusal("--before: a page of older ones has nothing new to --watch")
    queries = open_ledger().queries()
    which = asked.filter(now=queries.now(), unresolved=not everything)
    if watch:
        looks = queries.watch_failures(which, limit=limit, pause=time.sleep)
        print_changes(looks, failure_line, json=json)
        return
    found = queries.failures(which, before=before, limit=limit)
    print_rows(
        found,
        failure_columns(with_resolved=everything),
        json=json,
        empty=_nothing(which, before),
        spare=("KIND", "TASK", "ATTEMPTS"),
        elastic=("REASON",),
    )
    if not json:
        _say_older(found, limit)


@chosen_by(*FEW_OPTIONS)
def list_quarantined(
    asked: Asked,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Those that were released or discarded, too.")
    ] = False,
    before: Before = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List what is quarantined, newest first."""
    queries = open_ledger().queries()
    which = asked.filter(now=queries.now(), unresolved=not everything)
    found = queries.quarantine(which, before=before, limit=limit)
    if json:
        print_json(found)
        return
    columns: Columns[FailureView] = {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "QUARANTINED AT": "failed_at",
        "CRASHES": "crash_count",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if everything else {}),
        "REASON": lambda archived: archived.failed_reason.partition("\n")[0],
    }
    print_rows(
        found.quarantined,
        columns,
        json=False,
        empty="Nothing is quarantined.",
        spare=("TASK", "CRASHES"),
        elastic=("REASON",),
    )
    _say_older(found.quarantined, limit)
    if found.messages:
        print_line(
            f"Queue {found.queue} has {counted(found.messages, 'message')}: one of each, and what "
            "no worker could read. Look at them with `rabbitmqadmin get`.",
            style="bright_black",
        )


def show_failed(archived_id: OneFailed, *, json: Json = False) -> None:
    """Show one row of the archive: its attempts, its last output, and whose it is."""
    _show(open_ledger().queries().failure(archived_id), json=json)


def show_quarantined(archived_id: OneQuarantined, *, json: Json = False) -> None:
    """Show one of them: its crashes, its attempts, its last output, and whose it is."""
    container = open_ledger()
    container.administrator().quarantined([archived_id])
    _show(container.queries().failure(archived_id), json=json)


@chosen_by(*EVERY_OPTION)
@spread
def replay(
    rules: dict[str, Any],
    asked: Asked,
    ids: Failed = None,
    *,
    everything: AllFailed = False,
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
    dry_run: DryRun = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Run failed executions again, with a fresh retry allowance.

    Named ones begin at once. Those of a filter, or --all, begin one by one in the background, ten a
    second unless --rate says otherwise; `cronhare replays` shows and stops them, and --follow
    watches them at once.
    """
    rules |= {"key": per, "at_once": at_once}
    asked.expect_one_choice(ids, everything=everything, listed_by=REPLAY.listed_by)
    if ids:
        attempts = rules.pop("attempts")
        _expect_nothing_to_spread({**rules, "author": None, "follow": follow or None}, attempts)
        replay_named(open_ledger(), ids, REPLAY, attempts=attempts, dry_run=dry_run, json=json)
        return
    container = open_ledger()
    which = asked.filter(now=container.ledger_time().now())
    order = replay_order(which, rules)
    replay_filtered(
        container,
        order,
        REPLAY,
        everything=everything,
        dry_run=dry_run,
        follow=follow,
        json=json,
    )


@chosen_by(*FEW_OPTIONS)
def release(
    asked: Asked,
    ids: Quarantined = None,
    *,
    everything: AllQuarantined = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Let them run again: back to their queues, with a fresh allowance of retries and crashes.

    Those of a filter, or --all, begin one by one in the background; `cronhare replays` shows them.
    """
    container = open_ledger()
    asked.expect_one_choice(ids, everything=everything, listed_by=RELEASE.listed_by)
    if ids:
        container.administrator().quarantined(ids)
        replay_named(container, ids, RELEASE, dry_run=dry_run, json=json)
        return
    which = asked.filter(now=container.ledger_time().now(), kind=State.QUARANTINED)
    order = ReplayOrder(which=which, author=this_author(None))
    replay_filtered(container, order, RELEASE, everything=everything, dry_run=dry_run, json=json)


@chosen_by(*EVERY_OPTION)
def discard_failed(
    asked: Asked,
    ids: Failed = None,
    *,
    everything: AllFailed = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Resolve failures without a run; they stay in the archive."""
    _discard(asked, ids, REPLAY, everything=everything, note=note, json=json)


@chosen_by(*FEW_OPTIONS)
def discard_quarantined(
    asked: Asked,
    ids: Quarantined = None,
    *,
    everything: AllQuarantined = False,
    note: Note = "",
    json: Json = False,
) -> None:
    """Resolve them without a run; they stay in the archive, with a note."""
    _discard(asked, ids, RELEASE, everything=everything, note=note, json=json)


def _discard(
    asked: Asked, ids: list[int] | None, words: Words, *, everything: bool, note: str, json: bool
) -> None:
    asked.expect_one_choice(ids, everything=everything, listed_by=words.listed_by)
    container = open_ledger()
    administrator, now = container.administrator(), container.ledger_time().now()
    if ids:
        if words is RELEASE:
            administrator.quarantined(ids)
        done = administrator.discard(ids, note=note, now=now, actor=this_actor())
    else:
        which = asked.filter(now=now)
        if words is RELEASE:
            which = attrs.evolve(which, kind=State.QUARANTINED)
        done = administrator.discard_all(which, note=note, now=now, actor=this_actor())
    show_discarded(done, words, everything=everything, json=json)


def _say_older(found: "Sequence[FailureView]", limit: int) -> None:
    if len(found) == limit:
        print_line(f"There may be older ones: --before {found[-1].id}", style="bright_black")


def _nothing(which: FailureFilter, before: int | None) -> str:
    if before is None and which == EVERY_FAILURE:
        return "Nothing has failed for good."
    if before is None and which == UNRESOLVED:
        return "No failure is unresolved."
    return none_since("No failure matches these options.", which.since, which.until)


def _expect_nothing_to_spread(spread: dict[str, Any], attempts: int | None) -> None:
    """Refuse options of *spread* for named failures, which begin at once."""
    if given := [name for name, value in spread.items() if value is not None]:
        options = ", ".join(
            "--per" if name == "key" else f"--{name.replace('_', '-')}" for name in given
        )
        raise Refusal(f"{options}: numbers begin at once; this is for a filter, or --all")
    if attempts is not None and attempts not in ATTEMPTS:
        raise Refusal(f"--attempts: {attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}")


#: Lines of the last output that are shown of each stream; `cronhare logs` has all.
LAST_LINES = 10


def failure_columns(*, with_resolved: bool) -> Columns["FailureView"]:
    """Give the columns of a list."""
    return {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "KIND": lambda archived: state(archived.kind),
        "FAILED AT": "failed_at",
        "ATTEMPTS": "attempts",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if with_resolved else {}),
        "REASON": _reason,
    }


def failure_line(archived: "FailureView") -> "Text":
    """Write a failure on one line, as `--watch` tells of it."""
    return change_line(
        archived.id,
        archived.failed_at,
        archived.resolution or archived.kind,
        attempt=archived.attempts,
        schedule=archived.schedule_name,
        rest=f": {_reason(archived)}",
    )


def _show(found: "FailureWithDetails", *, json: bool) -> None:
    """Print one row of the archive with its attempts, and the end of what the last one wrote."""
    if json:
        print_json(found)
        return
    failure, output = found.failure, found.last_output
    facts([*_failure_facts(failure), *_whose(found.schedule)])
    if found.attempts:
        show_attempts(found.attempts)
    if output is None:
        return
    for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
        lines = (stream.tail or stream.head).splitlines()[-LAST_LINES:]
        if lines:
            print_line(f"--- attempt {output.attempt}, end of {name}", style="bold")
            print_line(printable_lines("\n".join(lines)))


def _failure_facts(archived: "FailureView") -> list[tuple[str, object]]:
    return [
        ("failure", archived.id),
        ("execution", archived.execution_id),
        ("schedule", f"{archived.schedule_name} (id {archived.scheduler_id})"),
        ("task", called_in_full(archived.task, name=archived.task_name, source=archived.source)),
        ("topic", archived.topic),
        ("key", archived.execution_key),
        ("kind", state(archived.kind)),
        ("queue", archived.queue),
        ("failed at", archived.failed_at),
        ("reason", archived.failed_reason),
        ("crashes", _crashes(archived)),
        ("attempts", archived.attempts),
        ("params", json_line(archived.params)),
        ("options", None if archived.options is None else json_line(archived.options)),
        ("resolved", archived.resolved_at),
        ("resolution", archived.resolution),
        ("note", archived.note or None),
        ("error", None if archived.error is None else _said(archived.error)),
    ]


def _reason(archived: "FailureView") -> str:
    """Give the first line of what went wrong, which the reason of an open breaker does not say."""
    reason, error = archived.failed_reason, archived.error
    if reason == ACTIVATED and error:
        return f"{error.message.partition(chr(10))[0]} ({reason})"
    return reason.partition("\n")[0]


def _crashes(archived: "FailureView") -> str | None:
    if archived.crash_count is None:
        return None
    return f"{archived.crash_count} from {moment(archived.first_crash_at)} on"


def _whose(schedule: "ScheduleView | None") -> list[tuple[str, object]]:
    if schedule is None:
        return [("now", "the schedule is no more")]
    return [
        ("description", schedule.description),
        ("due", schedule.schedule),
        ("user", schedule.user_id),
        ("group", schedule.group_id),
    ]


def _said(error: "ErrorView") -> str:
    code = f" ({error.code})" if error.code else ""
    stack = f"\n{error.stack}" if error.stack else ""
    return f"{error.message}{code}{stack}"
