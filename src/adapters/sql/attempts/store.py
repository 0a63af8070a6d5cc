"""Attempts in SQL: the store is made of a part for each step of an attempt's life."""

from sqlalchemy import Engine

from cronhare.ports.system import ClockPort

from ..transactions.database import Database
from .adoption import Adoption
from .ends import AttemptEnds
from .running import RunningAttempts
from .starts import AttemptStarts
from .unheard import UnheardEvents


class SqlAttemptStore(AttemptStarts, RunningAttempts, AttemptEnds, Adoption, UnheardEvents):
    """Satisfies `AttemptStorePort`. What is repeatable is one transaction.

    Of what the database refuses, each part that is tried again is one (ADR 15).
    """

    def __init__(self, engine: Engine, clock: ClockPort) -> None:
        super().__init__(Database(engine, clock))
