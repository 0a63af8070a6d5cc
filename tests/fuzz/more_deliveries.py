"""Boundary: messages that are nearly right, with properties that nobody expects."""

import gzip
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any

import pika

from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled
from tests.fuzz.works import PATIENCE, Works, works
from tests.services.finding import wait_until

Make = Callable[[dict[str, Any]], bytes]

PARKED = "message.parked"


def _json(**changes: object) -> Make:
    return lambda message: json.dumps(message | changes).encode()


def _params(text: str) -> Make:
    return lambda message: json.dumps(message | {"params_scheduler": text}).encode()


def _as_it_is(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


#: What is no task message, or one that must not run: it is parked, and why is said.
REFUSED: dict[str, Make] = {
    "UTF-16": lambda message: json.dumps(message).encode("utf-16"),
    "a byte order mark": lambda message: b"\xef\xbb\xbf" + json.dumps(message).encode(),
    "gzip": lambda message: gzip.compress(json.dumps(message).encode()),
    "two documents": lambda message: json.dumps(message).encode() * 2,
    "a comma at the end": lambda message: json.dumps(message).encode() + b",",
    "a list of messages": lambda message: json.dumps([message]).encode(),
    "a text": lambda _: b'"cron"',
    "a number of 5,000 digits": lambda _: b"1" * 5_000,
    "single quotes": lambda message: str(message).encode(),
    "an id that is text": _json(id="1"),
    "an id that is true": _json(id=True),
    "an id of 2^63": _json(id=2**63),
    "an id of 10^30": _json(id=10**30),
    "an id below nothing": _json(id=-1),
    "an id of nothing": _json(id=None),
    "an id with a half": _json(id=1.5),
    "a task nobody has": _json(id=987_654_321),
    "a type of 33 letters": _json(type="t" * 33),
    "a type of nothing": _json(type=None),
    "a type in a list": _json(type=["worker"]),
    "the system's cleanup": _json(type="system", id=1),
    "a schedule of 2^63": _json(scheduler_id=2**63),
    "params that are an object": _json(params_scheduler={"a": 1}),
    "params that are nothing": _json(params_scheduler=None),
    "params that are no JSON": _params("{"),
    "params with NaN": _params('{"a": NaN}'),
    "params of one byte too many": _params('{"a": "' + "x" * (100 * 1024 - 8) + '"}'),
    "params 5,000 deep": _params("[" * 5_000 + "]" * 5_000),
    "params with a number of 5,000 digits": _params(f'{{"a": {"9" * 5_000}}}'),
    "params with half a surrogate": _params('{"a": "\\ud800"}'),
}

#: What may run or be parked, but holds up nobody.
ANY: dict[str, Make] = {
    "an id that is whole, with a point": _json(id=1.0),
    "no schedule": _json(scheduler_id=0),
    "a schedule nobody has": _json(scheduler_id=987_654_321),
    "a type of no letters": _json(type=""),
    "a type with a NUL": _json(type="wor\0ker"),
    "a type with an escape": _json(type="\x1b[2J"),
    "a type of emoji": _json(type="\U0001f407" * 32),
    "params that are a text": _params('"text"'),
    "params that are a list": _params("[1, 2]"),
    "params that are null": _params("null"),
    "params of no letters": _params(""),
    "params with NUL": _params('{"a": "\\u0000"}'),
    "params with infinity by its exponent": _params('{"a": 1e400}'),
    "params with the same key twice": _params('{"a": 1, "a": 2}'),
    "params with a key of 50,000 letters": _params('{"' + "k" * 50_000 + '": 1}'),
    "params of 30,000 nulls": _params("[" + ",".join(["null"] * 15_000) + "]"),
    "200 KiB of blanks": lambda message: json.dumps(message).encode() + b" " * 200_000,
    "unknown fields": _json(command=["rm"], cwd="/", env={"PATH": ""}),
    "the same field twice": lambda m: b'{"type": "x", ' + json.dumps(m).encode()[1:],
}

_TICKET = {"cron-execution-id": 10**9, "cron-attempt": 1}

#: Properties of a message that is right: it may run or be parked.
PROPERTIES: dict[str, dict[str, Any]] = {
    "a ticket of an execution nobody has": {"headers": _TICKET},
    "a ticket of execution 0": {"headers": _TICKET | {"cron-execution-id": 0}},
    "a ticket of execution -2^63": {"headers": _TICKET | {"cron-execution-id": -(2**63)}},
    "a ticket of execution 1.5": {"headers": _TICKET | {"cron-execution-id": Decimal("1.5")}},
    "a ticket of execution true": {"headers": _TICKET | {"cron-execution-id": True}},
    "a ticket of an execution in a list": {"headers": _TICKET | {"cron-execution-id": [1]}},
    "a ticket of attempt 2^62": {"headers": _TICKET | {"cron-attempt": 2**62}},
    "a ticket of attempt -1": {"headers": _TICKET | {"cron-attempt": -1}},
    "deaths of 2^62": {"headers": {"cron-deaths": 2**62}},
    "deaths below nothing": {"headers": {"cron-deaths": -5}},
    "deaths that are a table": {"headers": {"cron-deaths": {"a": 1}}},
    "x-death that is a text": {"headers": {"x-death": "dead"}},
    "x-death of numbers": {"headers": {"x-death": [1, 2, 3]}},
    "x-death with a negative count": {
        "headers": {"x-death": [{"queue": "cron_scheduler", "reason": "rejected", "count": -1}]}
    },
    "x-death with a count of text": {
        "headers": {"x-death": [{"queue": "cron_scheduler", "reason": "rejected", "count": "x"}]}
    },
    "x-death without a queue": {"headers": {"x-death": [{"reason": "rejected", "count": 2}]}},
    "x-death 200 times": {
        "headers": {"x-death": [{"queue": f"q{n}", "reason": "rejected"} for n in range(200)]}
    },
    "500 headers": {"headers": {f"h{n}": n for n in range(500)}},
    "a header of 100 kB": {"headers": {"big": "x" * 100_000}},
    "a header with a date of the year 1": {"headers": {"at": datetime(1970, 1, 1, tzinfo=UTC)}},
    "a header without a name": {"headers": {"": 1}},
    "a header with an escape": {"headers": {"\x1b]0;title\a": "\x1b[2J"}},
    "headers of the broker's own": {"headers": {"x-delivery-count": -1, "x-first-death-queue": 5}},
    "an id of 255 letters": {"message_id": "\U0001f407" * 63},
    "an id with a NUL": {"message_id": "a\0b"},
    "an id with quotes": {"message_id": "'; DROP TABLE Scheduler; --"},
    "a content of another kind": {"content_type": "image/png", "content_encoding": "gzip"},
    "a priority of 255": {"priority": 255, "delivery_mode": 1},
    "a time before all times": {"timestamp": 0},
    "an answer to somewhere": {"reply_to": "cron_scheduler", "correlation_id": "\x1b[2J"},
    "an application with line ends": {"app_id": "a\r\nb", "type": "x\ny"},
    "a copy to the failed queue": {"headers": {"CC": ["cron_scheduler_failed"]}},
    "a secret copy to itself": {"headers": {"BCC": ["cron_scheduler"]}},
}


def _mark(name: str) -> str:
    """Give what finds the run of an entry, in SQL as it is."""
    return f"more-{sha256(name.encode()).hexdigest()[:16]}"


def _message(works: Works, mark: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(works.body(mark=mark))
    return message


def _send(works: Works, make: Make, properties: pika.BasicProperties | None, mark: str) -> Answer:
    """Publish it, and wait until it is parked or has come to the end of a run."""
    before = _finished(works)
    works.publish(make(_message(works, mark)), properties)
    found: list[Answer] = []

    def is_over() -> bool:
        if any(line.get("action") == PARKED for line in works.lines()):
            found.append(Answer.REFUSED)
        elif _finished(works) > before or works.states(f"params LIKE '%{mark}%'"):
            found.append(Answer.HANDLED)
        return bool(found) or _is_fenced(works)

    try:
        wait_until(is_over, seconds=PATIENCE / 3, every=0.1, what="its end")
    except TimeoutError:
        raise Mishandled(f"nobody says what became of it: {works.lines()[-5:]}") from None
    return found[0] if found else Answer.REFUSED


def _finished(works: Works) -> int:
    [(many,)] = works.plant.query(
        "SELECT COUNT(*) FROM SchedulerExecution WHERE finished_at IS NOT NULL"
    )
    return int(many)


def _is_fenced(works: Works) -> bool:
    return any("fence" in str(line.get("action")) for line in works.lines())


def _refused(works: Works, make: Make, name: str) -> Answer:
    """It is parked, or a run of it ends badly: it never succeeds."""
    mark = _mark(name)
    answer = _send(works, make, None, mark)
    if answer is Answer.HANDLED and "succeeded" in works.states(f"params LIKE '%{mark}%'"):
        raise Mishandled("it ran")
    return Answer.REFUSED


def _entry(name: str, make: Make, properties: dict[str, Any]) -> Entry[Works]:
    return Entry(
        name,
        lambda works: _send(works, make, pika.BasicProperties(**properties), _mark(name)),
    )


def _by_chance(rng: random.Random) -> Entry[Works]:
    """A message that is right, but for some of its bytes."""
    seed = rng.random()

    def spoil(message: dict[str, Any]) -> bytes:
        dice = random.Random(seed)
        body = bytearray(json.dumps(message).encode())
        for _ in range(dice.randint(1, 8)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        return bytes(body)

    return Entry(f"spoilt bytes {seed}", lambda works: _send(works, spoil, None, f"chance-{seed}"))


BOUNDARY = Boundary(
    name="more deliveries",
    at=works,
    entries=[
        *(
            Entry(name, partial(_refused, make=make, name=name), short=n < 2)
            for n, (name, make) in enumerate(REFUSED.items())
        ),
        *(_entry(name, make, {}) for name, make in ANY.items()),
        *(_entry(name, _as_it_is, properties) for name, properties in PROPERTIES.items()),
    ],
    by_chance=_by_chance,
)
