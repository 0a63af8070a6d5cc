"""`cronhare failed …` and `cronhare quarantine …`: the archive of failures, and a part of it."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from cronhare.domain.execution import State
from cronhare.domain.lifecycle.archive import EVERY_FAILURE, UNRESOLVED, FailureFilter
from cronhare.domain.lifecycle.orders import ReplayOrder
from cronhare.domain.reading import Invalid
from cronhare.domain.retries.policy import ATTEMPTS
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor
from ..completion import FAILURES
from ..described import Watch, failure_columns, failure_line, print_changes, show_failure
from ..errors import Refusal, Status
from ..options import (
    EVERY_OPTION,
    FEW_OPTIONS,
    Asked,
    Before,
    Limit,
    Note,
    chosen_by,
    number,
)
from ..output import Columns, Json, answer, print_json, print_line, print_rows
from ..times import none_since
from ..wiring import open_ledger
from .replays import (
    DryRun,
    Follow,
    option_of,
    refused_order,
    rules_given,
    spread,
    tell_begun,
    this_author,
)

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import DiscardedView, FailureView

    from ...container import Container


@attrs.frozen(kw_only=True)
class Words:
    """How a command names what it does: "*begun* 2 executions", "1 *thing* would be *done*".

    *none* is said where there is no *thing* at all, and the command *listed_by* lists them.
    """

    begun: str
    done: str
    thing: str
    none: str
    listed_by: str


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
)

_ONE, _SOME = "A number from `{} list`.", "Numbers from `{} list`."

OneFailed = Annotated[int, number(_ONE.format("failed"), FAILURES)]
OneQuarantined = Annotated[int, number(_ONE.format("quarantine"), FAILURES)]
Failed = Annotated[list[int] | None, number(_SOME.format("failed"), FAILURES)]
Quarantined = Annotated[list[int] | None, number(_SOME.format("quarantine"), FAILURES)]
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
        empty=f"{RELEASE.none}.",
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


def _say_older(found: "Sequence[FailureView]", limit: int) -> None:
    if len(found) == limit:
        print_line(f"There may be older ones: --before {found[-1].id}", style="bright_black")


def _nothing(which: FailureFilter, before: int | None) -> str:
    if before is None and which == EVERY_FAILURE:
        return "Nothing has failed for good."
    if before is None and which == UNRESOLVED:
        return f"{REPLAY.none}."
    return none_since("No failure matches these options.", which.since, which.until)


def show_failed(archived_id: OneFailed, *, json: Json = False) -> None:
    """Show one row of the archive: its attempts, its last output, and whose it is."""
    show_failure(open_ledger().queries().failure(archived_id), json=json)


def show_quarantined(archived_id: OneQuarantined, *, json: Json = False) -> None:
    """Show one of them: its crashes, its attempts, its last output, and whose it is."""
    container = open_ledger()
    container.administrator().quarantined([archived_id])
    show_failure(container.queries().failure(archived_id), json=json)


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
    container = open_ledger()
    if ids:
        attempts = rules.pop("attempts")
        _expect_nothing_to_spread({**rules, "author": None, "follow": follow or None}, attempts)
        _replay_named(container, ids, REPLAY, attempts=attempts, dry_run=dry_run, json=json)
        return
    order = _order(asked.filter(now=container.ledger_time().now()), rules)
    _replay_filtered(
        container,
        order,
        REPLAY,
        everything=everything,
        dry_run=dry_run,
        follow=follow,
        json=json,
    )


def _order(which: FailureFilter, rules: dict[str, Any]) -> ReplayOrder:
    """Make an order of the options that were given; the others have their defaults."""
    what, faults = "this replay cannot be ordered", list[str]()
    if rules["at_once"] is not None and rules["key"] is None:
        faults.append("--at-once: it is for --per, which says what they have in common")
    try:
        given = rules_given(rules)
    except Refusal as refusal:
        faults.append(str(refusal))
        given = rules_given({**rules, "stop_at": None})
    try:
        order = ReplayOrder(which=which, **given)
    except Invalid as error:
        raise refused_order(what, error, *faults) from error
    if faults:
        raise Refusal(what, faults)
    return order


def _expect_nothing_to_spread(spread: dict[str, Any], attempts: int | None) -> None:
    """Refuse options of *spread* for named failures, which begin at once."""
    if given := [option_of(name) for name, value in spread.items() if value is not None]:
        raise Refusal(f"{', '.join(given)}: numbers begin at once; this is for a filter, or --all")
    if attempts is not None and attempts not in ATTEMPTS:
        raise Refusal(f"--attempts: {attempts} is not {ATTEMPTS[0]}-{ATTEMPTS[-1]}")


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
    asked.expect_one_choice(ids, everything=everything, listed_by=RELEASE.listed_by)
    container = open_ledger()
    if ids:
        container.administrator().quarantined(ids)
        _replay_named(container, ids, RELEASE, dry_run=dry_run, json=json)
        return
    which = asked.filter(now=container.ledger_time().now(), kind=State.QUARANTINED)
    order = ReplayOrder(which=which, author=this_author(None))
    _replay_filtered(container, order, RELEASE, everything=everything, dry_run=dry_run, json=json)


def _replay_filtered(
    container: "Container",
    order: ReplayOrder,
    words: Words,
    *,
    everything: bool,
    dry_run: bool,
    follow: bool = False,
    json: bool,
) -> None:
    """Let what a filter takes begin in the background; *everything* was asked for without one."""
    replays = container.replays()
    if dry_run:
        _say_count(replays.count(order.which), words, json=json)
        return
    ordered = replays.order(order, actor=this_actor())
    if ordered.replay is None:
        none = {"failures": ordered.failures}
        _end_with_none(none, words, everything=everything, json=json)
        return
    said, pace = counted(ordered.failures, words.thing), f"at most {order.rate:g} a second"
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
    """Let failures begin at once, and say of each that cannot why."""
    administrator = container.administrator()
    if dry_run:
        unresolved = [row for row in administrator.archived(ids) if row.resolution is None]
        _say_count(len(unresolved), words, json=json)
        return
    done = administrator.replay(ids, attempts=attempts, actor=this_actor())
    again = done.executions
    numbers = f": {', '.join(map(str, again))}" if again else ""
    said = f"{words.begun} {counted(len(again), 'execution')}{numbers}"
    answer(
        done,
        f"{said}{_before(done.resolved_before)}.",
        *(f"{id_} cannot be {words.done}: {why}." for id_, why in done.refused.items()),
        json=json,
    )
    if done.asked and not done.executions:
        raise typer.Exit(Status.WRONG_INPUT)


def _say_count(count: int, words: Words, *, json: bool) -> None:
    said = f"{counted(count, words.thing)} would be {words.done}; nothing was changed."
    answer({"failures": count}, said, json=json)


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
    done: DiscardedView
    if ids:
        if words is RELEASE:
            administrator.quarantined(ids)
        done = administrator.discard(ids, note=note, actor=this_actor())
    else:
        which = asked.filter(now=now)
        if words is RELEASE:
            which = attrs.evolve(which, kind=State.QUARANTINED)
        done = administrator.discard_all(which, note=note, actor=this_actor())
    if not done.asked:
        _end_with_none(done, words, everything=everything, json=json)
        return
    said = counted(done.failures, words.thing)
    answer(done, f"Discarded {said}{_before(done.resolved_before)}.", json=json)
    if not done.failures:
        raise typer.Exit(Status.WRONG_INPUT)


def _end_with_none(done: object, words: Words, *, everything: bool, json: bool) -> None:
    """Say that there was nothing to do; a filter that takes nothing may be a slip of the hand."""
    none = words.none if everything else f"No {words.thing} matches"
    answer(done, f"{none}: nothing was changed.", json=json)
    if not everything:
        raise typer.Exit(Status.WRONG_INPUT)


def _before(count: int) -> str:
    return f"; {count} resolved already" if count else ""
