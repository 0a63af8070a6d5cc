"""Columns as values: moments, flags and durations; and rows of our own tables, read into structs.

Moments are in UTC, with microseconds, and never naive. They are written as text,
`2025-12-12 08:00:00.000000`: of one length, so that texts sort and compare as the moments do where
they are kept as such. Most databases have a type for them.

Only we write our own tables, and their constraints keep them right. A row that does not fit all the
same is a `BrokenRow`: it is told, and the others of its batch go on.
"""

import logging
import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, cast

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from cronhare.application.logs import say
from cronhare.domain.texts.printable import echo, shown

from ..dialects import columns_in

log = logging.getLogger(__name__)

LENGTH = len("2025-12-12 08:00:00.000000")


@lru_cache(maxsize=1024)
def to_text(moment: datetime) -> str:
    """Write a moment; a busy minute has few distinct ones, so most are cached.

    >>> to_text(datetime(2025, 12, 12, 8, tzinfo=UTC))
    '2025-12-12 08:00:00.000000'
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

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(columns_in(dialect.name).moment)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:  # noqa: ANN401, ARG002
        # All databases take text; drivers would write it as well, and take longer.
        return to_text(value) if isinstance(value, datetime) else value

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """Leave it to drivers that can: a processor is called for every NULL, too."""
        return None if columns_in(dialect.name).reads_moments else _read_own


def moment_of(name: str) -> sa.BindParameter[datetime]:
    """Give a parameter that is a moment."""
    return sa.bindparam(name, type_=UtcDateTime)


class HandWritten(UtcDateTime):
    """A moment in the users' table, in whatever form people wrote it."""

    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """An adopted column may hold text, which no driver reads."""
        return _read_written


class Flag(TypeDecorator[bool]):
    """A flag, read as it is: SQLAlchemy's own type would take any text or number for true."""

    impl = sa.Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(columns_in(dialect.name).flag)

    def process_bind_param(self, value: bool | None, dialect: sa.Dialect) -> Any:  # noqa: ANN401, ARG002, FBT001
        return None if value is None else int(value)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ANN401, ARG002
        """Leave it to the reader of the row, who reports what is wrong."""
        return None


class IsOneOf(FunctionElement[bool]):
    """Whether an id is one of those of an expanding parameter. PostgreSQL has its own way."""

    type = sa.Boolean()
    inherit_cache = True

    def self_group(self, against: object = None) -> Any:  # noqa: ANN401, ARG002
        """Stay as it is: without booleans a database would be asked for `= 1`, and use no index."""
        return self


@compiles(IsOneOf)
def _is_one_of(element: IsOneOf, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    id_, ids = element.clauses
    return compiler.process(id_.in_(ids), **options)


class Position(FunctionElement[int]):
    """Where a text has a part, counted from 1; 0 if it has not. LIKE may ignore case."""

    type = sa.Integer()
    inherit_cache = True


@compiles(Position)
def _position(element: Position, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    find = sa.func.strpos if compiler.dialect.name == "postgresql" else sa.func.instr
    return compiler.process(find(*element.clauses), **options)


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // timedelta(milliseconds=1)


def duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


#: Makes a row of the values of its columns, in their order.
MakeRow = Callable[[Iterable[Any]], sa.Row[Any]]


@lru_cache(maxsize=256)
def row_maker(names: tuple[str, ...]) -> MakeRow:
    """Make tuples that have their columns as attributes, as the driver's own rows have."""
    return cast(Any, namedtuple)("Row", names)._make  # type: ignore[no-any-return]  # noqa: PYI024


def named_rows(
    connection: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
) -> Sequence[sa.Row[Any]]:
    """Execute a SELECT, and give all of its rows."""
    result = connection.execute(statement, parameters)
    return list(map(row_maker(tuple(result.keys())), result))


_PLACE: Final = re.compile(r"(.*?) - at `\$\[(\d+)\].*`", re.DOTALL)


class BrokenRow(Exception):
    """A row that does not fit: its table, its key, and which column holds what it may not."""

    def __init__(self, table: "OwnTable", row: Any, why: str) -> None:  # noqa: ANN401 - a row
        """*why* begins with the column."""
        self.row = row
        self.why = f"{table.name}: {why}"
        key = " ".join(shown(str(getattr(row, name, "?"))) for name in table.keys)
        super().__init__(f"{table.name} {key}: {why}")

    def tell(self) -> None:
        say(log, logging.ERROR, "ledger.broken-row", f"A row cannot be read: {self}")


class OwnTable:
    """What the rows of one table may hold, or some of their columns."""

    def __init__(self, table: sa.Table, **special: Any) -> None:  # noqa: ANN401 - types
        """Take the types of the columns, but for *special* ones, which may be of none of them."""
        self.table = table
        self.name = table.name
        self.keys = [column.name for column in table.primary_key]
        self._types = {str(column.name): _type_of(column) for column in table.c} | special
        self._struct = lru_cache(maxsize=64)(self._make_struct)

    def read(self, row: Any) -> Any:  # noqa: ANN401 - a struct with a row's columns
        [read] = self.each([row])
        if isinstance(read, BrokenRow):
            raise read
        return read

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Give a struct for each row that a statement found, or the `BrokenRow` that it is."""
        struct: Any = None
        for row in rows:
            if struct is None:
                struct = self._struct(row._fields)
            try:
                yield msgspec.convert(tuple(row), struct)
            except msgspec.ValidationError as error:
                yield self._broken(row, str(error))

    def readable(self, rows: Iterable[Any]) -> list[Any]:
        """Read the rows that fit, and log the others."""
        read = list(self.each(rows))
        for each in read:
            if isinstance(each, BrokenRow):
                each.tell()
        return [each for each in read if not isinstance(each, BrokenRow)]

    def fitting(self, row: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
        """Give the cells of a row that fit by themselves."""
        for name, value in zip(row._fields, row, strict=True):
            try:
                yield name, msgspec.convert(value, self._types[name])
            except msgspec.ValidationError:
                continue

    def _make_struct(self, names: tuple[str, ...]) -> type[msgspec.Struct]:
        fields = [(str(name), self._types[name]) for name in names]
        return msgspec.defstruct(self.name, fields, array_like=True, frozen=True, gc=False)

    def _broken(self, row: Any, said: str) -> BrokenRow:  # noqa: ANN401
        found = _PLACE.fullmatch(said)
        if found is None:
            return BrokenRow(self, row, said)
        place = int(found[2])
        return BrokenRow(self, row, f"{row._fields[place]}: {echo(row[place])}: {found[1]}")


def whole(least: int, most: int) -> Any:  # noqa: ANN401 - a type
    return Annotated[int, Meta(ge=least, le=most)]


def text(longest: int) -> Any:  # noqa: ANN401
    return Annotated[str, Meta(max_length=longest)]


def _type_of(column: sa.Column[Any]) -> Any:  # noqa: ANN401
    kind: Any = str
    match column.type:
        case UtcDateTime():
            kind = Annotated[datetime, Meta(tz=True)]
        case Flag():
            kind = whole(0, 1)
        case sa.Integer():
            kind = int
        case sa.Double():
            kind = float
        case sa.String(length=length) if length:
            kind = text(length)
    return cast(Any, kind | None) if column.nullable else kind
