"""A worker of the original system (docs/compatibility.md): it knows nothing of us."""

import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import attrs
import pika
from pika.adapters.blocking_connection import BlockingChannel

from cronhare.domain.texts.moments import iso_ms
from tests.integration import amqp

MAX_RETRIES = 3
PATIENCE = 60.0


@attrs.define
class OriginalWorker:
    """Takes one message at a time, and fails at each.

    *counts* is what it read from `x-death`, message by message; *nacked* says how often which body
    was nacked; *given_up* are the bodies that it failed for good.
    """

    url: str
    counts: list[int] = attrs.field(factory=list)
    nacked: Counter[bytes] = attrs.field(factory=Counter)
    given_up: list[bytes] = attrs.field(factory=list)

    def work(self, *, many: int | None = None, stop: threading.Event | None = None) -> None:
        """Handle so many messages, or all that come until somebody wants it to *stop*."""
        give_up_at = time.monotonic() + PATIENCE
        with amqp.channel(self.url) as channel:
            channel.basic_qos(prefetch_count=1)
            for method, properties, body in channel.consume("cron_scheduler", inactivity_timeout=1):
                if method and properties and body:
                    self._fail(channel, method.delivery_tag, properties, body)
                if len(self.counts) == many or (stop and stop.is_set()):
                    channel.cancel()
                    return
                assert stop or time.monotonic() < give_up_at, "nothing came"

    def _fail(
        self, channel: BlockingChannel, tag: int, properties: pika.BasicProperties, body: bytes
    ) -> None:
        count = retry_count(properties)
        self.counts.append(count)
        if count < MAX_RETRIES:
            self.nacked[body] += 1
            channel.basic_nack(tag, requeue=False)
            return
        self.given_up.append(body)
        payload = {
            **json.loads(body),
            "failed_at": iso_ms(datetime.now(UTC)),
            "failed_reason": "Connection timeout",
            "retry_count": count,
        }
        kept = pika.BasicProperties(delivery_mode=2, headers=properties.headers)
        channel.basic_publish("cron_dlx", "failed", json.dumps(payload).encode(), kept)
        channel.basic_ack(tag)


def retry_count(properties: pika.BasicProperties) -> int:
    """Read it as S0.5 does: whichever entry stands first."""
    deaths: Any = (properties.headers or {}).get("x-death")
    return int(deaths[0]["count"]) if deaths else 0
