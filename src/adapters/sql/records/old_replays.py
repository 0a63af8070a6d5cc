"""Deleting replays that have ended long ago, with the list of what was in them."""

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, delete, func, select

from cronhare.application.logs import say
from cronhare.domain.lifecycle.replay_pace import ReplayState
from cronhare.domain.messages.ids import LARGEST_ID
from cronhare.ports.ledger import LedgerRefused

from ..schema.tables import replay_items, replays
from ..schema.types import UtcDateTime
from ..transactions.database import Database

#: So many failures of a replay are let go in one transaction.
STEP: Final = 1_000

log = logging.getLogger(__name__)

_NEXT: Final = (
    select(func.min(replays.c.id))
    .where(
        replays.c.id > bindparam("after"),
        replays.c.state != ReplayState.ACTIVE.value,
        func.coalesce(replays.c.ended_at, replays.c.created_at)
        < bindparam("limit", type_=UtcDateTime),
    )
    .scalar_subquery()
)
_OF_REPLAY: Final = replay_items.c.replay_id == bindparam("replay_id")
_SOME: Final = (
    select(replay_items.c.archived_id)
    .where(_OF_REPLAY)
    .limit(STEP)
    .with_for_update(skip_locked=True)
)
_FORGET: Final = delete(replay_items).where(
    _OF_REPLAY, replay_items.c.archived_id.in_(bindparam("ids", expanding=True))
)
_LEFT: Final = select(replay_items.c.archived_id).where(_OF_REPLAY).limit(1)
_THIS: Final = replays.c.id == bindparam("replay_id")
_UNLOCKED: Final = select(replays.c.id).where(_THIS).with_for_update(skip_locked=True)


def forget_replays(database: Database, before: datetime) -> Iterator[None]:
    """Delete, step by step, what has ended before then. What is locked goes another day."""
    after = -LARGEST_ID
    while True:
        with database.read("looking for old replays") as connection:
            found = connection.scalar(select(_NEXT), {"after": after, "limit": before})
        if found is None:
            return
        after = found
        try:
            while _forget_some(database, found) == STEP:
                yield
        except LedgerRefused as refusal:
            text = f"Replay {found} is kept: {refusal}"
            say(log, logging.WARNING, "cleanup.refused", text)
        yield


def _forget_some(database: Database, replay_id: int) -> int:
    """Delete some of its failures; with the last of them the replay itself."""
    this = {"replay_id": replay_id}
    with database.write("deleting old replays") as connection:
        ids = list(connection.scalars(_SOME, this))
        if ids:
            connection.execute(_FORGET, {**this, "ids": ids})
        is_empty = len(ids) < STEP and connection.execute(_LEFT, this).first() is None
        if is_empty and connection.execute(_UNLOCKED, this).first() is not None:
            connection.execute(delete(replays).where(_THIS), this)
    return len(ids)
