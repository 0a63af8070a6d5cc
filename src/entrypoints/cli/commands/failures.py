"""`cronhare failed …` and `cronhare quarantine …`: the archive of failures, and a part of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.retries.limits import ACTIVATED
from cronhare.domain.retries.policy import ATTEMPTS
from cronhare.domain.texts.words import called_in_full, counted

from ...node_identity import this_actor
from ..errors import Refusal, Status
from ..options import (
    FAILURES,
    OF_FAILURES,
    OF_QUARANTINED,
    RULES,
    Asked,
    Before,
    Limit,
    Note,
    Watch,
    chosen_by,
    number,
    option_of,
    told_by_option,
)
from ..output import (
    Columns,
    Json,
    Styled,
    answer,
    change_line,
    facts,
    json_line,
    print_changes,
    print_json,
    print_line,
    print_rows,
)
from ..times import moment, none_since
from ..wiring import open_ledger
from .executions import show_attempts
from .replays import DryRun, Follow, pacing, tell_begun, this_author

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import FailureView
    from cronhare.application.administration.views.schedules import ScheduleView

    from ...container import Container


@attrs.frozen(kw_only=True)
class Words:
    """How a command names what it does: "*begun* 2 executions", "1 *thing* would be *done*".

    *none* is said where there is no *thing* at all, and the command *listed_by* lists them. *more*
    is what the filter has of itself.
    """

    begun: str
    done: str
    thing: str
    none: str
    listed_by: str
    more: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


REPLAY: Final = Words(
    begun="Replaying",
    done="replayed",
    thing="failure",
    none="No failure is unresolved",
    listed_by="cronhare failed list",
)
RELEASE: Final = Words(
    begun="Released",
    done="released",
    thing="execution",
    none="Nothing is quarantined",
    listed_by="cronhare quarantine list",
    more={"kind": State.QUARANTINED},
)

One = Annotated[int, number("A number from the list.", FAILURES)]
Ids = Annotated[list[int] | None, number("Numbers from the list.", FAILURES)]
All = Annotated[bool, typer.Option("--all", help="All that wait for a person.")]
WithResolved = Annotated[
    bool, typer.Option("--all", help="Those that were replayed, released or discarded, too.")
]


@chosen_by(*OF_FAILURES)
def list_failed(
    asked: Asked,
    *,
    everything: WithResolved = False,
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
    which = asked.filter(FailureFilter, now=queries.now(), unresolved=not everything)
    if watch:
        looks = queries.watch_failures(which, limit=limit, pause=time.sleep)
        print_changes(looks, _change, json=json)
        return
    empty = none_since("No failure matches these options.", which.since, which.until)
    if before is None and which in {EVERY_FAILURE, UNRESOLVED}:
        empty = "Nothing has failed for good." if everything else f"{REPLAY.none}."
    found = queries.failures(which, before=before, limit=limit)
    spare, columns = ("KIND", "TASK", "ATTEMPTS"), failure_columns(with_resolved=everything)
    print_rows(found, columns, json=json, empty=empty, spare=spare, elastic=("REASON",))
    if not json:
        _say_older(found, limit)


def failure_columns(*, with_resolved: bool) -> "Columns[FailureView]":
    return {
        "ID": "id",
        "SCHEDULE": "schedule_name",
        "TASK": "called",
        "KIND": lambda archived: Styled(archived.kind),
        "FAILED AT": "failed_at",
        "ATTEMPTS": "attempts",
        "EXECUTION": "execution_id",
        **({"RESOLVED": "resolution"} if with_resolved else {}),
        "REASON": _reason,
    }


def _change(archived: "FailureView") -> str:
    return change_line(
        archived.id,
        archived.failed_at,
        archived.resolution or archived.kind,
        attempt=archived.attempts,
        schedule=f"{archived.schedule_name}: {_reason(archived)}",
    )


def _reason(archived: "FailureView") -> str:
    """Give the first line of what went wrong, which the reason of an open breaker does not say."""
    reason, error = archived.failed_reason, archived.error
    if reason == ACTIVATED and error:
        return f"{error.message.partition(chr(10))[0]} ({reason})"
    return reason.partition("\n")[0]


@chosen_by(*OF_QUARANTINED)
def list_quarantined(
    asked: Asked,
    *,
    everything: WithResolved = False,
    before: Before = None,
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """List what is quarantined, newest first."""
    queries = open_ledger().queries()
    which = asked.filter(FailureFilter, now=queries.now(), unresolved=not everything)
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
    spare, empty = ("TASK", "CRASHES"), f"{RELEASE.none}."
    print_rows(
        found.quarantined, columns, json=False, empty=empty, spare=spare, elastic=("REASON",)
    )
    _say_older(found.quarantined, limit)
    if found.messages:
        print_line(
            f"Queue {found.queue} has {counted(found.messages, 'message')}: one of each, and what "
            "no worker could read. Look at them with `rabbitmqadmin get`.",
            style="bright_black",
        )


def _say_older(found: "Sequence[FailureView]", limit: int) -> None:
    if len(found) == limit:
        print_line(f"There may be older ones: --before {found[-1].id}", style="bright_black")


def show_failed(archived_id: One, *, json: Json = False) -> None:
    """Show one row of the archive: its attempts, its last output, and whose it is."""
    _show(open_ledger(), archived_id, json=json)


def show_quarantined(archived_id: One, *, json: Json = False) -> None:
    """Show one of them: its crashes, its attempts, its last output, and whose it is."""
    container = open_ledger()
    container.administrator().quarantined([archived_id])
    _show(container, archived_id, json=json)


#: Lines of the last output that are shown of each stream; `cronhare logs` has all.
LAST_LINES: Final = 10


def _show(container: "Container", archived_id: int, *, json: bool) -> None:
    found = container.queries().failure(archived_id)
    if json:
        print_json(found)
        return
    failure, output = found.failure, found.last_output
    facts([*_facts(failure), *_whose(found.schedule)])
    if found.attempts:
        show_attempts(found.attempts)
    if output is None:
        return
    for name, stream in (("stdout", output.stdout), ("stderr", output.stderr)):
        lines = (stream.tail or stream.head).splitlines()[-LAST_LINES:]
        if lines:
            print_line(f"--- attempt {output.attempt}, end of {name}", style="bold")
        for line in lines:
            print_line(line)


def _facts(archived: "FailureView") -> list[tuple[str, object]]:
    said, crashes, error = None, None, archived.error
    if error is not None:
        code, stack = f" ({error.code})" if error.code else "", f"\n{error.stack}"
        said = f"{error.message}{code}{stack if error.stack else ''}"
    if archived.crash_count is not None and archived.first_crash_at is not None:
        crashes = f"{archived.crash_count} from {moment(archived.first_crash_at)} on"
    paused = archived.paused_after
    return [
        ("failure", archived.id),
        ("execution", archived.execution_id),
        ("schedule", f"{archived.schedule_name} (id {archived.scheduler_id})"),
        ("task", called_in_full(archived.task, name=archived.task_name, source=archived.source)),
        ("topic", archived.topic),
        ("key", archived.execution_key),
        ("kind", Styled(archived.kind)),
        ("queue", archived.queue),
        ("failed at", archived.failed_at),
        ("reason", archived.failed_reason),
        ("crashes", crashes),
        ("attempts", archived.attempts),
        ("paused", paused and f"its schedule, after {paused} in a row"),
        ("params", json_line(archived.params)),
        ("options", None if archived.options is None else json_line(archived.options)),
        ("resolved", archived.resolved_at),
        ("resolution", archived.resolution),
        ("note", archived.note or None),
        ("error", said),
    ]


def _whose(schedule: "ScheduleView | None") -> list[tuple[str, object]]:
    if schedule is None:
        return [("now", "the schedule is no more")]
    return [
        ("description", schedule.description),
        ("due", schedule.schedule),
        ("user", schedule.user_id),
        ("group", schedule.group_id),
    ]


@chosen_by(*OF_FAILURES)
@chosen_by(*RULES, "key", "at_once")
def replay(
    rules: Asked,
    asked: Asked,
    ids: Ids = None,
    *,
    everything: All = False,
    dry_run: DryRun = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Run failed executions again, with a fresh retry allowance.

    Named ones begin at once. Those of a filter, or --all, begin one by one in the background, ten a
    second unless --rate says otherwise; `cronhare replays` shows and stops them, and --follow
    watches them at once.
    """
    asked.expect_one_choice(ids, everything=everything, listed_by=REPLAY.listed_by)
    container, given = open_ledger(), rules.given
    if ids:
        attempts = given.pop("attempts", None)
        spread = [option_of(name) for name in given if name != "author"]
        if spread := [*spread, *["--follow"] * follow]:
            at_once = "numbers begin at once; this is for a filter, or --all"
            raise Refusal(f"{', '.join(spread)}: {at_once}")
        if attempts is not None and attempts not in ATTEMPTS:
            raise Refusal(f"--attempts: {attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}")
        _replay_named(container, ids, REPLAY, attempts=attempts, dry_run=dry_run, json=json)
        return
    if "at_once" in given and "key" not in given:
        raise Refusal("--at-once: it counts those with one --per: add that, such as --per schedule")
    which = asked.filter(FailureFilter, now=container.ledger_time().now())
    order = {"which": which, **pacing(rules)}
    _replay_filtered(
        container, order, REPLAY, everything=everything, dry_run=dry_run, follow=follow, json=json
    )


@chosen_by(*OF_QUARANTINED)
def release(
    asked: Asked,
    ids: Ids = None,
    *,
    everything: All = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Let them run again: back to their queues, with a fresh allowance of retries and crashes.

    Those of a filter, or --all, begin one by one in the background; `cronhare replays` shows them.
    """
    asked.expect_one_choice(ids, everything=everything, listed_by=RELEASE.listed_by)
    container = open_ledger()
    if ids:
        container.administrator().quarantined(ids)
        _replay_named(container, ids, RELEASE, dry_run=dry_run, json=json)
        return
    which = asked.filter(FailureFilter, now=container.ledger_time().now(), **RELEASE.more)
    order = {"which": which, "author": this_author(None)}
    _replay_filtered(container, order, RELEASE, everything=everything, dry_run=dry_run, json=json)


def _replay_filtered(
    container: "Container",
    order: dict[str, Any],
    words: Words,
    *,
    everything: bool,
    dry_run: bool,
    follow: bool = False,
    json: bool,
) -> None:
    replays = container.replays()
    with told_by_option("this replay cannot be ordered"):
        wanted = ReplayOrder(**order)
    if dry_run:
        _say_count(replays.count(wanted.which), words, json=json)
        return
    ordered = replays.order(wanted, actor=this_actor())
    if ordered.replay is None:
        none = {"failures": ordered.failures}
        _end_with_none(none, words, everything=everything, json=json)
        return
    said, pace = counted(ordered.failures, words.thing), f"at most {wanted.rate:g} a second"
    begun = f"Replay {ordered.replay.id}: {said}, {pace}, in the background."
    tell_begun(container, ordered.replay, [begun], follow=follow, json=json)


def _replay_named(
    container: "Container",
    ids: list[int],
    words: Words,
    *,
    attempts: int | None = None,
    dry_run: bool,
    json: bool,
) -> None:
    administrator = container.administrator()
    if dry_run:
        unresolved = [row for row in administrator.archived(ids) if row.resolution is None]
        _say_count(len(unresolved), words, json=json)
        return
    done = administrator.replay(ids, attempts=attempts, actor=this_actor())
    again = done.executions
    numbers = f": {', '.join(map(str, again))}" if again else ""
    said = f"{words.begun} {counted(len(again), 'execution')}{numbers}"
    refused = (f"{id_} cannot be {words.done}: {why}." for id_, why in done.refused.items())
    answer(done, f"{said}{_before(done.resolved_before)}.", *refused, json=json)
    if done.asked and not done.executions:
        raise typer.Exit(Status.WRONG_INPUT)


def _say_count(count: int, words: Words, *, json: bool) -> None:
    said = f"{counted(count, words.thing)} would be {words.done}; nothing was changed."
    answer({"failures": count}, said, json=json)


def _discarding(words: Words, *fields: str) -> Callable[..., None]:
    @chosen_by(*fields)
    def discard(
        asked: Asked,
        ids: Ids = None,
        *,
        everything: All = False,
        note: Note = "",
        json: Json = False,
    ) -> None:
        """Resolve them without a run; they stay in the archive, with a note."""
        asked.expect_one_choice(ids, everything=everything, listed_by=words.listed_by)
        container = open_ledger()
        administrator = container.administrator()
        if ids:
            if words is RELEASE:
                administrator.quarantined(ids)
            done = administrator.discard(ids, note=note, actor=this_actor())
        else:
            which = asked.filter(FailureFilter, now=container.ledger_time().now(), **words.more)
            done = administrator.discard_all(which, note=note, actor=this_actor())
        if not done.asked:
            _end_with_none(done, words, everything=everything, json=json)
            return
        said = counted(done.failures, words.thing)
        answer(done, f"Discarded {said}{_before(done.resolved_before)}.", json=json)
        if not done.failures:
            raise typer.Exit(Status.WRONG_INPUT)

    return discard


discard_failed = _discarding(REPLAY, *OF_FAILURES)
discard_quarantined = _discarding(RELEASE, *OF_QUARANTINED)


def _end_with_none(done: object, words: Words, *, everything: bool, json: bool) -> None:
    """Say that there was nothing to do; a filter that takes nothing may be a slip of the hand."""
    none = words.none if everything else f"No {words.thing} matches"
    answer(done, f"{none}: nothing was changed.", json=json)
    if not everything:
        raise typer.Exit(Status.WRONG_INPUT)


def _before(count: int) -> str:
    return f"; {count} resolved already" if count else ""
