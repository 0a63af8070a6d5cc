"""`cronhare replays list | show | stop | resume` and `schedules backfill`; how all are watched."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.cron import find_zone
from cronhare.domain.lifecycle.orders import LONGEST_AUTHOR, ReplayState
from cronhare.domain.texts.words import counted

from ...node_identity import this_actor, this_user
from ..errors import Refusal
from ..options import (
    REPLAYS,
    RULES,
    Asked,
    By,
    Limit,
    ScheduleName,
    chosen_by,
    number,
    told_by_option,
)
from ..output import (
    Columns,
    Json,
    Styled,
    answer,
    facts,
    json_line,
    make_bar,
    print_json,
    print_line,
    print_rows,
    working,
)
from ..times import PAST, read_span
from ..wiring import open_ledger

if TYPE_CHECKING:
    from cronhare.application.administration.changing.replays import BackfillPreview
    from cronhare.application.administration.views.failures import ReplayView

    from ...container import Container


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say how many it would be, and change nothing.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Watch it until it ends, or Ctrl-C.")]


def pacing(rules: Asked) -> dict[str, Any]:
    """Read the rules that were given; who asks is always among them."""
    given = rules.given
    stop_at = given.get("stop_at")
    try:
        if stop_at is not None:
            given["stop_at"] = None if stop_at == "never" else float(stop_at)
    except ValueError:
        raise Refusal(f"--stop-at: {stop_at!r} is neither a number from 0 to 1 nor never") from None
    return {**given, "author": this_author(given.get("author"))}


def this_author(given: str | None) -> str:
    return this_user()[:LONGEST_AUTHOR] if given is None else given


Id = Annotated[int, number("A number from `replays list`.", REPLAYS)]


def list_(*, limit: Limit = 20, json: Json = False) -> None:
    """List replays, newest first."""
    found = open_ledger().replays().list(limit=limit)
    columns: Columns[ReplayView] = {
        "ID": "id",
        "KIND": "kind",
        "STATE": lambda replay: Styled(replay.state),
        "ORDERED": "created_at",
        "WAITING": "waiting",
        "UNDER WAY": "released",
        "SUCCEEDED": "succeeded",
        "FAILED": "failed",
        "REASON": lambda replay: replay.reason or "",
    }
    empty = "No replay of many and no backfill was ordered."
    print_rows(found, columns, json=json, empty=empty, spare=("KIND",), elastic=("REASON",))


def show(replay_id: Id, *, follow: Follow = False, json: Json = False) -> None:
    """Show one: what it is about, how far it has come, and what it waits for.

    With --follow there is a bar on a terminal, and the rest is told when it has ended.
    """
    container = open_ledger()
    if follow:
        watch_replay(container, replay_id, json=json)
        return
    _show(container.replays().show(replay_id), json=json)


def stop(replay_id: Id, *, by: By = None, json: Json = False) -> None:
    """Let no other begin; what has begun goes on."""
    replays = open_ledger().replays()
    _show_moved(replays.stop(replay_id, author=this_author(by), actor=this_actor()), json=json)


def resume(replay_id: Id, *, json: Json = False) -> None:
    """Let a stopped one go on, to its end: its canary and --stop-at hold no more."""
    _show_moved(open_ledger().replays().resume(replay_id, actor=this_actor()), json=json)


def _show_moved(replay: "ReplayView", *, json: bool) -> None:
    if replay.state == ReplayState.DONE and not json:  # there was nothing to stop or resume
        print_line(f"It is {replay.state} already: nothing was changed.")
    _show(replay, json=json)


@chosen_by(*RULES, "at_once")
def backfill(
    rules: Asked,
    name: ScheduleName,
    *,
    since: Annotated[str, typer.Option("--since", help=f"From this time on: {PAST}.")],
    until: Annotated[
        str,
        typer.Option(
            "--until", help="And before this one, which has passed, written the same way."
        ),
    ],
    dry_run: DryRun = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """Run the past due instants of a schedule, in the background, oldest first.

    One that has a run is left out, one that was skipped runs. Without an offset times are in the
    schedule's zone. `cronhare replays` shows and stops it; with --follow it is watched at once.
    """
    container = open_ledger()
    now, replays = container.ledger_time().now(), container.replays()
    zone = find_zone(container.queries().schedule(name).timezone or "UTC")
    first, last = read_span(since, until, zone, now=now)
    assert first is not None
    assert last is not None
    given, span = pacing(rules), {"since": first, "until": last}
    with (
        told_by_option("this backfill cannot be ordered"),
        working(f"Looking for what was due of {name}") as on_progress,
    ):
        order, found = replays.look_at_backfill(name, on_progress=on_progress, **span, **given)
    said = _say_instants(found)
    if dry_run:
        answer(found, f"{said}; nothing was changed.", json=json)
        return
    ordered = replays.backfill(order, actor=this_actor())
    pace = f"at most {order.rate:g} a second, {order.at_once} at a time"
    begun = f"They begin in the background, oldest first, {pace}."
    lines = (f"Backfill {ordered.id}: {said}.", begun)
    tell_begun(container, ordered, lines, follow=follow, json=json)


def _say_instants(found: "BackfillPreview") -> str:
    said = f"{counted(found.instants, 'instant')} of {found.schedule}"
    if found.ran:
        said += f", {found.ran} of which have a run"
    if found.left_out:
        said += f", {found.left_out} left out by {', '.join(found.left_out_by)}"
    return said


def tell_begun(
    container: "Container", begun: "ReplayView", lines: Sequence[str], *, follow: bool, json: bool
) -> None:
    """Say in *lines* what was ordered, then how to watch and stop it; or watch it at once."""
    how = (
        f"How it goes on: cronhare replays show {begun.id} -f; "
        f"to stop it: cronhare replays stop {begun.id}"
    )
    if not follow:
        answer(begun, *lines, how, json=json)
        return
    for line in () if json else lines:
        print_line(line)
    watch_replay(container, begun.id, json=json)


#: Seconds between two looks.
LOOK_EVERY: Final = 1.0


def watch_replay(container: "Container", replay_id: int, *, json: bool) -> None:
    """Watch one until it is done or stopped, with a bar on a terminal; then show it."""
    replays = container.replays()
    with make_bar() as bar:
        task = bar.add_task("", total=None)
        while True:
            replay = replays.show(replay_id)
            done = replay.succeeded + replay.failed + replay.refused + replay.left_out
            said = f"{replay.kind or 'replay'} {replay.id}: {replay.failed} failed"
            total = done + replay.released + replay.waiting
            shown = total if replay.is_collected else None  # it is still being counted
            bar.update(task, completed=done, total=shown, description=said)
            if replay.state != ReplayState.ACTIVE:
                break
            time.sleep(LOOK_EVERY)
    _show(replay, json=json)


def _show(one: "ReplayView", *, json: bool) -> None:
    if json:
        print_json(one)
        return
    is_backfill, under_way = one.kind == "backfill", str(one.released)
    if one.failing:
        under_way += f", {one.failing} of them failing"
    if one.state == ReplayState.ACTIVE:
        under_way += ", with a retry to come" if one.failing else ""
    elif one.released:  # nobody counts on: they may have ended since
        under_way += f", when it {one.state}"
    dated = "by calendars or blackout windows"
    is_stopped = one.state == ReplayState.STOPPED and one.waiting
    stops = one.stop_at is not None and f"{100 * one.stop_at:g} % going badly"
    facts(
        [
            (one.kind or "replay", one.id),
            ("state", Styled(one.state)),
            ("reason", one.reason),
            ("ordered", one.created_at),
            ("by", one.author),
            ("of", json_line(one.which)),
            ("waiting", one.waiting if one.is_collected else f"{one.waiting}, and counting"),
            ("under way", under_way),
            ("to its end", _say_left(one.seconds_left)),
            ("succeeded", one.succeeded),
            ("failed" if is_backfill else "failed again", one.failed),
            ("had a run before" if is_backfill else "cannot be replayed", one.refused or None),
            ("left out", f"{one.left_out} {dated}" if one.left_out else None),
            ("rate", one.rate_per_second and f"{one.rate_per_second:g}/s"),
            ("at once", one.key and f"{one.at_once} with the same {one.key}"),
            ("canary", one.canary or None),
            ("stops above", stops or None),
            ("attempts", one.attempts),
            ("ended", one.ended_at),
            ("to go on", f"cronhare replays resume {one.id}" if is_stopped else None),
        ]
    )


def _say_left(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < 60:  # noqa: PLR2004 - a minute
        return "about a minute at most"
    return f"about {counted(round(seconds / 60), 'minute')}, at its pace so far"
