"""The options that say how runs in the background are spread: of failures, of past instants."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cronhare.domain.lifecycle.replay import LONGEST_AUTHOR, ReplayOrder, ReplayOrderInvalid

from ..node_identity import this_user
from .errors import Refusal

if TYPE_CHECKING:
    from cronhare.domain.lifecycle.archive import FailureFilter

Rate = Annotated[float | None, typer.Option("--rate", help="At most so many begin in a second.")]
GapJitter = Annotated[
    float | None,
    typer.Option(
        "--jitter", help="By how much of itself a gap grows at most, by chance: 0.2 is 20 %."
    ),
]
Canary = Annotated[
    int | None, typer.Option("--canary", help="Judge so many before any other begins.")
]
StopAt = Annotated[
    str | None,
    typer.Option(
        "--stop-at", help="Stop if more than this part goes badly, such as 0.2; or never."
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option("--attempts", help="Try each so often in all; else as its policy says."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say how many it would be, and change nothing.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Watch it until it ends, or Ctrl-C.")]
By = Annotated[str | None, typer.Option("--by", help="Who asks; else the user of this host.")]

_NEVER: Final = "never"
_OPTIONS: Final = {"key": "--per", "author": "--by"}


def replay_order(
    which: "FailureFilter",
    *,
    stop_at: str | None,
    author: str | None,
    **rules: Any,  # noqa: ANN401
) -> ReplayOrder:
    """Make an order of the options that were given; the others have their defaults.

    Raises:
        Refusal: with every fault at once.
    """
    faults: list[str] = []
    given = {name: value for name, value in rules.items() if value is not None}
    if rules.get("at_once") is not None and rules.get("key") is None:
        faults.append("--at-once: it is for --per, which says what they have in common")
    try:
        given |= read_stop_at(stop_at)
    except Refusal as refusal:
        faults.append(str(refusal))
    try:
        order = ReplayOrder(which=which, author=this_author(author), **given)
    except ReplayOrderInvalid as error:
        raise refused_order("this replay cannot be ordered", error, _OPTIONS, *faults) from error
    if faults:
        raise Refusal("this replay cannot be ordered", faults)
    return order


def read_stop_at(text: str | None) -> dict[str, float | None]:
    """Read `--stop-at`, as far as it is given.

    Raises:
        Refusal: it is neither a number nor never.
    """
    if text is None:
        return {}
    try:
        return {"stop_at": None if text == _NEVER else float(text)}
    except ValueError:
        raise Refusal(f"--stop-at: {text!r} is neither a number from 0 to 1 nor never") from None


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
