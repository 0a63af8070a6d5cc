"""What the innocent feel of troubles beside them: schedules of each minute, messages each second.

Each trouble has a vhost, a database and processes of its own, with the settings of everyday. The
tasks themselves write down when they begin, so the ledger may be away. What was due or published
while a trouble says that nothing can begin, counts from the end of that outage.
"""

import json
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import attrs
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from cronhare.domain.topology import MAIN_QUEUE
from tests.integration import amqp
from tests.production.plant import SCHEDULER, Plant
from tests.services.finding import wait_until

SCHEDULES, CONCURRENCY = 5, 8

#: A zone that came into the zone data in 2022: older data cannot plan it.
ZONE = "America/Ciudad_Juarez"

#: Seconds: what begins later than this breaks the promise, as does a median beyond so many times
#: the one that is measured when nothing is wrong.
LATEST, TIMES = 5.0, 3.0

#: Seconds until what has not begun is lost.
LOST = 60.0

#: What a trouble is measured beside: nothing at all, or a thousand others that are due in the same
#: minute and with which nothing is wrong.
CALM = "nothing"
CALM_OF = {"crowd": "crowd", "behind": "crowd"}

#: Nothing that is told beside a trouble needs more of a log than this.
LARGEST_LOG = 5_000_000

#: Writes down whose run it is, when it begins, and what it was given.
NOTE = """\
printf '%s %s %s %s\\n' "$CRON_SCHEDULER_ID" "$CRON_EXECUTION_KEY" "$(date +%s.%N)" \
"$(cat "$CRON_PARAMS_FILE")" >> "$NOTES"
"""
_KEY = re.compile(r"cron-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)")


def jobs(folder: Path, more: str = "") -> str:
    """Write the jobs file: the innocent, and *more*."""
    task = (
        f"[tasks.note]\ntype = 'worker'\nid = 1\nenv = {{ NOTES = '{folder / 'notes'}' }}\n"
        f"command = [\"/bin/sh\", \"-c\", '''\n{NOTE}''']\n"
    )
    schedules = (
        f"[schedules.innocent-{n}]\ntask = 'note'\nschedule = '* * * * *'\ntimezone = '{ZONE}'\n"
        for n in range(SCHEDULES)
    )
    return "\n".join((task, *schedules, more))


@attrs.define(kw_only=True)
class Town:
    """A plant at work, the innocent in it, and what they were promised."""

    plant: Plant
    ids: dict[str, int]
    promised: dict[tuple[int, str], float] = attrs.field(factory=dict)
    away: list[tuple[float, float]] = attrs.field(factory=list)
    _numbers: Iterator[int] = attrs.field(factory=count)
    _lines: threading.local = attrs.field(factory=threading.local)
    _stack: ExitStack = attrs.field(factory=ExitStack)

    def publish(
        self,
        body: bytes,
        properties: pika.BasicProperties | None = None,
        *,
        queue: str = MAIN_QUEUE,
    ) -> None:
        """Publish anything, on one connection per thread: ten new ones a second are a trouble."""
        try:
            self._channel().basic_publish("", queue, body, properties)
        except (AMQPError, OSError):  # it idled for too long
            self._lines.__dict__.clear()
            self._channel().basic_publish("", queue, body, properties)

    def _channel(self) -> BlockingChannel:
        if not hasattr(self._lines, "channel"):
            self._lines.channel = self._stack.enter_context(amqp.channel(self.plant.broker_url))
        channel: BlockingChannel = self._lines.channel
        return channel

    def leave(self) -> None:
        """Close the connections; no other thread publishes any more."""
        with suppress(AMQPError, OSError):  # the broker may have ended some: a giant was refused
            self._stack.close()

    def message(self, schedule: str, task: int, **params: object) -> bytes:
        """Write a message of somebody who knows nothing of us."""
        named = {"type": "worker", "id": task, "scheduler_id": self.ids[schedule]}
        return json.dumps({**named, "params_scheduler": json.dumps(params)}).encode()

    def publish_innocent(self) -> None:
        """Publish an innocent message, and remember when."""
        mark = f"m{next(self._numbers)}"
        body = self.message("innocent-0", 1, mark=mark)
        self.promised[self.ids["innocent-0"], mark] = time.time()
        self.publish(body)

    def watch(self, seconds: float) -> None:
        """Let so many seconds pass; what is due in them is promised."""
        begin = time.time()
        with repeatedly(self.publish_innocent, every=1.0):
            time.sleep(seconds)
        for minute in range(int(begin // 60 + 1) * 60, int(time.time()) + 1, 60):
            for n in range(SCHEDULES):
                due = datetime.fromtimestamp(minute, UTC)
                key = f"cron-{due.year}-{due.month}-{due.day}-{due.hour}-{due.minute}"
                self.promised[self.ids[f"innocent-{n}"], key] = minute

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Say that nothing can begin: what is promised meanwhile counts from its end."""
        begin = time.time()
        yield
        self.away.append((begin, time.time()))

    def beginnings(self) -> dict[tuple[int, str], list[float]]:
        """Read the tasks' own record: when each run has begun, by what it was promised as."""
        found: dict[tuple[int, str], list[float]] = {}
        with suppress(FileNotFoundError):
            for line in (self.plant.arena.folder / "notes").read_text().splitlines():
                id_, key, seconds, params = line.split(" ", 3)
                mark = (json.loads(params) or {}).get("mark", key)
                found.setdefault((int(id_), mark), []).append(float(seconds))
        return found

    def late(self, since: float, begun: float) -> float:
        """Tell how many seconds passed, without the outages at their beginning."""
        for begin, end in self.away:
            since = end if begin <= since <= end else since
        return max(begun - since, 0.0)


@contextmanager
def repeatedly(do: Callable[[], object], *, every: float) -> Iterator[None]:
    """Do something every so many seconds, until left; that the broker is away is no matter."""
    over = threading.Event()

    def turn() -> None:
        following = time.monotonic()
        while not over.is_set():
            with suppress(AMQPError, OSError):
                do()
            following += every
            over.wait(max(following - time.monotonic(), 0.0))

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@attrs.frozen(kw_only=True)
class Felt:
    """What the innocent felt; lateness in seconds, of schedules and of messages."""

    trouble: str
    schedules: list[float]
    messages: list[float]
    lost: int
    doubled: int
    log: int
    killed: int

    def is_kept(self, felt: Mapping[str, "Felt"]) -> bool:
        """Whether the innocent were as well off as promised, beside what is calm of *felt*."""
        calm = felt[CALM_OF.get(self.trouble, CALM)]
        pairs = ((self.schedules, calm.schedules), (self.messages, calm.messages))
        return (
            not (self.lost or self.doubled or self.killed)
            and self.log <= LARGEST_LOG
            and all(max(mine) <= LATEST for mine, _ in pairs)
            and all(
                statistics.median(mine) <= TIMES * statistics.median(theirs)
                for mine, theirs in pairs
            )
        )


Trouble = Callable[[Town], AbstractContextManager[None]]


@contextmanager
def nothing(town: Town) -> Iterator[None]:
    """Nothing is wrong."""
    assert town.ids
    yield


def measure(name: str, plant: Plant, trouble: Trouble, *, seconds: float) -> Felt:
    """Watch the innocent for so long beside a trouble, and wait until all of theirs has begun."""
    for _ in range(2):
        plant.start(*SCHEDULER)
        plant.start_worker(concurrency=CONCURRENCY)
    plant.wait_until_all_work(workers=2)
    ids = dict(plant.query("SELECT name, id FROM Scheduler WHERE name IS NOT NULL"))
    town = Town(plant=plant, ids=ids)
    with trouble(town):
        town.watch(seconds)
    town.leave()
    with suppress(TimeoutError):  # what did not begin is told as lost
        wait_until(
            lambda: town.promised.keys() <= town.beginnings().keys(),
            seconds=LOST,
            every=0.5,
            what="the beginning of all that is promised",
        )
    return _felt(name, town)


def _felt(name: str, town: Town) -> Felt:
    begun = town.beginnings()
    came = {what: begun[what] for what in town.promised if what in begun}
    late = {what: town.late(town.promised[what], min(at)) for what, at in came.items()}
    killed = town.plant.query(
        "SELECT COUNT(*) FROM ExecutionAttempt a JOIN SchedulerExecution e ON e.id = execution_id "
        "WHERE task_id IN (1, 5) AND ending IS NOT NULL AND ending <> 'succeeded'"
    )
    return Felt(
        trouble=name,
        schedules=sorted(each for what, each in late.items() if _KEY.fullmatch(what[1])) or [LOST],
        messages=sorted(each for what, each in late.items() if not _KEY.fullmatch(what[1]))
        or [LOST],
        lost=len(town.promised.keys() - came.keys()),
        doubled=sum(len(each) - 1 for each in came.values()),
        log=sum(path.stat().st_size for path in town.plant.arena.logs.glob("*.log")),
        killed=killed[0][0],
    )


def tell(felt: Mapping[str, Felt]) -> None:
    """Print one table; the first row is what the same run needs when nothing is wrong."""
    calm = felt[CALM]
    print(
        "\nms from due or published to begun, median and worst (times the calm median)\n"
        f"{'':28}{'schedules':>26}{'messages':>26}  lost doubled killed  log MB"
    )
    for each in felt.values():
        kept = "" if each.is_kept(felt) else "  BROKEN"
        print(
            f"{each.trouble:28}{_shown(each.schedules, calm.schedules):>26}"
            f"{_shown(each.messages, calm.messages):>26}{each.lost:>6}{each.doubled:>8}"
            f"{each.killed:>7}{each.log / 1e6:>8.2f}{kept}"
        )


def _shown(late: list[float], calm: list[float]) -> str:
    median = statistics.median(late)
    times = median / max(statistics.median(calm), 0.001)
    return f"{median * 1000:.0f} {max(late) * 1000:.0f} ({times:.1f}x)"
