"""Boundary: what a browser, or who plays one, sends with the forms of the page.

What is refused changes nothing, and what is taken changes what its form is about, and no more. No
answer is a fault of ours, and none has what was sent as anything but text.
"""

import json
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import quote_from_bytes, quote_plus, urlencode

import attrs

from cronhare.domain.nodes import NodeReport
from cronhare.domain.schedules.task import Task, TaskRef
from cronhare.entrypoints.web.reading import LARGEST_BODY, MOST_FIELDS
from tests.frozen_clock import FrozenClock
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled, Place
from tests.fuzz.described import fill
from tests.fuzz.sites import Served, served
from tests.integration.ledgers import sql_ledger
from tests.integration.web import Site

TASK = Task(name="tokens", ref=TaskRef("report", 25), command=("true",))
NODE = "ant-1-0a1b2c3d4e5f6071"

#: Each row of each table, by the table.
Rows = Mapping[str, frozenset[Any]]

#: What each change is written down in.
_BESIDE: Final = frozenset({"AuditEntry", "CronEvent", "sqlite_sequence"})


@attrs.frozen
class House:
    """A site with some of everything in its ledger; its innocent one looks, and resumes.

    *last* is the number of its last schedule.
    """

    served: Served
    last: int

    @property
    def site(self) -> Site:
        return self.served.site

    def innocent(self) -> None:
        """See `Site.innocent`: pages and forms are answered in time, and the ledger is whole."""

        def ask() -> list[int]:
            looked = self.site.get("/ui/schedules/rests").status
            return [looked, int(self.send("/ui/schedules/rests/resume", b"").split()[1])]

        self.served.in_time(ask, [200, 303])

    def send(self, path: str, body: bytes, *more: bytes) -> bytes:
        """Send a form as a browser does."""
        return self.site.send(_request(path, body, *more))

    def rows(self) -> Rows:
        """Read the whole ledger, without what tells of changes."""
        named = self.served.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            str(name): frozenset(self.served.query(f'SELECT * FROM "{name}"'))
            for (name,) in named
            if name not in _BESIDE
        }

    def forget_new(self) -> None:
        """Delete what was created, so that the next one may have its name."""
        with closing(sqlite3.connect(self.served.ledger)) as ledger, ledger:
            ledger.execute("DELETE FROM Scheduler WHERE id > ?", (self.last,))


@contextmanager
def house(place: Place) -> Iterator[House]:
    """Open the site."""
    with served(place.folder, [TASK]) as found:
        ledger = sql_ledger(FrozenClock(datetime.now(UTC)), found.container.engine())
        fill(ledger)
        last = ledger.add("last", status=False)
        ledger.nodes.report(
            NodeReport(
                name=NODE,
                role="worker",
                host="ant",
                version="0.1.0",
                started_at=ledger.now,
                seen_at=ledger.now,
                queues=("cron_scheduler",),
                concurrency=8,
                running=1,
                consuming=True,
            ),
            kept_for=timedelta(days=1),
        )
        yield House(found, last)


@attrs.frozen
class Form:
    """A form: what a browser sends with it, and the tables that it is about."""

    path: str
    fields: Mapping[str, str]
    tables: frozenset[str]


def _form(path: str, *tables: str, **fields: str) -> Form:
    return Form(path, fields, frozenset(tables))


_RUNS: Final = ("SchedulerExecution", "SchedulerPlan", "FailedTask", "ConcurrencySlot")
_SCHEDULE: Final = {
    "task": "report 25", "description": "", "schedule": "0 8 * * *", "every": "", "date_time": "",
    "timezone": "UTC", "timeout": "", "jitter": "", "starts_at": "", "ends_at": "", "queue": "",
    "expires": "", "gap": "after", "fold": "first", "overlap": "allow", "params": "", "retry": "",
    "skip_on": "", "only_on": "", "blackout": "", "max_runs": "", "status": "on",
}  # fmt: skip
_MANY: Final = {
    "schedule": "nobody", "task": "", "reason": "", "code": "", "queue": "", "error_class": "",
    "kind": "", "since": "", "until": "",
}  # fmt: skip
_PACE: Final = {
    "rate": "5", "canary": "", "stop_at": "", "key": "", "at_once": "", "attempts": ""
}  # fmt: skip
#: Every form there is, by the end of its path.
FORMS: Final = {
    "create": _form("/ui/new-schedule", "Scheduler", **_SCHEDULE, name="made"),
    "edit": _form("/ui/schedules/rests/edit", "Scheduler", **_SCHEDULE, seen='"5-0"', base="{}"),
    "run": _form("/ui/schedules/rests/run", *_RUNS, params=""),
    "pause": _form("/ui/schedules/rests/pause", "SchedulerPlan", reason="ours", **{"for": "2h"}),
    "resume": _form("/ui/schedules/rests/resume", "SchedulerPlan"),
    "enable": _form("/ui/schedules/rests/enable", "Scheduler", "SchedulerPlan"),
    "disable": _form("/ui/schedules/rests/disable", "Scheduler", "SchedulerPlan"),
    "cancel": _form("/ui/executions/4/cancel", *_RUNS),
    "replay": _form("/ui/failed/1/replay", *_RUNS),
    "discard": _form("/ui/failed/2/discard", "FailedTask", note="seen"),
    "replay of many": _form(
        "/ui/failed/replay", "Replay", "ReplayItem", "FailedTask", **_MANY, **_PACE
    ),
    "discard of many": _form("/ui/failed/discard", "FailedTask", **_MANY, note=""),
    "stop": _form("/ui/replays/1/stop", "Replay"),
    "resume of a replay": _form("/ui/replays/1/resume", "Replay"),
    "reset": _form("/ui/breakers/reset", "CircuitBreaker", task="report 25"),
    "drain": _form("/ui/nodes/drain", "SchedulerNode", node=NODE),
    "forget": _form("/ui/nodes/forget", "SchedulerNode", node=NODE),
    "undrain": _form("/ui/nodes/undrain", "SchedulerNode", node=NODE),
    "sign in": _form("/ui/sign-in", token="x", next="/"),
    "sign out": _form("/ui/sign-out"),
}


def _request(path: str, body: bytes, *more: bytes, kind: bytes = b"") -> bytes:
    """Write a request; *more* are headers, beside those of a browser."""
    kind = kind or b"application/x-www-form-urlencoded"
    here = () if any(each.startswith((b"Origin", b"Sec-")) for each in more) else (_HERE,)
    given = (b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *here, *more)
    line = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    return line + b"".join(each + b"\r\n" for each in given) + b"\r\n" + body


_HERE: Final = b"Sec-Fetch-Site: same-origin"
_BOUNDARY: Final = b'multipart/form-data; boundary="x"'


def _bad(form: Form) -> dict[str, bytes]:
    """Make requests that each form refuses."""
    path, body = form.path, urlencode(form.fields).encode()
    send = partial(_request, path)
    return {
        "of another site": send(body, b"Origin: http://evil.example"),
        "of no site": send(body, b"Origin: null"),
        "of two sites": send(body, b"Origin: http://localhost", b"Origin: http://evil.example"),
        "of a site beside": send(body, b"Sec-Fetch-Site: same-site"),
        "that does not say whence": send(body, b"Origin-Of: us"),
        "of JSON": send(json.dumps(dict(form.fields)).encode(), kind=b"application/json"),
        "of parts": send(b"--x\r\n\r\n\r\n--x--", kind=_BOUNDARY),
        "of plain text": send(body, kind=b"text/plain"),
        "of another encoding": send(
            body, kind=b"application/x-www-form-urlencoded; charset=utf-16"
        ),
        "of two kinds": send(body, b"Content-Type: text/plain"),
        "that is packed": send(body, b"Content-Encoding: gzip"),
        "with the names of columns": send(
            body + b"&id=1&source=x&command=rm&actor=root&scope=admin"
        ),
        "with names of brackets": send(body + b"&params[a][b]=c&__proto__=1&a.b=c&%00=x&=y"),
        "with half a letter": send(body + b"&reason=%ff%fe"),
        "with half a surrogate": send(body + b"&reason=%ed%a0%80"),
        "of bytes": send(bytes(range(128, 256))),
        "of too many fields": send(b"&".join(b"a=%d" % n for n in range(MOST_FIELDS + 1))),
        "that is too large": send(b"reason=" + b"x" * LARGEST_BODY),
        "of 100,000 ampersands": send(b"&" * 100_000),
        "that ends in the middle": send(body + b"&a=b" * 10)[:-20],
        "for a name that was pointed here": send(body).replace(b"localhost", b"evil.example", 1),
    }


#: Values that no field has from a person.
VALUES: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "a NUL": b"%00",
    "a line end": b"x%0d%0aSet-Cookie:+evil=1",
    "a script": quote_plus("<script>alert(1)</script>\"'><img src=x onerror=alert(1)>").encode(),
    "a quote": quote_plus("' OR 1=1; DROP TABLE Scheduler; --").encode(),
    "a template": quote_plus("{{ 7 * 7 }}{% for x in y %}${x}%(x)s%n").encode(),
    "letters that turn around": quote_plus("\u202eabc\u0300\U0010ffff\ufeff").encode(),
    "10,000 letters": b"x" * 10_000,
    "10,000 digits": b"9" * 10_000,
    "no number": b"nan",
    "no end": b"inf",
    "a huge one": b"1e308",
    "a negative one": b"-1",
    "digits of elsewhere": quote_plus("٣²").encode(),
    "half a surrogate in JSON": quote_plus('{"a": "\\ud800"}').encode(),
    "no number in JSON": quote_plus('{"a": NaN, "b": -Infinity}').encode(),
    "a number of 4,000 digits in JSON": quote_plus('{"a": ' + "9" * 4_000 + "}").encode(),
    "10,000 brackets in JSON": b"[" * 10_000 + b"]" * 10_000,
    "a list": quote_plus('["report", 25, null, {}]').encode(),
    "a path": b"../../etc/passwd",
    "an address": b"//evil.example/x",
    "a time before all zones": b"0001-01-01T00:00:00%2B14:00",
    "the end of all times": b"9999-12-31T23:59:59-14:00",
    "1,000 commas": b"," * 1_000,
    "blanks": b"+%09%e3%80%80",
}


#: Each field gets one of so many values; the others it may get by chance.
EACH: Final = 3


def _with(form: Form, field: str, value: bytes) -> bytes:
    """Write a form with another value for a field, or with one more."""
    fields = {name: quote_plus(said).encode() for name, said in form.fields.items()}
    fields[field] = value
    return b"&".join(name.encode() + b"=" + said for name, said in fields.items())


def _odd(form: Form) -> dict[str, bytes]:
    """Make bodies that a form may take: then it does what it is about, and no more."""
    body = urlencode(form.fields).encode()
    return {
        "without fields": b"",
        "with each field twice": body + b"&" + body,
        **{
            f"with {value} as {field}": _with(form, field, sent)
            for number, field in enumerate(form.fields)
            for value, sent in [*VALUES.items()][number % EACH :: EACH]
        },
    }


def _send(form: Form, sent: bytes, at: House, *, refused: bool = False) -> Answer:
    """Send a request; judge what comes back, and what has changed."""
    before = at.rows()
    answered = at.site.send(sent)
    after = at.rows()
    changed = {name for name in after if before[name] != after[name]}
    head, _, body = answered.partition(b"\r\n\r\n")
    # What is not read to its end may lose its answer: then it was cut off.
    status = int(head.split()[1]) if answered else 400
    if status >= 500 or (status not in {200, 303} and not 400 <= status < 500):
        raise Mishandled(f"status {status}: {answered[:1_000]!r}")
    if refused and status < 400:
        raise Mishandled(f"it was taken: {answered[:1_000]!r}")
    if changed - (form.tables if status == 303 else set()):
        raise Mishandled(f"status {status}, and {changed} are not as they were")
    at.forget_new()
    lines = head.lower().split(b"\r\n")
    if any(each.startswith((b"set-cookie: evil", b"location: //")) for each in lines):
        raise Mishandled(f"it leads elsewhere: {head!r}")
    if (
        b"<script>alert" in body
        or b"<img src=x" in body
        or (b"{{ 7" not in body and b"49$" in body)
    ):
        raise Mishandled("what was sent is not shown as text")
    return Answer.REFUSED if status >= 400 else Answer.HANDLED


def _entries() -> Iterator[Entry[House]]:
    for name, form in FORMS.items():
        for how, sent in _bad(form).items():
            short = (name, how) in SHORT
            tried = partial(_send, form, sent, refused=True)
            yield Entry(f"{name}, {how}", tried, short=short)
        for how, body in _odd(form).items():
            short = (name, how) in SHORT
            sent = _request(form.path, body)
            yield Entry(f"{name}, {how}", partial(_send, form, sent), short=short)


SHORT: Final = {
    ("pause", "of another site"),
    ("run", "that does not say whence"),
    ("discard of many", "with half a letter"),
    ("create", "with no number in JSON as params"),
    ("create", "with a number of 4,000 digits in JSON as retry"),
    ("edit", "with 10,000 digits as base"),
    ("replay of many", "with no number as rate"),
    ("drain", "with a script as node"),
    ("sign in", "with a path as next"),
}


def _by_chance(rng: random.Random) -> Entry[House]:
    """Change several fields of a form, or bytes of its body."""
    name, form = rng.choice([*FORMS.items()])
    fields = [*form.fields] or ["x"]
    body = _with(form, rng.choice(fields), rng.choice([*VALUES.values()]))
    for _ in range(rng.randrange(3)):
        value = quote_from_bytes(rng.randbytes(rng.randrange(20)))
        body += f"&{rng.choice(fields)}={value}".encode()
    sent = _request(form.path, body)
    return Entry(f"by chance {name} {body[:500]!r}", partial(_send, form, sent))


BOUNDARY = Boundary(name="forms", at=house, entries=[*_entries()], by_chance=_by_chance)
