"""The options that say how a replay of many failures is spread."""

import getpass
import os
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from cronhare.domain.lifecycle.failure_filter import FailureFilter
from cronhare.domain.lifecycle.replay_order import LONGEST_AUTHOR, ReplayOrder, ReplayOrderInvalid
from cronhare.domain.texts.printable import printable

from .errors import Refusal

By = Annotated[str | None, typer.Option("--by", help="Who asks; else the user of this host.")]

_NEVER: Final = "never"
_OPTIONS: Final = {"key": "per", "author": "by"}


def replay_order(
    which: FailureFilter,
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
    if stop_at is not None:
        try:
            given["stop_at"] = None if stop_at == _NEVER else float(stop_at)
        except ValueError:
            faults.append(f"--stop-at: {stop_at!r} is neither a number from 0 to 1 nor never")
    try:
        order = ReplayOrder(which=which, author=this_author(author), **given)
    except ReplayOrderInvalid as error:
        named = ((_OPTIONS.get(field, field), why) for field, why in error.faults)
        faults += [f"--{field.replace('_', '-')}: {why}" for field, why in named]
    if faults:
        raise Refusal("this replay cannot be ordered", faults)
    return order


def this_author(given: str | None) -> str:
    """Name who asks: as they say, or the user whose process this is."""
    if given is not None:
        return given
    with suppress(OSError, KeyError):
        return printable(getpass.getuser())[:LONGEST_AUTHOR]
    return f"user {os.getuid()}"
