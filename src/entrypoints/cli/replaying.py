"""Replays and backfills: their options, what is said of them, and how they are watched."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from cronhare.domain.lifecycle.orders import (
    LONGEST_AUTHOR,
    ReplayOrder,
    ReplayOrderInvalid,
    ReplayState,
)
from cronhare.domain.texts.words import counted

from ..node_identity import this_actor, this_user
from .errors import Refusal, Status
from .options import with_options
from .output import answer, facts, json_line, print_json, print_line, state
from .progress import make_bar

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import DiscardedView, ReplayView
    from cronhare.domain.lifecycle.archive import FailureFilter

    from ..container import Container


By = Annotated[str | None, typer.Option("--by", help="Who asks; else the user of this host.")]

#: How runs in the background are spread, by the fields of their order.
_RULES: Final[Mapping[str, Any]] = {
    "rate": Annotated[
        float | None, typer.Option("--rate", help="At most so many begin in a second.")
    ],
    "jitter": Annotated[
        float | None,
        typer.Option(
            "--jitter", help="By how much of itself a gap grows at most, by chance: 0.2 is 20 %."
        ),
    ],
    "canary": Annotated[
        int | None, typer.Option("--canary", help="Judge so many before any other begins.")
    ],
    "stop_at": Annotated[
        str | None,
        typer.Option(
            "--stop-at", help="Stop if more than this part goes badly, such as 0.2; or never."
        ),
    ],
    "attempts": Annotated[
        int | None,
        typer.Option("--attempts", help="Try each so often in all; else as its policy says."),
    ],
    "author": By,
}
spread = with_options(_RULES, dict)

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say how many it would be, and change nothing.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Watch it until it ends, or Ctrl-C.")]

_NEVER: Final = "never"
_OPTIONS: Final = {"key": "--per", "author": "--by"}


def replay_order(which: "FailureFilter", rules: Mapping[str, Any]) -> ReplayOrder:
    """Make an order of the options that were given; the others have their defaults."""
    faults: list[str] = []
    if rules["at_once"] is not None and rules["key"] is None:
        faults.append("--at-once: it is for --per, which says what they have in common")
    try:
        given = rules_given(rules)
    except Refusal as refusal:
        faults.append(str(refusal))
        given = rules_given({**rules, "stop_at": None})
    try:
        order = ReplayOrder(which=which, **given)
    except ReplayOrderInvalid as error:
        raise refused_order("this replay cannot be ordered", error, _OPTIONS, *faults) from error
    if faults:
        raise Refusal("this replay cannot be ordered", faults)
    return order


def rules_given(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Read the rules that were given; who asks is always among them."""
    given = {name: value for name, value in rules.items() if value is not None}
    stop_at = given.get("stop_at")
    try:
        if stop_at is not None:
            given["stop_at"] = None if stop_at == _NEVER else float(stop_at)
    except ValueError:
        raise Refusal(f"--stop-at: {stop_at!r} is neither a number from 0 to 1 nor never") from None
    return {**given, "author": this_author(rules.get("author"))}


def refused_order(
    what: str, error: ReplayOrderInvalid, options: Mapping[str, str], *faults: str
) -> Refusal:
    """Say what is wrong with an order, by what it was made of: the options of its fields' names.

    *options* has the others.
    """
    named = (
        (options.get(field, f"--{field.replace('_', '-')}"), why) for field, why in error.faults
    )
    return Refusal(what, [*faults, *(f"{name}: {why}" for name, why in named)])


def this_author(given: str | None) -> str:
    """Name who asks: as they say, or the user whose process this is."""
    return this_user()[:LONGEST_AUTHOR] if given is None else given


_MINUTE: Final = 60


def tell_begun(
    container: "Container",
    begun: "ReplayView",
    lines: Sequence[str],
    *,
    follow: bool,
    json: bool,
) -> None:
    """Say in *lines* what was ordered, then how to watch and stop it; or watch it at once."""
    how = (
        f"How it goes on: cronhare replays show {begun.id} -f; "
        f"to stop it: cronhare replays stop {begun.id}"
    )
    if not follow:
        answer(begun, *lines, how, json=json)
        return
    if not json:
        for line in lines:
            print_line(line)
    watch_replay(container, begun.id, json=json)


def watch_replay(container: "Container", replay_id: int, *, json: bool) -> None:
    """Watch one until it ends, with a bar on a terminal; then show it."""
    replays, clock = container.replays(), container.ledger_time()

    def look() -> "ReplayView":
        return replays.show(replay_id, now=clock.now())

    show_replay(followed(look, pause=time.sleep), json=json)


def show_replay(replay: "ReplayView", *, json: bool) -> None:
    """Show what it is about, how far it has come, and what it waits for."""
    if json:
        print_json(replay)
        return
    one, is_backfill = replay, replay.kind == "backfill"
    under_way = f"{one.released}, {one.failing} of them failing" if one.failing else one.released
    if one.state == ReplayState.ACTIVE:
        under_way = f"{under_way}, with a retry to come" if one.failing else under_way
    elif one.released:  # nobody counts on: they may have ended since
        under_way = f"{under_way}, when it {one.state}"
    is_stopped = one.state == ReplayState.STOPPED and one.waiting
    facts(
        [
            (one.kind or "replay", one.id),
            ("state", state(one.state)),
            ("reason", one.reason),
            ("ordered", one.created_at),
            ("by", one.author),
            ("of", json_line(one.which)),
            ("waiting", one.waiting if one.is_collected else f"{one.waiting}, and counting"),
            ("under way", under_way if one.released else 0),
            ("to its end", _say_left(one.seconds_left)),
            ("succeeded", one.succeeded),
            ("failed" if is_backfill else "failed again", one.failed),
            ("had a run before" if is_backfill else "cannot be replayed", one.refused or None),
            (
                "left out",
                f"{one.left_out} by calendars or blackout windows" if one.left_out else None,
            ),
            ("rate", None if one.rate_per_second is None else f"{one.rate_per_second:g}/s"),
            ("at once", None if one.key is None else f"{one.at_once} with the same {one.key}"),
            ("canary", one.canary or None),
            (
                "stops above",
                None if one.stop_at is None else f"{100 * one.stop_at:g} % going badly",
            ),
            ("attempts", one.attempts),
            ("ended", one.ended_at),
            ("to go on", f"cronhare replays resume {one.id}" if is_stopped else None),
        ]
    )


def _say_left(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < _MINUTE:
        return "about a minute at most"
    return f"about {counted(round(seconds / _MINUTE), 'minute')}, at its pace so far"


#: Seconds between two looks.
LOOK_EVERY: Final = 1.0

_GOES_ON: Final = "active"


def followed(look: "Callable[[], ReplayView]", *, pause: Callable[[float], None]) -> "ReplayView":
    """Look again and again, with a bar on a terminal, until it is done or stopped."""
    bar = make_bar() if sys.stderr.isatty() else None
    with bar or nullcontext():
        task = None if bar is None else bar.add_task("", total=None)
        while True:
            replay = look()
            done, total = ended_of(replay)
            if bar is not None and task is not None:
                said = f"{replay.kind or 'replay'} {replay.id}: {replay.failed} failed"
                shown = total if replay.is_collected else None  # it is still being counted
                bar.update(task, completed=done, total=shown, description=said)
            if replay.state != _GOES_ON:
                return replay
            pause(LOOK_EVERY)


def ended_of(replay: "ReplayView") -> tuple[int, int]:
    """Say how many have come to an end, of how many."""
    done = replay.succeeded + replay.failed + replay.refused + replay.left_out
    return done, done + replay.released + replay.waiting


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


def replay_filtered(
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
    replays, now = container.replays(), container.ledger_time().now()
    if dry_run:
        _say_count(replays.count(order.which), words, json=json)
        return
    ordered = replays.order(order, now=now, actor=this_actor())
    if ordered.replay is None:
        none = {"failures": ordered.failures}
        _end_with_none(none, words, everything=everything, json=json)
        return
    said, pace = counted(ordered.failures, words.thing), f"at most {order.rate:g} a second"
    begun = f"Replay {ordered.replay.id}: {said}, {pace}, in the background."
    tell_begun(container, ordered.replay, [begun], follow=follow, json=json)


def replay_named(
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
    done = administrator.replay(
        ids, now=container.ledger_time().now(), attempts=attempts, actor=this_actor()
    )
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


def show_discarded(done: "DiscardedView", words: Words, *, everything: bool, json: bool) -> None:
    """Say what was discarded; *everything* was asked for without a filter."""
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


def _say_count(count: int, words: Words, *, json: bool) -> None:
    said = f"{counted(count, words.thing)} would be {words.done}; nothing was changed."
    answer({"failures": count}, said, json=json)


def _before(count: int) -> str:
    return f"; {count} resolved already" if count else ""
