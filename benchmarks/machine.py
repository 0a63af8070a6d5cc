"""How fast this machine is beside the one on which the goals were set (design.md, section 10).

Nothing of cronhare is measured here: what others let one do at most, one thing after the other.
"""

import os
from collections.abc import Callable
from contextlib import closing

import pika
from figures import Figure, median_of, seconds_of
from production import Production
from samples import size

from tests.services import mariadb

RUNS = size(3, 1)
TIMES = size(500, 10)


def machine(servers: Production) -> list[Figure]:
    """Start processes, commit rows and await confirms, one by one."""
    measured = [
        ("posix_spawn of /bin/true", 1_456, _rate(_spawn)),
        ("insert and commit", 4_000, _insert(servers)),
        ("publish, confirm", 1_430, _publish(servers)),
    ]
    return [
        Figure(
            what=f"{what}, one by one",
            ours=here,
            unit="/s",
            goal=there,
            note="the goal: what the machine did on which the others were set",
        )
        for what, there, here in measured
    ]


def _rate(act: Callable[[], object]) -> float:
    def many() -> None:
        for _ in range(TIMES):
            act()

    return TIMES / median_of(RUNS, lambda: seconds_of(many))


def _spawn() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)


def _insert(servers: Production) -> float:
    mariadb.run(
        servers.database.url,
        "CREATE DATABASE bench_machine",
        "CREATE TABLE bench_machine.claims "
        "(id INT AUTO_INCREMENT PRIMARY KEY, claim VARCHAR(64) NOT NULL UNIQUE)",
    )
    numbers = iter(range(RUNS * TIMES))
    with closing(mariadb.connect(servers.database.url)) as session, session.cursor() as cursor:

        def claim() -> None:
            cursor.execute(
                "INSERT INTO bench_machine.claims (claim) VALUES (%s)", (f"cron-{next(numbers)}",)
            )

        return _rate(claim)


def _publish(servers: Production) -> float:
    persistent = pika.BasicProperties(delivery_mode=2)
    with (
        servers.broker.vhost() as vhost,
        closing(pika.BlockingConnection(pika.URLParameters(vhost))) as connection,
    ):
        channel = connection.channel()
        channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum"})
        channel.confirm_delivery()
        return _rate(lambda: channel.basic_publish("", "bench", b"{}", persistent, mandatory=True))
