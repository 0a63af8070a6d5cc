"""What the commands that replay or discard failures do alike, and what they say of it."""

from typing import TYPE_CHECKING, Final

import attrs
import typer

from cronhare.domain.texts.words import counted

from ..node_identity import this_actor
from .errors import Status
from .output import print_json, print_line
from .replay_output import tell_begun

if TYPE_CHECKING:
    from cronhare.application.administration.views.failures import DiscardedView
    from cronhare.domain.lifecycle.replay import ReplayOrder

    from ..container import Container


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
    order: "ReplayOrder",
    words: Words,
    *,
    everything: bool,
    dry_run: bool,
    follow: bool = False,
    json: bool,
) -> None:
    """Let what a filter takes begin in the background; *everything* was asked for without one.

    Raises:
        NotFound: it names a schedule that does not exist; nothing was changed.
        Exit: a filter takes nothing.
    """
    replays, now = container.replays(), container.ledger_time().now()
    if dry_run:
        _say_count(replays.count(order.which), words, json=json)
        return
    ordered = replays.order(order, now=now, actor=this_actor())
    if ordered.replay is None:
        if json:
            print_json({"failures": ordered.failures})
        _end_with_none(words, everything=everything, json=json)
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
    """Let failures begin at once, and say of each that cannot why.

    Raises:
        NotFound: one of the ids does not exist; nothing was changed.
        Exit: none of them begins.
    """
    administrator = container.administrator()
    if dry_run:
        unresolved = [row for row in administrator.archived(ids) if row.resolution is None]
        _say_count(len(unresolved), words, json=json)
        return
    done = administrator.replay(
        ids, now=container.ledger_time().now(), attempts=attempts, actor=this_actor()
    )
    if json:
        print_json(done)
    else:
        again = done.executions
        numbers = f": {', '.join(map(str, again))}" if again else ""
        said = f"{words.begun} {counted(len(again), 'execution')}{numbers}"
        print_line(f"{said}{_before(done.resolved_before)}.")
        for id_, why in done.refused.items():
            print_line(f"{id_} cannot be {words.done}: {why}.")
    if done.asked and not done.executions:
        raise typer.Exit(Status.WRONG_INPUT)


def show_discarded(done: "DiscardedView", words: Words, *, everything: bool, json: bool) -> None:
    """Say what was discarded; *everything* was asked for without a filter.

    Raises:
        Exit: nothing was, of what was named, or of a filter.
    """
    if json:
        print_json(done)
    if not done.asked:
        _end_with_none(words, everything=everything, json=json)
        return
    if not json:
        said = counted(done.failures, words.thing)
        print_line(f"Discarded {said}{_before(done.resolved_before)}.")
    if not done.failures:
        raise typer.Exit(Status.WRONG_INPUT)


def _end_with_none(words: Words, *, everything: bool, json: bool) -> None:
    """Say that there was nothing to do; a filter that takes nothing may be a slip of the hand.

    Raises:
        Exit: it was a filter.
    """
    if not json:
        none = words.none if everything else f"No {words.thing} matches"
        print_line(f"{none}: nothing was changed.")
    if not everything:
        raise typer.Exit(Status.WRONG_INPUT)


def _say_count(count: int, words: Words, *, json: bool) -> None:
    if json:
        print_json({"failures": count})
    else:
        said = f"{counted(count, words.thing)} would be {words.done}"
        print_line(f"{said}; nothing was changed.")


def _before(count: int) -> str:
    return f"; {count} resolved already" if count else ""
