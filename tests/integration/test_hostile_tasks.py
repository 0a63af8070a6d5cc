"""What a task can do to the runner of all the others, by its pipes and by signals."""

import asyncio
import logging
import signal
import time
from pathlib import Path

import pytest

from cronhare.adapters.process import attempt, link
from cronhare.adapters.process.output import BURST, PER_SECOND
from cronhare.adapters.process.runner import ProcessRunner
from cronhare.domain.retries.outcome import Ending
from cronhare.ports.runner import StopReason
from tests.integration.invocations import alive, invocation, shell, until_file

pytestmark = pytest.mark.integration


class Weighed(logging.Handler):
    """Counts what the log of tasks would weigh, with 256 bytes for what stands before a line."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bytes += len(record.getMessage().encode()) + 256


@pytest.fixture
def weighed() -> "Weighed":
    return Weighed()


@pytest.mark.parametrize(
    "line",
    [
        '{"progress": 1%0400d}',
        '{"failed": true, "error": {"message": "m", "retry_after_ms": 1%0400d}}',
        '{"progress": 1%05000d}',
    ],
)
async def test_no_number_on_the_pipe_hangs_an_attempt_or_its_neighbour(
    runner: ProcessRunner, line: str
) -> None:
    hostile = shell(f"printf '{line}\\n' 0 >&3; sleep 0.2")
    async with asyncio.timeout(60):
        rans = await asyncio.gather(runner.run(hostile), runner.run(shell("sleep 0.3")))

    assert rans[0].outcome.ending in (Ending.SUCCEEDED, Ending.FAILED)
    assert rans[1].outcome.ending is Ending.SUCCEEDED


async def test_what_hangs_after_its_kill_gives_its_place_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attempt, "KILL_TIMEOUT", 0.05)
    signals: list[int] = []
    hangs = attempt.Attempt(invocation("true"), signals.append)  # no report of its end will come

    for _ in range(3):
        hangs.stop(StopReason.LEASE_LOST)
    async with asyncio.timeout(60):
        ran = await hangs.over

    assert signals == [signal.SIGKILL] * 3
    assert ran.outcome.ending is Ending.LOST
    assert "hangs in the kernel" in caplog.text


async def test_a_warden_that_answers_nothing_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text("import time; time.sleep(300)")
    monkeypatch.setattr(link, "_WARDEN", silent)
    monkeypatch.setattr(link, "EVERY", 0.02)
    lost = asyncio.Queue[str]()
    asks = link.Link(lambda _: None, lost.put_nowait, needed=lambda: True)

    asks.send({"ping": True})
    async with asyncio.timeout(60):
        folder = await lost.get()

    assert folder == asks.folder


async def test_a_runner_closes_though_its_warden_is_stopped(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    task = f"kill -STOP $PPID; echo $$ $PPID >{ready}; exec sleep 300"
    running = asyncio.create_task(runner.run(shell(task)))
    pid, warden = map(int, (await until_file(ready)).split())

    async with asyncio.timeout(60):
        await runner.close()
        ran = await running

    assert ran.outcome.ending is Ending.INTERRUPTED
    assert not alive(pid)
    assert not alive(warden)


async def test_tasks_that_write_without_end_leave_room_for_the_others(
    runner: ProcessRunner, weighed: Weighed
) -> None:
    log = logging.getLogger("cronhare.task")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(weighed)
    floods = [
        shell("exec yes ''", timeout=120),
        shell("yes '' >&2", timeout=120),
        shell("""yes '{"progress": "x"}' >&3""", timeout=120),
        shell("""yes '{"finish": 1}' >&3""", timeout=120),
    ]
    began, cpu = time.monotonic(), time.thread_time()
    try:
        flooding = asyncio.gather(*map(runner.run, floods))
        await asyncio.sleep(0.5)
        innocent = [(await runner.run(invocation("true"))).outcome.ending for _ in range(10)]
        late = await runner.run(shell("sleep 300", timeout=0.5))
        ended_before = not flooding.done()
        await asyncio.sleep(1)
        for flood in floods:
            runner.stop(flood.execution_id, StopReason.CANCELLED)
        rans = await flooding
    finally:
        log.removeHandler(weighed)
        log.setLevel(logging.NOTSET)
        log.propagate = True
    took, cpu = time.monotonic() - began, time.thread_time() - cpu

    assert innocent == [Ending.SUCCEEDED] * 10
    assert late.outcome.ending is Ending.TIMED_OUT
    assert ended_before
    assert {ran.outcome.ending for ran in rans} == {Ending.CANCELLED}
    assert weighed.bytes <= 3 * (BURST + (took + 1) * PER_SECOND) + 100_000
    assert cpu < took * 0.8  # of one processor; a loop that does nothing else takes all of it
    assert rans[0].stdout.bytes > 4 * 65_536  # what a pipe holds is read again and again
