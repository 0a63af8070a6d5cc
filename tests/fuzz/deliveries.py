"""Boundary: what others publish into our queues, written by hand, through a real broker.

Behind each message there is an innocent one in the same queue. Whatever a message is made of, it
runs or is parked with a reason, once; or the broker itself refuses it. No connection is lost.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from cronhare.domain.topology import DELIVERY_EXCHANGE, FAILED_QUEUE, LANES, MAIN_QUEUE
from tests.fuzz.corpus import Answer, Boundary, Entry, Mishandled
from tests.fuzz.hostile import BAD_UTF8, BODIES, PROPERTIES, RUNS, header, nested
from tests.fuzz.works import PATIENCE, Works, works
from tests.integration import amqp
from tests.services.finding import wait_until
from tests.services.frames import BrokerRefused, long, properties, raw_channel

MAIN_KEY: Final = MAIN_QUEUE.encode()


def _told(works: Works, mark: str, why: str) -> Answer:
    """See the end of a message: it ran, or was parked for this reason."""
    if why == RUNS:
        works.wait_for_state(f"params LIKE '%{mark}%'", "succeeded")
        return Answer.HANDLED
    works.wait_for_line("message.parked", naming=why)
    return Answer.REFUSED


def _publish(
    works: Works, raw: bytes, body: bytes, *, exchange: bytes = b"", key: bytes = MAIN_KEY
) -> bool:
    with raw_channel(works.plant.broker_url) as channel:
        try:
            channel.publish(key, raw, body, exchange=exchange)
        except BrokerRefused:
            return False
    return True


def _deliver(
    works: Works,
    raw: bytes,
    body: Callable[[Works, str], bytes],
    why: str,
    *,
    exchange: bytes = b"",
    key: bytes = MAIN_KEY,
) -> Answer:
    """Publish a message with an innocent one behind it, and see both to their end."""
    mark = f"{random.getrandbits(64):016x}"
    if not _publish(works, raw, body(works, mark), exchange=exchange, key=key):
        return Answer.REFUSED
    innocent = works.publish_innocent()
    answer = _told(works, mark, why)
    works.wait_for_state(innocent, "succeeded")
    wait_until(
        lambda: not amqp.depth(works.plant.broker_url, MAIN_QUEUE), seconds=PATIENCE, what=""
    )
    if lost := [line for line in works.lines() if line.get("action") == "broker.lost"]:
        raise Mishandled(f"a connection was lost: {lost[0]}")
    return answer


def _good(works: Works, mark: str) -> bytes:
    return works.body(mark=mark)


def _these(body: bytes, _: Works, __: str) -> bytes:
    return body


def _failed(works: Works) -> Answer:
    """Have something that is no failed message in the failed queue."""
    key = FAILED_QUEUE.encode()
    return _deliver(works, header(nested(600, b"A")), _good, "nested over 32 deep", key=key)


def _by_wildcard(works: Works) -> Answer:
    """Come through a wildcard, by a routing key that is no UTF-8."""
    key = (BAD_UTF8 + b".") * LANES + MAIN_KEY
    return _deliver(works, properties(), _good, RUNS, exchange=DELIVERY_EXCHANGE.encode(), key=key)


def _ten_of_a_kind(works: Works) -> Answer:
    """Have ten that cannot be decoded at the head of the queue at once."""
    for _ in range(10):
        assert _publish(works, header(nested(100, b"A")), works.body())
    return _deliver(works, header(nested(100, b"A")), _good, "nested over 32 deep")


#: Those that once stopped a queue, or could not be parked: the short form has them.
_WORST: Final = {
    "timestamp in microseconds", "message_id that is no UTF-8", "header name that is no UTF-8",
    "arrays 600 deep", "17,000 headers", "20 MiB",
}  # fmt: skip


def _entries() -> Iterator[Entry[Works]]:
    for name, (raw, why) in PROPERTIES.items():
        attempt = partial(_deliver, raw=raw, body=_good, why=why)
        yield Entry(f"properties: {name}", attempt, short=name in _WORST)
    for name, (raw, _) in PROPERTIES.items():
        if name not in {"expiration that is no number", "no properties"} and "BCC" not in name:
            attempt = partial(_deliver, raw=raw, body=partial(_these, b"{"), why="")
            yield Entry(f"unreadable, properties: {name}", attempt)
    for name, (body, why) in BODIES.items():
        attempt = partial(_deliver, raw=properties(), body=partial(_these, body), why=why)
        yield Entry(f"body: {name}", attempt, short=name in _WORST)
    yield Entry("in the failed queue", _failed)
    yield Entry("a routing key that is no UTF-8", _by_wildcard, short=True)
    yield Entry("ten at once", _ten_of_a_kind)


def _by_chance(rng: random.Random) -> Entry[Works]:
    """Make properties of noise, or of a good table with noise in it."""
    noise = rng.randbytes(rng.randint(0, 60))
    kind = rng.choice(b"tbBsuIilLfdDSAFTVx\0")
    raw = rng.choice([noise, properties(headers=long(noise)), header(bytes([kind]) + noise)])
    return Entry(f"properties of noise: {raw.hex()}", partial(_whatever, raw=raw))


def _whatever(works: Works, raw: bytes) -> Answer:
    """Publish what may mean anything: only the innocent behind it is asked for."""
    if not _publish(works, raw, b"{"):
        return Answer.REFUSED
    return _told(works, "", "")


BOUNDARY = Boundary(name="deliveries", at=works, entries=[*_entries()], by_chance=_by_chance)
