"""Moments in the database: UTC, with microseconds, and never naive.

They are written as text, `2025-12-12 08:00:00.000000`: of one length, so that texts sort and
compare as the moments do where they are kept as such. Most databases have a type for them.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import Boolean, Connection, DateTime, Dialect, Row, Select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from ..dialects import columns_in

LENGTH = len("2025-12-12 08:00:00.000000")


@lru_cache(maxsize=1024)
def to_text(moment: datetime) -> str:
    """Write a moment; a busy minute has few distinct ones, so most are cached.

    >>> to_text(datetime(2025, 12, 12, 8, tzinfo=UTC))
    '2025-12-12 08:00:00.000000'

    Raises:
        ValueError: the moment is naive, so its zone is unknown.
    """
    if moment.tzinfo is not UTC:
        if moment.tzinfo is None:
            raise ValueError(f"a naive moment does not go into the ledger: {moment}")
        moment = moment.astimezone(UTC)
    return moment.isoformat(" ", "microseconds")[:LENGTH]


def from_text(text: Any) -> Any:  # noqa: ANN401 - in SQLite a column takes values of any type
    """Read what `to_text` wrote; what is no moment comes back as it is, for the error.

    >>> from_text("2026-03-01 12:00:00.000000")
    datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.timezone.utc)
    >>> from_text("2026-03-01"), from_text("noon")
    ('2026-03-01', 'noon')
    """
    try:
        moment = datetime.fromisoformat(f"{text}+00:00")
    except ValueError:
        return text
    # After a date alone the sign is taken for the letter between date and time.
    return text if moment.tzinfo is None else moment


def read_moment(value: object) -> datetime | None:
    """Read a moment that a person or another program wrote; without a zone it is UTC.

    None for what is no moment.

    >>> read_moment("2025-12-15T15:00:00.000Z")
    datetime.datetime(2025, 12, 15, 15, 0, tzinfo=datetime.timezone.utc)
    >>> read_moment("2025-12-15 16:00 +01:00")
    datetime.datetime(2025, 12, 15, 15, 0, tzinfo=datetime.timezone.utc)
    >>> read_moment("tomorrow")
    """
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip().replace(" +", "+").replace(" -", "-"))
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# Most values of a busy minute are NULL, or one of few moments. *typed*, lest 1 be read as 1.0.
@lru_cache(maxsize=1024, typed=True)
def _read_own(value: Any) -> Any:  # noqa: ANN401
    return None if value is None else from_text(value)


@lru_cache(maxsize=1024, typed=True)
def _read_written(value: Any) -> Any:  # noqa: ANN401
    return None if value is None else read_moment(value) or value


class UtcDateTime(TypeDecorator[datetime]):
    """A moment that only we write, as a rule; what cannot be read comes back as it is."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's type."""
        return dialect.type_descriptor(columns_in(dialect.name).moment)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401, ARG002
        """Write."""
        # All databases take text; drivers would write it as well, and take longer.
        return to_text(value) if isinstance(value, datetime) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """Leave it to drivers that can: a processor is called for every NULL, too."""
        return None if columns_in(dialect.name).reads_moments else _read_own


class HandWritten(UtcDateTime):
    """A moment in the users' table, in whatever form people wrote it."""

    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """An adopted column may hold text, which no driver reads."""
        return _read_written


class Flag(TypeDecorator[bool]):
    """A flag, read as it is: SQLAlchemy's own type would take any text or number for true."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column's type."""
        return dialect.type_descriptor(columns_in(dialect.name).flag)

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> Any:  # noqa: ANN401, ARG002, FBT001
        """Write the number that people write."""
        return None if value is None else int(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """Leave it to the reader of the row, who reports what is wrong."""
        return None


class IsOneOf(FunctionElement[bool]):
    """Whether an id is one of those of an expanding parameter. PostgreSQL has its own way."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: object = None) -> Any:  # noqa: ANN401, ARG002
        """Stay as it is: without booleans a database would be asked for `= 1`, and use no index."""
        return self


@compiles(IsOneOf)
def _is_one_of(element: IsOneOf, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    id_, ids = element.clauses
    return compiler.process(id_.in_(ids), **options)


def milliseconds(duration: timedelta | None) -> int | None:
    """Write a duration."""
    return None if duration is None else duration // timedelta(milliseconds=1)


def duration(milliseconds: int | None) -> timedelta | None:
    """Read a duration."""
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


#: Makes a row of the values of its columns, in their order.
MakeRow = Callable[[Iterable[Any]], Row[Any]]


@lru_cache(maxsize=256)
def row_maker(names: tuple[str, ...]) -> MakeRow:
    """Make tuples that have their columns as attributes, as the driver's own rows have."""
    return cast(Any, namedtuple)("Row", names)._make  # type: ignore[no-any-return]  # noqa: PYI024


def named_rows(
    connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]
) -> Sequence[Row[Any]]:
    """Execute a SELECT, and give all of its rows."""
    result = connection.execute(statement, parameters)
    return list(map(row_maker(tuple(result.keys())), result))
