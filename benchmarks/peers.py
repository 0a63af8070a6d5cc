"""How fast cronhare is beside Celery, Dramatiq and taskiq, in one run, taken by turns.

    make bench-peers                                  # everything below, some fifteen minutes
    make bench-peers SECTIONS="nothing start"         # sections: see `SECTIONS`

On private servers of RabbitMQ and MariaDB. The peers keep no ledger: a task of theirs that a worker
takes with it is run again or lost, and nothing tells what ran. Every figure is a median of `ROUNDS`
rounds; in each round each takes its turn, so that the ratios hold on a busy machine too.
"""

import argparse
import logging
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import attrs
import pika
import replicas
import resting
import work
import workers
from production import Production, production
from rich.console import Console
from rich.table import Table
from samples import size

from cronhare.domain.schedules.work import Executor
from cronhare.entrypoints import logs
from cronhare.ports.runner import TaskRunnerPort

APPS = Path(__file__).parent / "peer_apps"

ROUNDS = size(3, 1)
NOTHING = size(9_000, 48)
COMMANDS = size(4_200, 48)
FUNCTIONS = size(6_000, 48)
SINGLE = size(200, 20)
DUE, SCHEDULES = size((10_000, 100_000), (6, 60))

ENQUEUED = size(3_000, 60)

#: Seconds that any one measurement may take.
PATIENCE = 120.0

PROCESSES, PLACES = 2, 64
SENDERS = 6


@attrs.frozen
class Peer:
    """A task queue of the field: how its worker is started, and where messages wait."""

    name: str
    app: str
    worker: tuple[str, ...]

    def start(self, python: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(python.with_name(self.worker[0])), *self.worker[1:]],
            cwd=APPS,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def send(
        self, python: Path, environment: Mapping[str, str], what: str, count: int, pause: float = 0
    ) -> None:
        """Send by one process at a pace, or else by many, as each waits for its confirms."""
        senders = 1 if pause else SENDERS
        words = [str(python), f"{self.app}.py", what, str(count // senders), str(pause)]
        sending = [subprocess.Popen(words, cwd=APPS, env=environment) for _ in range(senders)]
        assert not any(process.wait(PATIENCE) for process in sending)


DRAMATIQ = Peer("Dramatiq", "dramatiq_app", ("dramatiq", "dramatiq_app", "-p", "2", "-t", "4"))
CELERY = Peer(
    "Celery",
    "celery_app",
    ("celery", "-A", "celery_app", "worker", "-c", "2", "-l", "warning", "--without-gossip"),
)
PEERS = (
    DRAMATIQ,
    CELERY,
    Peer(
        "taskiq",
        "taskiq_app",
        ("taskiq", "worker", "taskiq_app:broker", "-w", "2", "--ack-type", "when_executed",
         "--max-async-tasks", "64", "--log-level", "WARNING"),
    ),
)  # fmt: skip


@attrs.frozen
class Run:
    """What one run showed: how many a second, and microseconds of the workers' CPU for each."""

    rate: float
    cpu: float


@attrs.frozen
class Bench:
    """The servers, and the interpreter of the peers' environment."""

    servers: Production
    python: Path
    folder: Path

    @contextmanager
    def environment(self, **more: str) -> Iterator[dict[str, str]]:
        """Give what a peer is to know: a broker of its own, and a folder for its marks."""
        with self.servers.broker.vhost() as vhost, tempfile.TemporaryDirectory() as marks:
            yield {**os.environ, "PEER_BROKER": vhost, "PEER_MARKS": marks, **more}

    def peer(self, peer: Peer, what: str, count: int) -> Run:
        """Let a peer's workers empty a full queue; the rate is of all after the first tenth."""
        with self.environment() as environment:
            if peer.app == "taskiq_app":  # it makes its queue when a worker starts
                broker = environment["PEER_BROKER"]
                with _running(peer.start(self.python, environment)):
                    _wait(lambda: _depth(broker, "taskiq") is not None, "taskiq's queue")
            peer.send(self.python, environment, what, count)
            marks = Path(environment["PEER_MARKS"])
            with _running(peer.start(self.python, environment)) as process:
                _wait(lambda: any(marks.iterdir()), f"{peer.name}'s first task")
                before = _cpu(process.pid)
                _wait(lambda: _marked(marks) >= count, f"{peer.name}'s last task")
                cpu = _cpu(process.pid) - before
            moments = sorted(_marks(marks))
        assert len(moments) == count, f"{peer.name}: {len(moments)} of {count}"
        first = count // 10
        seconds = (moments[-1] - moments[first]) / 1e9
        return Run((count - 1 - first) / seconds, cpu / count * 1e6)

    def ours(
        self, count: int, runner: Callable[[workers.Post], TaskRunnerPort], log: Path | None = None
    ) -> Run:
        """Let workers of ours empty a full queue, with the ledger on MariaDB."""
        run = runner if log is None else partial(_logging, log, runner)
        rate, cpu = work.run_once(self.servers, count, PLACES, PROCESSES, run)
        return Run(rate, cpu * 1e6)

    def enqueue(self, *more: str) -> float:
        """Give how many runs a second a process of ours enqueues, on RabbitMQ and MariaDB."""
        ledger = self.servers.ledger(1, busy=0)
        with self.environment(CRON_DATABASE_URL=ledger) as environment:
            environment["CRON_BROKER_URL"] = environment["PEER_BROKER"]
            words = [sys.executable, "benchmarks/enqueueing.py", str(ENQUEUED), *more]
            return float(subprocess.check_output(words, env=environment, timeout=PATIENCE))

    def peer_enqueue(self, peer: Peer) -> float:
        """Give how many messages a second a process of a peer sends, each confirmed."""
        with self.environment(PEER_CONFIRMS="1") as environment:
            words = [str(self.python), f"{peer.app}.py", "rate", str(ENQUEUED), "0"]
            sent = subprocess.check_output(words, cwd=APPS, env=environment, timeout=PATIENCE)
            return float(sent)

    def peer_start(self, peer: Peer) -> float:
        """Give the median of milliseconds from a message's publish to its task's first line."""
        with self.environment() as environment:
            marks = Path(environment["PEER_MARKS"])
            with _running(peer.start(self.python, environment)):
                time.sleep(4)
                peer.send(self.python, environment, "nothing", SINGLE, resting.PAUSE)
                _wait(lambda: _marked(marks) >= SINGLE, f"{peer.name}'s last task")
            return statistics.median(_marks(marks)) / 1e6

    def taskiq_due(self) -> float:
        """Give the seconds from the minute until taskiq's scheduler has sent all of them."""
        minute = int(time.time() // 60) + (1 if time.time() % 60 < 30 else 2)
        of_the_hour = str(datetime.fromtimestamp(minute * 60, UTC).minute)
        known = {"PEER_SCHEDULES": str(SCHEDULES), "PEER_MINUTE": of_the_hour}
        command = ("taskiq", "scheduler", "taskiq_app:scheduler", "--skip-first-run")
        scheduler = Peer("taskiq", "taskiq_app", command)
        with self.environment(**known) as environment:
            broker = environment["PEER_BROKER"]
            with _running(scheduler.start(self.python, environment)):
                _wait(lambda: (_depth(broker, "taskiq") or 0) >= DUE, "taskiq's minute", every=0.01)
                return time.time() - minute * 60


def nothing(bench: Bench) -> list["Line"]:
    """Empty a full queue of tasks that do nothing."""
    log = bench.folder / "log"
    turns: dict[str, Callable[[], Run]] = {
        "cronhare, log off": lambda: bench.ours(NOTHING, workers.in_process),
        "cronhare, INFO log to a file": lambda: bench.ours(NOTHING, workers.in_process, log),
    }
    turns |= {peer.name: partial(bench.peer, peer, "nothing", NOTHING) for peer in PEERS}
    return _rates(f"no work, {NOTHING:,} in the queue", turns)


def command(bench: Bench) -> list["Line"]:
    """The same with `/bin/true`."""
    turns = {"cronhare": lambda: bench.ours(COMMANDS, workers.commands)}
    turns |= {peer.name: partial(bench.peer, peer, "command", COMMANDS) for peer in PEERS}
    return _rates(f"/bin/true, {COMMANDS:,} in the queue", turns)


def functions(bench: Bench) -> list["Line"]:
    """Empty a full queue of functions that do nothing, by executors, beside Celery's processes."""
    turns: dict[str, Callable[[], Run]] = {
        f"cronhare, {executor}": partial(
            bench.ours, FUNCTIONS, partial(workers.functions, executor)
        )
        for executor in (Executor.POOL, Executor.ASYNC, Executor.FORK)
    }
    turns["cronhare, /bin/true"] = lambda: bench.ours(FUNCTIONS, workers.commands)
    turns |= {
        peer.name: partial(bench.peer, peer, "nothing", FUNCTIONS) for peer in (CELERY, DRAMATIQ)
    }
    return _rates(f"functions of no work, {FUNCTIONS:,} in the queue", turns, beside=CELERY)


def start(bench: Bench) -> list["Line"]:
    """Send single messages to an idle worker."""
    turns: dict[str, Callable[[], float]] = {"cronhare": lambda: resting.started(bench.servers)}
    turns |= {peer.name: partial(bench.peer_start, peer) for peer in PEERS}
    found = _by_turns(turns)
    return [
        Line("publish to start, idle worker", name, value, "ms", found[DRAMATIQ.name] / value)
        for name, value in found.items()
    ]


def due(bench: Bench) -> list["Line"]:
    """Send what is due in one minute, a tenth of all; ours is claimed before and marked after."""
    turns: dict[str, Callable[[], float]] = {
        "cronhare": lambda: replicas.alone(bench.servers, DUE, count=SCHEDULES),
        "taskiq": bench.taskiq_due,
    }
    found = _by_turns(turns)
    what = f"{DUE:,} due of {SCHEDULES:,}"
    return [Line(what, name, value, "s", found["taskiq"] / value) for name, value in found.items()]


def enqueue(bench: Bench) -> list["Line"]:
    """Send from one process; ours is in the ledger before, and is not lost with the broker."""
    turns: dict[str, Callable[[], float]] = {
        "cronhare": bench.enqueue,
        "cronhare, enqueue_many": partial(bench.enqueue, "many"),
        CELERY.name: partial(bench.peer_enqueue, CELERY),
    }
    found = _by_turns(turns)
    return [
        Line("enqueued by one process", name, value, "/s", value / found[CELERY.name])
        for name, value in found.items()
    ]


SECTIONS: dict[str, Callable[[Bench], list["Line"]]] = {
    "nothing": nothing,
    "command": command,
    "functions": functions,
    "start": start,
    "due": due,
    "enqueue": enqueue,
}


@attrs.frozen
class Line:
    """One line of the table; *ratio* is how many times better than the peer it is told beside."""

    what: str
    who: str
    value: float
    unit: str
    ratio: float
    cpu: float | None = None


def _rates(
    what: str, turns: Mapping[str, Callable[[], Run]], *, beside: Peer = DRAMATIQ
) -> list[Line]:
    runs: dict[str, list[Run]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            runs[name].append(turn())
    rates = {name: statistics.median(run.rate for run in its) for name, its in runs.items()}
    return [
        Line(
            what, name, rate, "/s", rate / rates[beside.name],
            statistics.median(run.cpu for run in runs[name]),
        )
        for name, rate in rates.items()
    ]  # fmt: skip


def _by_turns(turns: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    rounds = [{name: turn() for name, turn in turns.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(each[name] for each in rounds) for name in turns}


def _logging(
    path: Path, runner: Callable[[workers.Post], TaskRunnerPort], post: workers.Post
) -> TaskRunnerPort:
    """Begin the log of a worker process, as `cronhare worker` does it, into a file."""
    logs.configure(style="text", level="INFO", stream=path.open("a", encoding="utf-8"))
    logs.write_in_batches()
    assert logging.getLogger("cronhare").isEnabledFor(logging.INFO)
    return runner(post)


@contextmanager
def _running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a peer and all that it started."""
    try:
        yield process
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
    finally:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            for pid in _session(process.pid):
                os.kill(pid, kind)
            try:
                process.wait(20)
                break
            except subprocess.TimeoutExpired:
                continue
        for pid in _session(process.pid):
            os.kill(pid, signal.SIGKILL)


def _session(leader: int) -> Sequence[int]:
    """Give the processes of a session that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(path)
        if fields and int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def _cpu(leader: int) -> float:
    """CPU seconds of a session's processes, and of the children that they waited for."""
    fields = (_stat(Path(f"/proc/{pid}/stat")) for pid in _session(leader))
    ticks = sum(sum(map(int, each[11:15])) for each in fields if each)
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(path: Path) -> list[str] | None:
    try:
        return path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _marked(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir()) // 8


def _marks(folder: Path) -> list[int]:
    return [
        mark for path in folder.iterdir() for [mark] in struct.iter_unpack("<q", path.read_bytes())
    ]


def _depth(broker: str, queue: str) -> int | None:
    """Count the messages that wait in a queue; None where there is none."""
    connection = pika.BlockingConnection(pika.URLParameters(broker))
    try:
        declared = connection.channel().queue_declare(queue, passive=True)
        return int(declared.method.message_count)
    except pika.exceptions.ChannelClosedByBroker:
        return None
    finally:
        connection.close()


def _wait(holds: Callable[[], bool], what: str, *, every: float = 0.005) -> None:
    ends = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < ends, f"{what} did not come in time"
        time.sleep(every)


def _table(lines: Sequence[Line]) -> Table:
    table = Table(title=f"medians of {ROUNDS} rounds, by turns", title_justify="left")
    table.add_column("what")
    table.add_column("who")
    for heading in ("figure", "CPU each", "beside the peer"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        cpu = "" if line.cpu is None else f"{line.cpu:,.0f} us"
        value = f"{line.value:,.0f}" if line.value >= 100 else f"{line.value:.2f}"
        table.add_row(line.what, line.who, f"{value} {line.unit}", cpu, f"x {line.ratio:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python", type=Path, help="the interpreter of the peers' environment")
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    asked = parser.parse_args()
    if unknown := set(asked.sections) - set(SECTIONS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    lines = []
    with tempfile.TemporaryDirectory(prefix="cronhare-bench-") as folder:
        (Path(folder) / "servers").mkdir()
        with production(Path(folder) / "servers") as servers:
            bench = Bench(servers, asked.python.absolute(), Path(folder))
            for name in asked.sections or SECTIONS:
                print(f"measuring: {name}", file=sys.stderr)
                lines += SECTIONS[name](bench)
    Console(width=120).print(_table(lines))


if __name__ == "__main__":
    main()
