"""A run is cancelled, another one waits for the one before it, a third one is a poison pill."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from .receiver import Told
from .system import DidNotHappen, System


@dataclass(frozen=True)
class ByHand:
    """The executions that were asked for."""

    photo: int
    report: int
    first: int
    second: int


def ask_for_runs(system: System) -> ByHand:
    """Type all of them: what they come to is looked at one by one."""
    names = ("photo", "year-report", "stocktaking", "stocktaking")
    photo, report, first, second = [system.run(name) for name in names]
    return ByHand(photo, report, first, second)


def run_is_cancelled(system: System, execution: int) -> None:
    """Show that a task of ten minutes is gone at once."""
    process = system.until(lambda: _process_of(system, execution), "the report was not begun")
    asked_at = time.monotonic()
    system.type("executions", "cancel", str(execution))
    system.logged("attempt.cancelled", execution=execution)
    if Path(f"/proc/{process}").exists():
        raise DidNotHappen(f"process {process} goes on")
    printed = system.type("executions", "list", "--schedule", "year-report")
    if "cancelled" not in printed:
        raise DidNotHappen("`executions list` does not say cancelled")
    seconds = time.monotonic() - asked_at
    system.screen.came_of_it(f"Process {process} was ended, all within {seconds:.1f} s.")


def overlap_waits(system: System, first: int, second: int) -> None:
    """Show that a second run begins when the first has ended, and not before."""
    system.logged("attempt.start", execution=first)
    system.until(lambda: _waits_for(system, first, second), f"it does not wait for {first}")
    system.screen.typed("touch shelves-are-counted")
    system.file("shelves-are-counted").touch()
    system.logged("attempt.succeeded", execution=second)
    record = system.file("shelves").read_text().split("\n")[:-1]
    expected = [f"{what} {number}" for number in (first, second) for what in ("begins", "ends")]
    if record != expected:
        raise DidNotHappen(f"the task has noted {', '.join(record)}")
    system.screen.came_of_it(f"The task's own record: {', '.join(record)}.")


def pill_is_quarantined(system: System, execution: int) -> None:
    """Show that what kills its process again and again is set apart, and told."""
    system.logged("execution.quarantined", execution=execution)
    starts = len(system.log.lines("attempt.start", execution=execution))
    printed = system.type("quarantine", "list")
    told = system.until(lambda: _told_of(system, "photo"), "nobody was told of the quarantine")
    kind = told.event["type"]
    if starts != 3 or "photo" not in printed or kind != "schedule.quarantined":  # noqa: PLR2004
        raise DidNotHappen(f"it was started {starts} times, and told as {kind}")
    others = len(system.log.lines("attempt.succeeded"))
    system.screen.came_of_it(
        f"Started 3 times, and no more; the webhook was told {kind}. Others went on: "
        f"{others} runs have succeeded so far."
    )


def _waits_for(system: System, first: int, second: int) -> bool:
    printed = " ".join(system.type("explain", str(second)).split())
    return f"Execution {first} of the same schedule has not ended" in printed


def _process_of(system: System, execution: int) -> int | None:
    lines = system.log.lines(execution=execution)
    found = (re.search(r":(\d+)$", line.get("child", "")) for line in lines)
    return next((int(match[1]) for match in found if match), None)


def _told_of(system: System, schedule: str) -> Told | None:
    return next((told for told in system.receiver.told if told.schedule == schedule), None)
