"""A server that never ends what it says is away, and takes neither memory nor time."""

import itertools
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, TypeAlias

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from sqlalchemy import URL, Engine

from cronhare.adapters.sql import check_schema, open_engine, upgrade
from cronhare.adapters.sql.dialects.mysql import bounded_session as mysql_session
from cronhare.adapters.sql.dialects.mysql.bounded_session import BoundedSession
from cronhare.ports.ledger import LedgerUnavailable
from tests.services.mysql_wire import END, OK, greeting, heading, numbered, packet

pytestmark = pytest.mark.integration

#: What a server says to a statement: payloads of packets, maybe without end.
Answer: TypeAlias = Callable[[], Iterator[bytes]]

MEBIBYTE = 2**20
AT_ONCE = 2**14


def wide_rows() -> Iterator[bytes]:
    text = MEBIBYTE - 10
    row = b"\xfd" + text.to_bytes(3, "little") + b"x" * text
    return itertools.chain(heading(), itertools.repeat(row))


def narrow_rows() -> Iterator[bytes]:
    return itertools.chain(heading(), itertools.repeat(b"\1x"))


def one_row() -> Iterator[bytes]:
    """Say what goes on in the next packet, and the next."""
    return itertools.repeat(bytes(2**24 - 1))


def columns() -> Iterator[bytes]:
    _, column, _ = heading()
    return itertools.chain([b"\xfe" + (2**62).to_bytes(8, "little")], itertools.repeat(column))


def few_rows() -> Iterator[bytes]:
    return itertools.chain(heading(2), [b"\1a\1b"] * 5, [END])


def joined(packets: Iterator[bytes]) -> Iterator[bytes]:
    """Join small ones: each by itself would take long to send."""
    while piece := b"".join(itertools.islice(packets, 1)):
        while len(piece) < AT_ONCE and (more := next(packets, b"")):
            piece += more
        yield piece


class Flood:
    """Logs in whoever comes, and says well to all but to statements with a word in them."""

    def __init__(self, word: bytes, answer: Answer) -> None:
        """Begin to listen."""
        self._word, self._answer = word, answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._serve, daemon=True).start()

    def end(self) -> None:
        """Listen no longer."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._answer_to, args=(client,), daemon=True).start()

    def _answer_to(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            client.sendall(greeting(b"mysql_native_password"))
            client.recv(65_536)
            client.sendall(packet(2, OK))
            while asked := client.recv(65_536):
                payloads = self._answer() if self._word in asked else iter([OK])
                for each in joined(numbered(payloads)):
                    client.sendall(each)


Flooding: TypeAlias = Callable[..., Flood]


@pytest.fixture
def flooding() -> Iterator[Flooding]:
    floods: list[Flood] = []

    def begin(word: str, answer: Answer = wide_rows) -> Flood:
        floods.append(Flood(word.encode(), answer))
        return floods[-1]

    yield begin
    for flood in floods:
        flood.end()


def opening(flood: Flood, **options: Any) -> BoundedSession:  # noqa: ANN401
    return BoundedSession(
        place="there", host="127.0.0.1", port=flood.port, user="ant", password=b"",
        database="cron", charset="utf8mb4", opening_seconds=60, **options,
    )  # fmt: skip


@pytest.mark.parametrize("answer", [wide_rows, narrow_rows, columns])
def test_a_server_that_does_not_end_while_it_is_asked_what_it_is_is_away(
    flooding: Flooding, answer: Answer
) -> None:
    flood = flooding("SHOW SESSION", answer)

    with pytest.raises(LedgerUnavailable, match="more than the 1,048,576 bytes"):
        check_schema(open_engine(f"mysql://ant@127.0.0.1:{flood.port}/cron"))


@pytest.mark.parametrize("word", ["SHOW GLOBAL", "LOCK"])
def test_so_is_one_of_several_and_the_others_are_used(
    flooding: Flooding, migrated_mysql: URL, word: str
) -> None:
    flood = flooding(word)
    hosts = f"127.0.0.1:{flood.port},{migrated_mysql.host}:{migrated_mysql.port}"
    url = migrated_mysql.render_as_string(hide_password=False)
    both = url.replace(f"{migrated_mysql.host}:{migrated_mysql.port}", hosts)

    for _ in range(4):
        check_schema(open_engine(both))


@pytest.mark.parametrize("answer", [few_rows, lambda: itertools.chain(heading(), [b"\1a", END])])
def test_an_answer_of_another_form_is_an_outage(flooding: Flooding, answer: Answer) -> None:
    flood = flooding("SET time_zone", answer)

    with pytest.raises(LedgerUnavailable):
        check_schema(open_engine(f"mysql://ant@127.0.0.1:{flood.port}/cron"))


@pytest.mark.parametrize("ask", [check_schema, upgrade])
def test_who_says_well_to_everything_and_nothing_more_is_no_database(
    flooding: Flooding, ask: Callable[[Engine], object]
) -> None:
    flood = flooding("nothing of ours")

    with pytest.raises(LedgerUnavailable, match="what answers there is not understood"):
        ask(open_engine(f"mysql://ant@127.0.0.1:{flood.port}/cron"))


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 4_096])
def test_who_speaks_another_protocol_is_told_as_not_understood(said: bytes) -> None:
    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=serve, daemon=True).start()
        port = listener.getsockname()[1]

        with pytest.raises(LedgerUnavailable) as refused:
            check_schema(open_engine(f"mysql://ant@127.0.0.1:{port}/cron"))

        listener.shutdown(socket.SHUT_RDWR)
    assert f"what answers at 127.0.0.1:{port} is not understood" in str(refused.value)


@pytest.mark.parametrize(
    ("word", "answer", "ask"),
    [
        ("UTC_", wide_rows, lambda session: session.cursor().execute("SELECT UTC_TIMESTAMP(6)")),
        ("\3COMMIT", one_row, lambda session: session.commit()),  # not the `SET AUTOCOMMIT`
    ],
    ids=["a question", "a commit"],
)
def test_later_a_question_without_a_table_has_a_short_answer(
    flooding: Flooding, word: str, answer: Answer, ask: Callable[[BoundedSession], object]
) -> None:
    session = opening(flooding(word, answer))
    session.opened(answer_seconds=60)

    with pytest.raises(pymysql.OperationalError, match="more than the 1,048,576 bytes"):
        ask(session)


@pytest.mark.parametrize("answer", [wide_rows, narrow_rows, columns])
def test_later_an_answer_about_a_table_has_a_bound_as_well(
    flooding: Flooding, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(mysql_session, "LONG", 4 * MEBIBYTE)
    session = opening(flooding("FROM", answer))
    session.opened(answer_seconds=60)

    tracemalloc.start()
    try:
        with session.cursor() as cursor, pytest.raises(pymysql.OperationalError, match="4,194,304"):
            cursor.execute("SELECT name FROM Scheduler")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 6 * mysql_session.LONG


def test_each_answer_has_a_bound_of_its_own(flooding: Flooding) -> None:
    session = opening(
        flooding("SELECT", lambda: itertools.chain(heading(), [b"\1x"] * 9_000, [END]))
    )
    session.opened(answer_seconds=60)

    for _ in range(5):
        with session.cursor() as cursor:
            assert cursor.execute("SELECT 1") == 9_000


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets a thousand seconds pass."""
    monotonic, leaps = time.monotonic, [0]
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + sum(leaps))
    return lambda: leaps.append(1_000)


def test_what_it_takes_to_read_an_answer_is_of_its_time(
    flooding: Flooding, later: Callable[[], None]
) -> None:
    def slow(text: str) -> str:
        later()
        return text

    session = opening(flooding("SHOW", few_rows), conv={**conversions, FIELD_TYPE.VAR_STRING: slow})

    with pytest.raises(pymysql.OperationalError, match="timed out"):
        session.ask("SHOW SESSION VARIABLES")


def test_what_others_take_meanwhile_is_not(flooding: Flooding, later: Callable[[], None]) -> None:
    session = opening(flooding("SHOW", few_rows))

    later()

    assert session.ask("SHOW SESSION VARIABLES") == {"a": "b"}
